"""Make a directory of photographs arranged and sized like ImageNet, from a few photographs that packages ship.

``python -m tools.make_imagenet_like DIR`` writes ``DIR/train/<wnid>/<wnid>_<n>.JPEG`` and
``DIR/val/<wnid>/ILSVRC2012_val_<n>.JPEG``. A class is a region of one of the colour photographs inside the wheels of
scikit-image and scikit-learn; nothing is downloaded. Each image is a crop of its class's region, enlarged and given
grain like a sensor's, so that its JPEG comes near a size drawn from a lognormal distribution; crops for train and val
come from separate parts of the region. Equal arguments give equal files, as far as one version of Pillow goes.
"""

import errno
import io
import os
import shutil
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from typing import Annotated, Final

import numpy as np
import typer
from numpy.typing import NDArray
from PIL import Image, ImageChops

from lmdbio.cli.sizes import format_size, parse_size

PHOTOGRAPHS: Final = {
    "skimage": [
        "data/astronaut.png",
        "data/chelsea.png",
        "data/coffee.png",
        "data/hubble_deep_field.jpg",
        "data/ihc.png",
        "data/motorcycle_left.png",
        "data/retina.jpg",
        "data/rocket.jpg",
    ],
    "sklearn": ["datasets/images/china.jpg", "datasets/images/flower.jpg"],
}
SPLITS: Final = ("train", "val")
TRAIN_SHARE: Final = 0.75
"""Part of a region's longer side that train is cropped from; the rest is val's."""
SIZE_SIGMA: Final = 0.5
"""Standard deviation of the natural logarithm of the files' sizes."""
QUALITIES: Final = (82, 89, 96)
MEASURED_WIDTHS: Final = (300, 900)
"""Sizes of a part's JPEGs are measured at these, and follow a power law of the pixels in between and beyond."""
MAX_PIXELS: Final = 3_000_000
MAX_ASPECT: Final = 2.0
GRAIN_SIGMA: Final = 6.0
GRAIN_SIDE: Final = 3072
GRAIN_SHIFT: Final = GRAIN_SIDE - int((MAX_PIXELS * MAX_ASPECT) ** 0.5) - 1
"""Where an image's grain begins at most, for the longest image to have grain all over."""


@dataclass(frozen=True, slots=True)
class Part:
    """What one split of one class is cropped from."""

    image: Image.Image
    laws: dict[int, tuple[float, float]]
    """By JPEG quality, (c, e): an image of p pixels takes about c * p^e bytes."""


@dataclass(frozen=True, slots=True)
class Task:
    """One image to make."""

    path: Path
    part: tuple[str, int]
    """Split and class number."""
    seed: tuple[int, ...]


def make_imagenet_like(
    directory: str | os.PathLike[str],
    *,
    n_classes: int = 20,
    n_train: int = 2700,
    n_val: int = 300,
    seed: int = 0,
    mean_size: int = 110 * 1024,
    workers: int | None = None,
) -> int:
    """Write the directory, which must not exist, and return the bytes of all its images.

    It has its name only once it is whole.

    Parameters
    ----------
    directory
        Where ``train`` and ``val`` are made; a split of no images is left out.
    n_classes
        Classes, numbered in the order of their names.
    n_train, n_val
        Images of each split in all; the classes get equally many, or one more.
    seed
        What crops, sizes and qualities are drawn from.
    mean_size
        Mean size of an image in bytes, about.
    workers
        Threads; by default one for each core that this process may use.

    Raises
    ------
    FileExistsError
        If the directory exists.
    ValueError
        If there is no class.
    """
    if n_classes < 1:
        raise ValueError(f"n_classes: expected 1 or more, found {n_classes}")
    root = Path(directory)
    if root.exists():
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(root))
    root.parent.mkdir(parents=True, exist_ok=True)
    partial = root.with_name(f"{root.name}.partial-{os.getpid()}")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        n_bytes = _make_all(partial, {"train": n_train, "val": n_val}, n_classes, seed, mean_size, workers)
        partial.rename(root)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return n_bytes


def _make_all(
    root: Path, counts: dict[str, int], n_classes: int, seed: int, mean_size: int, workers: int | None
) -> int:
    """Make all images, or stop after those that are being made."""
    counts = {split: count for split, count in counts.items() if count}
    tasks = _plan(root, counts, n_classes, seed)
    root.mkdir()
    for folder in {task.path.parent for task in tasks}:
        folder.mkdir(parents=True)
    grain = _grain()
    pool = ThreadPoolExecutor(workers or len(os.sched_getaffinity(0)))
    try:
        regions = _regions(n_classes)
        wanted = [(split, number) for split in counts for number in range(n_classes)]
        parts = dict(zip(wanted, pool.map(lambda key: _part(regions[key[1]], key[0], grain), wanted), strict=True))
        return sum(pool.map(lambda task: _make(task, parts[task.part], mean_size, grain), tasks))
    finally:
        pool.shutdown(cancel_futures=True)


def wnid(number: int) -> str:
    """Return the name of a class, in WordNet's form but of no noun there.

    >>> wnid(0), wnid(19)
    ('n90000740', 'n90014800')
    """
    return f"n{90_000_000 + 740 * (number + 1)}"


def _plan(root: Path, counts: dict[str, int], n_classes: int, seed: int) -> list[Task]:
    """Return what to make: train numbered within each class, val through all, its classes mixed, as in ImageNet."""
    tasks = []
    for split, count in counts.items():
        # classes: class of each image, (count,)
        classes = np.arange(count) % n_classes
        if split == "val":
            np.random.default_rng([seed, 1]).shuffle(classes)
        for image, number in enumerate(classes.tolist()):
            name = wnid(number)
            file = f"ILSVRC2012_val_{image + 1:08d}" if split == "val" else f"{name}_{image // n_classes * 7 + 18}"
            task_seed = (seed, 2 + SPLITS.index(split), number, image)
            tasks.append(Task(root / split / name / f"{file}.JPEG", (split, number), task_seed))
    return tasks


