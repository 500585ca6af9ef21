"""Schedules with the structure that Halide's authors publish for GPUs: the enumeration contains their placements.

Func by Func, in the order of the decisions, the option with the expert's compute location is applied. Tilings are the
nearest that are enumerated. At the end all kernels are legal.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pytest

import autosched
from autosched import Func, Input, Pipeline, RDom, Var, float32, undef
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.apps import get_app
from autosched.lower.program import lower
from autosched.schedule.legality.validate import violations
from autosched.schedule.types import Level, StageId
from autosched.search.beam.state import Params, State
from autosched.search.beam.to_schedule import schedule_of
from autosched.search.cost.gpu_analytical import AnalyticalModel
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.refine.mainloop.mainloop_search import MainloopSearch
from autosched.search.refine.mainloop.mainloop_sites import mainloop_sites
from autosched.search.settings import SearchSettings
from autosched.search.space.decisions import Option
from autosched.search.space.option_enumeration import OptionEnumerator
from autosched.search.strategies.compute_root import schedule_roots
from autosched.target import get_target
from tests.featurize.random_kernels import states_of
from tests.lower.run_backends import assert_backends_agree

x, y = Var("x"), Var("y")
H200 = get_target("h200")
NEAR = 2.0
"""Largest ratio between a dimension of the expert's tile and of the nearest one that is enumerated."""

THREADS = 128
"""Threads of a block that experts' tiles of producers have, nearly."""

Tile = tuple[int, ...]


@dataclass(frozen=True)
class Expert:
    """The structure of a schedule.

    Attributes:
        root: Funcs with a kernel of their own, and the points of a block in each of their dimensions; none for a tile
            that the expert leaves to defaults.
        block: Funcs computed in shared memory by the block of their consumer.
        thread: Funcs computed by each thread; all others are inlined.
        step: Funcs computed in each step of a reduction.
        lacks: Parts of the schedule that the space lacks, each with the reason.
        pruned: Kernels that are enumerated and pruned, each with the pruning rule.
    """

    root: Mapping[str, Tile | None]
    block: tuple[str, ...] = ()
    thread: tuple[str, ...] = ()
    step: tuple[str, ...] = ()
    lacks: Mapping[str, str] = field(default_factory=dict)
    pruned: Mapping[str, str] = field(default_factory=dict)

    def kind(self, func: str) -> str:
        """Return the kind of option of a Func's compute location."""
        if func in self.root:
            return "root"
        if func in self.step:
            return "root"  # a mainloop replaces the kernels of its producers
        return "block" if func in self.block else "thread" if func in self.thread else "inline"


LEVELS = range(1, 8)
DEMOSAICED = ("g_at_r", "g_at_b", "r_at_gr", "b_at_gr", "r_at_gb", "b_at_gb", "r_at_b", "b_at_r")
EXPERTS: dict[str, Expert] = {
    "bilateral_grid": Expert(
        root={
            "blur_z": (2, 12, 8, 8), "blur_x": (2, 1, 16, 32), "blur_y": (2, 1, 16, 32), "output": (8, 32),
        },
        block=("grid",), thread=("interpolated",),
        lacks={"vectors of both channels": "vectors are of neighbours in storage, which differ in x here"},
    ),
    "local_laplacian": Expert(
        root={
            "remap": None, "output": (3, 8, 16), "result_0": (8, 16),
            **{f"gray_{k}": (8, 16) if k <= 3 else None for k in LEVELS},
            **{f"gaussian_{k}": (8, 8, 16) if k <= 3 else None for k in LEVELS},
            **{f"result_{k}": (8, 16) if k <= 3 else None for k in LEVELS},
        },
        lacks={"blocks of 2 x 2 threads at coarse levels": "rows of a block have at least half a warp"},
        pruned={"gaussian_1": "too much recomputation"},  # 16 points of gaussian_0 for each
    ),
    "camera_pipe": Expert(
        root={"curve": None, "matrix": None, "output": (3, 12, 56)},
        block=("denoised", "gr", "r", "b", "gb", *DEMOSAICED, "red", "green", "blue", "corrected", "curved"),
    ),
    "nl_means": Expert(
        root={"total": (4, 8, 16), "output": (3, 8, 16)}, step=("distance", "blur_y", "blur"),
        lacks={"sums in the kernel of the output": "the output reads the sums at another point, that of the weights, "
               "and an epilogue reads only its own points of a register tile"},
    ),
    "max_filter": Expert(root={"slice_of": None, "half_height": None, "powers": None, "output": (1, 1, 128)}),
    "iir_blur": Expert(
        root={"transposed": (1, 32, 32), "output": (1, 32, 32)}, block=("blur_columns", "blur_rows"),
        lacks={"a loop over tiles in a block, which reads one strip of columns": "blocks have one tile, or slide along "
               "a dimension of stencils; a block of each tile would filter the strip again",
               "strips in global memory": "the tile of a block is in shared memory, which long columns exceed"},
    ),
    "lens_blur": Expert(
        root={
            "push_0": (2, 32, 16, 16),
            **{f"push_{k}_clamped": (2, 8, 8, 8) if k < 7 else None for k in LEVELS},
            **{f"pull_{k}": (2, 8, 8, 8) for k in range(1, 7)},
            "depth": (16, 16), "color": (4, 16, 16), "worst_radius_y": (16, 16), "worst_radius": (16, 16),
            "output": (3, 16, 16),
        },
        thread=("cost", "moments", "best", "light", "visible", "rays"),
        lacks={"blocks of 8 x 8 x 8 points at the coarsest level": "a dimension is padded by a seventh at most"},
        pruned={"push_0": "too large for a thread's registers"},  # the costs of all depths
    ),
}  # fmt: skip


