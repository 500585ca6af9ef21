"""Searches with and without guides, in turns in one process."""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

from autosched.analysis.bind import bind
from autosched.apps import get_app
from autosched.search.guidance.guide import Guide, KernelGuide
from autosched.search.guidance.guided_settings import guided_settings
from autosched.search.settings import SearchSettings
from autosched.search.strategies.protocol import Beam
from autosched.target import get_target

TILE = Guide(KernelGuide(threads={"x": 32, "y": 8}))
ASSIGN = Guide(
    KernelGuide("z", {"x": 16, "y": 16}),
    memory={"u_0": "shared", "u_1": "shared", "u_2": "shared", "mu": "global", "la": "global"},
)
"""The paper's ``#assign shmem (u0,u1,u2), gmem (mu,la)`` for rhs4center, with a block of 16 x 16 threads."""
CASES = {"harris": TILE, "unsharp": TILE, "camera_pipe": TILE, "rhs4center": ASSIGN}
EXTENT = 160
"""Points of a side of rhs4center."""


@dataclass(frozen=True, order=True)
class SearchCost:
    """One search: processor seconds, kernels costed, predicted seconds of the result."""

    seconds: float
    kernels: int
    predicted: float


def searched(name: str, guide: Guide) -> SearchCost:
    """Search an app for the H200 with a guide, which may be empty."""
    app = get_app(name)
    pipeline, params = app.configure({})
    shapes = {k: (EXTENT,) * len(e) for k, e in app.extents.items()} if name == "rhs4center" else app.shapes()
    bound, target = bind(pipeline, shapes, params), get_target("h200")
    settings = guided_settings(SearchSettings(beam_size=8, passes=2), guide)
    started = time.process_time()
    result = Beam(settings).search(bound, target)
    return SearchCost(time.process_time() - started, result.counts.kernels, result.ranked[0].seconds)


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=2, help="searches of each kind; the least time counts")
    options = parser.parse_args()
    print("| app | kernels | | s | | us | |")
    print("|---|---|---|---|---|---|---|")
    for name, guide in CASES.items():
        rounds = [(searched(name, Guide()), searched(name, guide)) for _ in range(options.rounds)]
        free, guided = (min(kind) for kind in zip(*rounds, strict=True))
        print(
            f"| {name} | {free.kernels:,} | {guided.kernels:,} | {free.seconds:.2f} | {guided.seconds:.2f} "
            f"| {free.predicted * 1e6:.1f} | {guided.predicted * 1e6:.1f} |",
            flush=True,
        )
    return 0