def _regions(n_classes: int) -> list[Image.Image]:
    """Return each class's region: the photographs in turn, each cut into as many cells of a grid as it has classes."""
    photographs = []
    for package, names in PHOTOGRAPHS.items():
        for name in names:
            with as_file(files(package) / name) as path, Image.open(path) as opened:
                photographs.append(opened.convert("RGB"))
    regions = []
    for number in range(n_classes):
        cell, photograph = divmod(number, len(photographs))
        image = photographs[photograph]
        n_cells = -(-(n_classes - photograph) // len(photographs))
        n_rows = int(np.sqrt(n_cells))
        row, column = cell % n_rows, cell // n_rows
        n_columns = -(-(n_cells - row) // n_rows)
        left, right = (image.width * i // n_columns for i in (column, column + 1))
        upper, lower = (image.height * i // n_rows for i in (row, row + 1))
        regions.append(image.crop((left, upper, right, lower)))
    return regions


def _part(region: Image.Image, split: str, grain: Image.Image) -> Part:
    """Return the part of a region that a split is cropped from, cut off so that no filter looks beyond it."""
    width, height = region.size
    cut = int(TRAIN_SHARE * max(width, height))
    if width >= height:
        box = (0, 0, cut, height) if split == "train" else (cut, 0, width, height)
    else:
        box = (0, 0, width, cut) if split == "train" else (0, cut, width, height)
    image = region.crop(box)
    laws = {}
    for quality in QUALITIES:
        pixels, sizes = [], []
        for side in MEASURED_WIDTHS:
            pixels.append(side * side)
            sizes.append(len(_encode(image, (0, 0, *image.size), (side, side), quality, grain, (0, 0))))
        exponent = np.log(sizes[1] / sizes[0]) / np.log(pixels[1] / pixels[0])
        laws[quality] = (sizes[0] / pixels[0] ** exponent, exponent)
    return Part(image, laws)


def _make(task: Task, part: Part, mean_size: int, grain: Image.Image) -> int:
    """Write one image and return its size in bytes."""
    rng = np.random.default_rng(task.seed)
    size = mean_size * np.exp(rng.normal(-(SIZE_SIGMA**2) / 2, SIZE_SIGMA))
    quality = int(rng.choice(QUALITIES))
    factor, exponent = part.laws[quality]
    pixels = min((size / factor) ** (1 / exponent), MAX_PIXELS)
    aspect = float(np.clip(np.exp(rng.normal(0.15, 0.25)), 1 / MAX_ASPECT, MAX_ASPECT))
    target = (max(16, round(np.sqrt(pixels * aspect))), max(16, round(np.sqrt(pixels / aspect))))
    width, height = part.image.size
    scale = rng.uniform(0.6, 1.0)
    crop = np.array([min(width, height * aspect), min(height, width / aspect)]) * scale
    corner = rng.uniform(0, 1, 2) * (np.array([width, height]) - crop)
    left, upper, right, lower = np.concatenate([corner, corner + crop]).tolist()
    x, y = rng.integers(0, GRAIN_SHIFT, 2).tolist()
    data = _encode(part.image, (left, upper, right, lower), target, quality, grain, (x, y))
    task.path.write_bytes(data)
    return len(data)


def _encode(
    image: Image.Image,
    box: tuple[float, float, float, float],
    size: tuple[int, int],
    quality: int,
    grain: Image.Image,
    offset: tuple[int, int],
) -> bytes:
    """Return the JPEG of a box of the image, enlarged to a size, with the grain that begins at an offset."""
    scaled = image.resize(size, Image.Resampling.BILINEAR, box=box)
    tile = grain.crop((offset[0], offset[1], offset[0] + size[0], offset[1] + size[1]))
    grainy = ImageChops.add(scaled, tile, scale=1, offset=-128)
    buffer = io.BytesIO()
    grainy.save(buffer, "JPEG", quality=quality)
    return buffer.getvalue()


def _grain() -> Image.Image:
    """Return grey noise around 128, the same in every run, as a square image in colour."""
    noise: NDArray[np.float32] = np.random.default_rng(0).standard_normal((GRAIN_SIDE, GRAIN_SIDE), np.float32)
    grey = np.clip(np.rint(128 + GRAIN_SIGMA * noise), 0, 255).astype(np.uint8)
    return Image.fromarray(grey).convert("RGB")


def main(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The directory to make.")],
    classes: Annotated[int, typer.Option(help="Classes.", min=1)] = 20,
    train: Annotated[int, typer.Option(help="Images in train.", min=0)] = 2700,
    val: Annotated[int, typer.Option(help="Images in val.", min=0)] = 300,
    seed: Annotated[int, typer.Option(help="What everything is drawn from.", min=0)] = 0,
    mean_size: Annotated[
        int, typer.Option(parser=parse_size, metavar="SIZE", help="Mean size of an image.")
    ] = "110KiB",  # type: ignore[assignment]
) -> None:
    """Make a directory of photographs arranged and sized like ImageNet."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # so that what was begun is removed
    if directory.exists():
        raise typer.BadParameter(f"{directory}: expected a directory yet to be made, found one: remove it first")
    n_bytes = make_imagenet_like(directory, n_classes=classes, n_train=train, n_val=val, seed=seed, mean_size=mean_size)
    print(f"{directory}: {train + val} images in {classes} classes, {format_size(n_bytes)}")


if __name__ == "__main__":
    typer.run(main)