def bound_at_full_size(name: str) -> BoundPipeline:
    app = get_app(name)
    pipeline, params = app.configure({})
    return bind(pipeline, app.shapes(app.default_sizes), params)


def enumerator_of(bound: BoundPipeline) -> OptionEnumerator:
    return OptionEnumerator(KernelEvaluator(bound, H200, AnalyticalModel(H200), SearchSettings()))


def nearest(enumerator: OptionEnumerator, options: list[Option], tile: Tile) -> tuple[Option, float]:
    """Return the tiling whose blocks are nearest to a tile, and the largest ratio of a dimension."""

    def distance(option: Option) -> tuple[float, int, int]:
        (piece,) = option.added
        layout = enumerator.compute_locations.layout(piece.sketch)
        threads, serial = np.array(piece.params)[layout.root_threads], np.array(piece.params)[layout.root_serial]
        extents = np.array(enumerator.evaluator.kernel_model(piece.sketch).grid.sizes)
        wanted = np.minimum(np.array(tile), extents)
        ratios = np.abs(np.log(np.minimum(threads * serial, extents) / wanted))
        # All threads are along y and x; channels and depths are loops of a thread.
        return round(float(ratios.max()), 3), int(threads[:-2].prod()), int(serial[-2:].prod())

    best = min(options, key=distance)
    return best, math.exp(distance(best)[0])


def replayed(name: str) -> tuple[OptionEnumerator, State, list[str]]:
    """Return the state after all decisions, and what is not enumerated."""
    expert, enumerator = EXPERTS[name], enumerator_of(bound_at_full_size(name))
    state, missing = enumerator.start_state(), []
    for decision in enumerator.decisions():
        enumerator.prefetch([state], decision)
        options = list(enumerator.options(state, decision))
        if not options:
            continue
        chosen = options[0]
        if decision.group is None:
            placed = [o for o in options if o.kind == expert.kind(decision.func)]
            if not placed:
                missing.append(f"{decision.func} at {expert.kind(decision.func)}")
            chosen = min(placed or options, key=lambda o: preference(enumerator, o, decision.func))
        elif (tile := expert.root.get(decision.func)) is not None:
            chosen, ratio = nearest(enumerator, options, tile)
            if ratio > NEAR:
                missing.append(f"{decision.func} in tiles of {tile}: {chosen.added[0].params}, {ratio:.1f} times")
        state = enumerator.apply_option(state, decision, chosen, costed=False)
    return enumerator, state, missing


