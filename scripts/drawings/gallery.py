"""Write docs/reference/gallery.md: inputs, outputs, stage graph and loop nests of the suite's image apps.

    python scripts/gallery.py [--apps harris,blur] [--out docs/reference]

An image app has an image as input: an array [H, W], or channels of such arrays. The C backend computes the pictures at
a reduced size; graphs and loop nests are for the paper's size. With --apps only the pictures of those apps are redrawn;
the page always lists every image app.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image

from autosched.analysis.bind import bind
from autosched.api import schedule
from autosched.apps import App, get_app, load_apps
from autosched.apps.hand_schedules.schedules import HAND
from autosched.apps.sizes import Extent, Size
from autosched.commands.run import compute
from autosched.search.strategies.compute_root import schedule_roots
from autosched.target import get_target
from drawings.graph import draw_graph
from drawings.nest import draw_nest

PAGE_DIRECTORY = Path(__file__).parents[2] / "docs" / "reference"
TARGET = "h200"
LONGER_SIDE = 256
"""Pixels of the pictures."""
MOST_CHANNELS = 4
PALETTE = 96
DARKEST_PERCENT, BRIGHTEST_PERCENT = 0.5, 99.5

Array = np.ndarray[Any, Any]

INTRODUCTION = """\
# Gallery

The image applications of the suite: inputs, outputs, stage graphs, and the loop nests of
`autosched schedule APP --strategy roots --target h200` at the paper's size. `make gallery` writes this page and its
pictures; [applications](apps.md) explains how to run them.

**Pictures** are {side} pixels along the longer side. Values beyond 0..1 (or 0..255 in uint8) are scaled: the darkest
{dark}% of the elements are black, the brightest {dark}% white. Of four channels, the last weights the others. The
photograph is a work of NASA in the public domain ([details](../../autosched/apps/data/README.md)).

**Stage graphs** show inputs (grey), Funcs that a kernel of their own computes (blue), Funcs computed where they are
used (dashed), and outputs (red); `+2` are two updates.

**Loop nests** show one block of boxes a kernel, in launch order: block loops (blue), thread loops (green), serial loops
(yellow), reduction loops (red), and the computation (white); the black lines are barriers. This schedule of `harris`,
written by hand, keeps three stages in shared memory:

![Loop nest of harris, written by hand](gallery/harris-by-hand.png)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--apps", help="apps to draw, separated by commas (default: all)")
    parser.add_argument("--out", type=Path, default=PAGE_DIRECTORY, help="directory of the page")
    args = parser.parse_args()
    pictures = args.out / "gallery"
    pictures.mkdir(parents=True, exist_ok=True)
    shown = image_apps()
    for name in args.apps.split(",") if args.apps else shown:
        draw_app(get_app(name), pictures)
        print(name, flush=True)
    (args.out / "gallery.md").write_text(page(shown), encoding="utf-8")
    total = sum(path.stat().st_size for path in pictures.iterdir())
    print(f"{len(list(pictures.iterdir()))} pictures, {total / 1e6:.2f} MB")


def image_apps() -> dict[str, App]:
    """Return the apps with an image as input, in the order of the suite."""
    return {name: app for name, app in load_apps().items() if any(map(is_image, app.extents.values()))}


def is_image(extents: tuple[Extent, ...]) -> bool:
    """Whether an array of these extents is an image: [H, W], optionally with leading channels and with borders."""
    *channels, height, width = (1, *extents)
    plane = [e.key if isinstance(e, Size) else "" for e in (height, width)]
    return (
        plane == ["H", "W"] and len(channels) <= 2 and isinstance(channels[-1], int) and channels[-1] <= MOST_CHANNELS
    )


def draw_app(app: App, pictures: Path) -> None:
    """Write every picture of an app."""
    pipeline, values = app.configure()
    inputs = app.make_inputs(reduced_sizes(app))
    kernel = schedule(pipeline, inputs=inputs, target="cpu", params=values, strategy="roots").compile("cpu")
    outputs = compute(kernel, inputs)
    for picture in array_pictures(app):
        array = outputs[picture.array] if picture.is_output else inputs[picture.array]
        save_picture(pictures / picture.file, array)
    bound = bind(pipeline, app.shapes(), values)
    roots = schedule_roots(bound, get_target(TARGET))
    draw_graph(bound, roots, pictures / f"{app.name}-stages.png")
    draw_nest(bound, roots, pictures / f"{app.name}-loops.png")
    if app.name == "harris":
        draw_nest(bound, HAND[app.name](bound), pictures / "harris-by-hand.png")


