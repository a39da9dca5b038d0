"""The measured part of a document: written by the tool between two marks, so that what people write around it stays.

Results of several runs go into one document by their folders:

    python -m tools.compare.performance docs/performance.md bench/convert bench/testbed
"""

import argparse
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

BEGIN: Final = "<!-- measured: begin; written by tools.compare -->"
END: Final = "<!-- measured: end -->"
_NEW: Final = f"# Performance\n\n{BEGIN}\n{END}\n"


def write_measured(document: Path, text: str, *, pictures: Sequence[Path]) -> None:
    """Put a text between the marks of a document, which is made if it is not there, and its pictures beside it.

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
        If the document has no marks.
    """
    old = document.read_text() if document.exists() else _NEW
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


def measured_text(folders: Sequence[Path]) -> str:
    """Return what runs have written into their folders, in the order given.

    Raises
    ------
    FileNotFoundError
        If a folder holds no markdown file.
    """
    parts = []
    for folder in folders:
        texts = [path.read_text().strip() for path in sorted(folder.glob("*.md"))]
        if not texts:
            raise FileNotFoundError(f"{folder}: expected the folder of a run, found no markdown file in it")
        parts += texts
    return "\n\n".join(parts)


def main() -> None:
    """Write the results of some runs into a document."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("document", type=Path)
    parser.add_argument("folders", type=Path, nargs="+", help="what --out was")
    options = parser.parse_args()
    pictures = [picture for folder in options.folders for picture in sorted(folder.glob("*.png"))]
    write_measured(options.document, measured_text(options.folders), pictures=pictures)


if __name__ == "__main__":
    main()