def preference(enumerator: OptionEnumerator, option: Option, func: str) -> float:
    """Return the key of the first option: the innermost loop at THREAD, and about `THREADS` threads at BLOCK."""
    (piece, *_) = option.added
    location = piece.sketch.location(func)
    if option.level is Level.THREAD and location is not None:
        return -float(location.each_term)
    return abs(math.log(math.prod(threads_of(enumerator, option, func)) / THREADS))


def threads_of(enumerator: OptionEnumerator, option: Option, func: str) -> Params:
    """Return the threads of a Func that is placed at BLOCK; none for other levels."""
    if option.level is not Level.BLOCK:
        return ()
    (piece,) = option.added
    return piece.params[enumerator.compute_locations.layout(piece.sketch).threads_of(func)]


def test_every_placement_is_enumerated() -> None:
    assert {name: missing for name in EXPERTS if (missing := replayed(name)[2])} == {}


@pytest.mark.parametrize("name", [n for n in EXPERTS if n not in ("iir_blur", "nl_means")])
def test_the_enumerated_schedule_is_legal(name: str) -> None:
    """Not refused, and pruned where listed; `Expert.lacks` has the reason for the two that are left out."""
    enumerator, state, _ = replayed(name)
    pieces = [(p.sketch, p.params) for p in state.pieces]
    enumerator.evaluator.evaluate(pieces)
    assert {p[0].func: reason for p in pieces if (reason := enumerator.evaluator.verdict(*p).reason)} == EXPERTS[
        name
    ].pruned
    schedule = schedule_of(enumerator.evaluator, state)
    pruned = tuple(f"kernel {n}:" for n, k in enumerate(schedule.kernels) if k.root_funcs[0] in EXPERTS[name].pruned)
    assert [v for v in violations(enumerator.bound, schedule, H200) if not v.startswith(pruned or "-")] == []


def test_producers_of_each_step_are_enumerated() -> None:
    bound, expert = bound_at_full_size("nl_means"), EXPERTS["nl_means"]
    sites = [s for s in mainloop_sites(bound, schedule_roots(bound, H200)) if s.computed == expert.step]
    (site,) = sites
    best = MainloopSearch(bound, H200, AnalyticalModel(H200), SearchSettings()).best(site)
    assert best is not None
    levels = {m.func: m.at.level for m in best.kernel.fused}
    assert levels == dict.fromkeys(expert.step, Level.MAINLOOP)
    assert best.kernel.mainloop_at is not None and best.kernel.mainloop_at.host == StageId("total", 1)


@pytest.mark.parametrize("target", ["h200", "cpu"])
def test_short_columns_are_filtered_by_the_blocks_that_read_them(target: str) -> None:
    """The default search computes columns that start undefined at BLOCK where they fit."""
    app = get_app("iir_blur")
    pipeline, _ = app.configure({})
    scheduled = autosched.schedule(pipeline, shapes=app.shapes(app.small_sizes), target=target, cost="analytical")
    placed = {m.func: m.at.level for k in scheduled.schedule.kernels for m in k.fused}
    assert Level.BLOCK in (placed.get("blur_columns"), placed.get("blur_rows"))


@pytest.mark.parametrize("seed", range(8))
def test_columns_that_start_undefined_are_right_at_every_level(seed: int) -> None:
    rng = np.random.default_rng(seed)
    height, width = (int(n) for n in rng.integers(2, 40, 2))
    image, b, out = Input("image", float32, 2), Func("b"), Func("out")
    r = RDom("r", y=(1, height))
    b[y, x] = undef(float32)
    b[0, x] = image[0, x]
    b[r.y, x] = b[r.y - 1, x] * 0.5 + image[r.y, x]
    b[height - 1 - r.y, x] = b[height - r.y, x] * 0.5 + b[height - 1 - r.y, x]
    out[y, x] = b[x, y] + 1
    bound = bind(Pipeline(out.over(y=(0, width), x=(0, height))), {"image": (height, width)})
    states = states_of(bound, varied=True)
    levels = set()
    for k in range(12):
        drawn = states.draw_legal(np.random.default_rng(100 * seed + k))
        if drawn is None or (level := drawn[0].levels["b"]) in levels:
            continue
        levels.add(level)
        assert_backends_agree(bound, lower(bound, drawn[1]))
    assert {Level.ROOT, Level.BLOCK} <= levels
