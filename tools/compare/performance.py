"""The measured part of a document: written by the tool between two marks, so that what people write around it stays.

Results of several runs go into one document by their folders:

    python -m tools.compare.performance docs/performance.md bench/convert bench/testbed

A summary of all of them comes first, then what each of them found.
"""

import argparse
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tools.ablation import report
from tools.ablation.results import Results as Ablation
from tools.compare import tables
from tools.compare.command import Parser, carry_out, refuse
from tools.compare.results import Results
from tools.compare.summary import summary

BEGIN: Final = "<!-- measured: begin; written by tools.compare -->"
END: Final = "<!-- measured: end -->"
_COMPARISON: Final = "results.json"
_ABLATION: Final = "ablation.json"


def write_measured(document: Path, text: str, *, pictures: Sequence[Path]) -> None:
    """Put a text between the marks of a document, and pictures beside it.

    A picture's name begins with that of its folder: two runs may have asked the same question.

    Parameters
    ----------
    document
        A markdown file.
    text
        Markdown.
    pictures
        PNG files; copied to a folder named as the document is.

    Raises
    ------
    ValueError
        If there is no such document, or it has no marks.
    """
    old = check_document(document)
    folder = document.with_suffix("")
    lines = []
    if pictures:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    for picture in pictures:
        name = f"{picture.parent.name}-{picture.name}"
        shutil.copy(picture, folder / name)
        lines.append(f"![{picture.stem}]({folder.name}/{name})")
    document.write_text(spliced(old, "\n\n".join([text.rstrip(), *lines]), name=str(document)))


def check_document(document: Path) -> str:
    """Return the text of a document that has marks.

    Raises
    ------
    ValueError
        If there is no such document, or it has no marks.
    """
    if not document.is_file():
        raise ValueError(f"{document}: expected a markdown file with the lines {BEGIN} and {END}, found no file")
    text = document.read_text()
    spliced(text, "", name=str(document))
    return text


def spliced(old: str, text: str, *, name: str) -> str:
    r"""Return a document with another text between its marks.

    >>> print(spliced(f"a\n{BEGIN}\nold\n{END}\nz", "new", name="x.md"))
    a
    <!-- measured: begin; written by tools.compare -->
    <BLANKLINE>
    new
    <BLANKLINE>
    <!-- measured: end -->
    z
    """
    before, begin, rest = old.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(
            f"{name}: expected the lines {BEGIN} and {END}, found none: add them where the figures shall be"
        )
    return f"{before}{BEGIN}\n\n{text}\n\n{END}{after}"


def load_folder(folder: Path) -> list[Results | Ablation]:
    """Return what runs have left in a folder: a comparison, an ablation, or both.

    Raises
    ------
    ValueError
        If there is neither, or it cannot be read.
    """
    found: list[Results | Ablation] = []
    if (folder / _COMPARISON).exists():
        found.append(Results.load(folder / _COMPARISON))
    if (folder / _ABLATION).exists():
        found.append(Ablation.load(folder / _ABLATION))
    if not found:
        raise ValueError(f"{folder}: expected the folder of a run, with {_COMPARISON} or {_ABLATION}, found neither")
    return found


def measured_text(measured: Sequence[Results | Ablation]) -> str:
    """Return a summary of all that was measured, then each in the order given."""
    comparisons = [one for one in measured if isinstance(one, Results)]
    ablations = [one for one in measured if isinstance(one, Ablation)]
    parts = []
    if comparisons:
        parts += ["### In short", summary(comparisons)]
    if ablations:
        parts += ["### What the layout is worth, in short", report.summary(ablations)]
    parts += [_document(one).strip() for one in measured]
    return "\n\n".join(parts)


def _document(measured: Results | Ablation) -> str:
    return tables.document(measured) if isinstance(measured, Results) else report.document(measured)


def main() -> None:
    """Write the results of some runs into a document."""
    parser = Parser(
        prog="python -m tools.compare.performance",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("document", type=Path, help="markdown with the marks")
    parser.add_argument("folders", type=Path, nargs="+", help="what --out was")
    options = parser.parse_args()
    pictures = [picture for folder in options.folders for picture in sorted(folder.glob("*.png"))]
    try:
        check_document(options.document)
        measured = [one for folder in options.folders for one in load_folder(folder)]
        write_measured(options.document, measured_text(measured), pictures=pictures)
    except (ValueError, OSError) as exc:
        refuse("performance", exc)


if __name__ == "__main__":
    sys.exit(carry_out(main, name="performance"))
