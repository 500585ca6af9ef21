"""Materialised producers in the search: a reading kernel computes and stores a Func for further readers."""

from __future__ import annotations

import numpy as np

from autosched import Func, Input, Pipeline, RDom, float32, select
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.lang.expr import Expr
from autosched.lower.program import lower
from autosched.schedule.legality.validate import violations
from autosched.schedule.types import Schedule
from autosched.search.beam.beam import BeamSearch
from autosched.search.beam.to_schedule import legal_schedules
from autosched.search.cost.gpu_analytical import analytical_model
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.settings import SearchSettings
from autosched.search.strategies.protocol import STRATEGIES
from autosched.target import get_target
from tests.lower.run_backends import assert_backends_agree
from tests.schedule.building import x, y

H200 = get_target("h200")


def two_readers(rows: int, columns: int) -> BoundPipeline:
    """Return an expensive Func with two readers: a stencil, and one that reads it mirrored."""
    image, base, near, out = Input("image", float32, 2), Func("base"), Func("near"), Func("out")
    base[y, x] = around(image.clamped(), y, x)
    near[y, x] = around(base, y, x)
    out[y, x] = around(near, rows - 1 - y, columns - 1 - x) + around(base, rows - 1 - y, x)
    whole = {"y": (0, rows), "x": (0, columns)}
    return bind(Pipeline([near.over(**whole), out.over(**whole)]), {"image": (rows, columns)})


def around(f: Func | Input, y: Expr, x: Expr) -> Expr:
    """Return a weighted sum of 25 neighbours."""
    terms = [f[y + dy, x + dx] * float(1 + abs(dy * dx)) for dy in range(-2, 3) for dx in range(-2, 3)]
    return sum(terms[1:], start=terms[0])


def best(bound: BoundPipeline, *, stores: bool) -> tuple[Schedule, float]:
    settings = SearchSettings(beam_size=4, passes=1, materialise=stores)
    evaluator = KernelEvaluator(bound, H200, analytical_model(H200), settings)
    schedule, state = next(iter(legal_schedules(evaluator, BeamSearch(evaluator, np.random.default_rng(0)).run())))
    return schedule, state.cost


def stored(schedule: Schedule) -> list[str]:
    return [m.func for k in schedule.kernels for m in k.fused if m.materialised]


def test_small_images_are_computed_by_fewer_kernels() -> None:
    bound = two_readers(256, 384)
    without, before = best(bound, stores=False)
    found, after = best(bound, stores=True)
    assert stored(without) == []
    assert stored(found) == ["base"]
    assert len(found.kernels) == len(without.kernels) - 1
    assert after < 0.95 * before
    assert not violations(bound, found, H200)
    assert_backends_agree(bound, lower(bound, found))


def test_nothing_is_materialised_without_locations_at_block() -> None:
    bound = two_readers(96, 128)
    settings = SearchSettings(beam_size=4, passes=1, locations=("inline",))
    evaluator = KernelEvaluator(bound, H200, analytical_model(H200), settings)
    states = BeamSearch(evaluator, np.random.default_rng(0)).run()
    assert all(not stored(schedule) for schedule, _ in legal_schedules(evaluator, states))


def test_pointwise_reader_can_materialise() -> None:
    """A kernel without dimensions has one thread in one block."""
    image, base, total, k = Input("image", float32, 1), Func("base"), Func("total"), RDom("k", k=5)
    base[x] = image[x] * 2.0 + 1.0
    total[()] = 0.0
    total[()] += base[k.k]
    bound = bind(Pipeline([base.over(x=(0, 5)), total.over()]), {"image": (5,)})
    for seed in range(3):
        settings = SearchSettings(beam_size=4, passes=1)
        evaluator = KernelEvaluator(bound, H200, analytical_model(H200), settings)
        found = BeamSearch(evaluator, np.random.default_rng(seed)).run()
        schedule, _ = next(iter(legal_schedules(evaluator, found)))
        assert_backends_agree(bound, lower(bound, schedule))


def test_diagonal_tiles_are_not_materialised() -> None:
    """One block loop moves several dimensions of the tile to store, so there is no tile ownership."""
    image, f, g = Input("image", float32, 2), Func("f"), Func("g")
    edge = image.clamped()
    f[y, x] = edge[y, x - 1] + edge[y, x + 1]
    g[y, x] = f[select(y < x, x, y) // 8, x]
    bound = bind(Pipeline([f.over(y=(0, 64), x=(0, 256)), g.over(y=(0, 256), x=(0, 256))]), {"image": (64, 256)})
    found = STRATEGIES["beam"].search(bound, H200).best
    assert violations(bound, found, H200) == []
    assert stored(found) == []
    assert_backends_agree(bound, lower(bound, found))