def reduced_sizes(app: App) -> dict[str, int]:
    """Return the paper's sizes with heights and widths divided so that the longer side has `LONGER_SIDE` pixels."""
    factor = max(app.default_sizes["H"], app.default_sizes["W"]) / LONGER_SIDE
    return {key: max(1, round(n / factor)) if key.endswith(("H", "W")) else n for key, n in app.default_sizes.items()}


@dataclass(frozen=True)
class ArrayPicture:
    """A picture of an input or output array."""

    app: str
    array: str
    is_output: bool

    @property
    def kind(self) -> str:
        """Whether the array is an input or an output."""
        return "output" if self.is_output else "input"

    @property
    def file(self) -> str:
        """Name of the file."""
        return f"{self.app}-{self.kind}-{self.array}.png"


def array_pictures(app: App) -> list[ArrayPicture]:
    """Return the pictures of an app's arrays, inputs first."""
    bound = bind(app.build(), app.shapes(app.small_sizes))
    small_side = min(app.small_sizes["H"], app.small_sizes["W"]) // 2
    shown = [ArrayPicture(app.name, name, False) for name, extents in app.extents.items() if is_image(extents)]
    for name, func in bound.outputs.items():
        *channels, height, width = (1, *bound.funcs[func].extents)
        if len(channels) <= 2 and channels[-1] <= MOST_CHANNELS and min(height, width) >= small_side:
            shown.append(ArrayPicture(app.name, name, True))
    return shown


def save_picture(path: Path, array: Array) -> None:
    """Write an array [H, W] or [C, H, W] as a PNG of few colours."""
    shown = as_rgb(in_unit_range(array))
    picture = PIL.Image.fromarray(np.rint(shown * 255).astype(np.uint8))
    picture.quantize(PALETTE).save(path, optimize=True)


def in_unit_range(array: Array) -> Array:
    """Return an array scaled and clipped to 0..1."""
    values = array.astype(np.float64)
    if array.dtype == np.uint8:
        return values / 255
    low, high = np.percentile(values, (DARKEST_PERCENT, BRIGHTEST_PERCENT))
    if values.min() >= 0 and values.max() <= 1:
        low, high = 0.0, 1.0
    scaled: Array = np.clip((values - low) / (high - low if high > low else 1.0), 0, 1)
    return scaled


def as_rgb(array: Array) -> Array:
    """Return an array in 0..1 with channels first as [H, W] grey or [H, W, 3] RGB."""
    if array.ndim == 2:
        return array
    weight = array[3] if len(array) == MOST_CHANNELS else 1.0
    return array[0] if len(array) < 3 else np.ascontiguousarray(np.moveaxis(array[:3] * weight, 0, -1))


def page(apps: Mapping[str, App]) -> str:
    """Return the page as Markdown."""
    lines = [INTRODUCTION.format(side=LONGER_SIDE, dark=DARKEST_PERCENT)]
    lines += [" · ".join(f"[{name}](#{name})" for name in apps), ""]
    for name, app in apps.items():
        pipeline = app.build()
        shown = array_pictures(app)
        sizes = ", ".join(f"{key} = {n}" for key, n in app.default_sizes.items())
        definitions = sum(len(f.definitions) for f in pipeline.funcs)
        stages = f"{len(pipeline.funcs)} Funcs with {definitions} definitions"
        lines += [
            f"## {name}",
            "",
            f"{app.summary}. {stages}; {app.origin}; {sizes}.",
            "",
            row(f"{p.kind} `{p.array}`" for p in shown),
            row("---" for _ in shown),
            row(f"![{p.array} of {name}](gallery/{p.file})" for p in shown),
            "",
            "Stages:",
            "",
            f"![Stage graph of {name}](gallery/{name}-stages.png)",
            "",
            "Loops:",
            "",
            f"![Loop nest of {name}](gallery/{name}-loops.png)",
            "",
        ]
    return "\n".join(lines)


def row(cells: Iterable[str]) -> str:
    """Return a row of a Markdown table."""
    return f"| {' | '.join(cells)} |"
