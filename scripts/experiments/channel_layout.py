"""Channels-last against channels-first layout of one image; prints milliseconds and ratios.

    OMP_NUM_THREADS=1 python scripts/bench_channels.py [--height 1024] [--width 1536] [--channels 3] [--rounds 15]

A blur in two stages and a difference run on this machine's processor, scheduled by `roots`, which stores both stages in
memory, and by the beam search. Calls of the two layouts are interleaved. The megabytes of intermediate arrays are
printed with the times.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

import autosched
from autosched import Func, Input, Pipeline, Var, float32

y, x, c = Var("y"), Var("x"), Var("c")


def pipeline(dims: tuple[Var, ...], extents: dict[str, int]) -> Pipeline:
    """Return the pipeline over an image with its dimensions in the given order."""
    image = Input("image", float32, 3)
    source, rows, columns, out = image.clamped(), Func("rows"), Func("columns"), Func("out")

    def at(func: Any, dy: int, dx: int) -> Any:
        moved = {"y": y + dy, "x": x + dx, "c": c}
        return func[tuple(moved[d.name] for d in dims)]

    rows[dims] = (at(source, 0, -1) + 2 * at(source, 0, 0) + at(source, 0, 1)) / 4
    columns[dims] = (at(rows, -1, 0) + 2 * at(rows, 0, 0) + at(rows, 1, 0)) / 4
    out[dims] = at(columns, 0, 0) + (at(columns, -1, -1) - at(columns, 1, 1)) * 0.5
    return Pipeline([out.over(**{d.name: (0, extents[d.name]) for d in dims})], name="blurred")


def main() -> None:
    """Time both layouts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("height", 1024), ("width", 1536), ("channels", 3), ("rounds", 15)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    extents = {"y": options.height, "x": options.width, "c": options.channels}
    planar = np.random.default_rng(0).random((options.channels, options.height, options.width), np.float32)
    images = {(y, x, c): np.ascontiguousarray(planar.transpose(1, 2, 0)), (c, y, x): planar}
    for strategy in ("roots", "beam"):
        compiled = []
        for dims, image in images.items():
            found = autosched.schedule(
                pipeline(dims, extents), inputs={"image": image}, target="cpu", strategy=strategy
            )
            compiled.append((found.compile("cpu"), found.program.workspace_bytes / 1e6, image))
        last, first = (np.asarray(run({"image": image})) for run, _, image in compiled)
        assert np.array_equal(last.transpose(2, 0, 1), first), "both layouts have the same result"
        times = np.zeros((options.rounds, 2))
        for k in range(options.rounds):
            for at, (run, _, image) in enumerate(compiled):
                started = time.perf_counter()
                run({"image": image})
                times[k, at] = 1e3 * (time.perf_counter() - started)
        ratio = np.median(times[:, 0] / times[:, 1])
        (one, other), (mb, other_mb) = np.median(times, axis=0), (m for _, m, _ in compiled)
        print(f"{strategy:6} channels last {one:7.2f} ms, {mb:6.1f} MB; first {other:7.2f} ms, {other_mb:6.1f} MB; "
              f"last / first {ratio:.2f}")  # fmt: skip
