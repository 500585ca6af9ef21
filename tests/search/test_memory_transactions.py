"""Transactions that cache reads save, and their use by the search."""

from __future__ import annotations

import pytest

from autosched import Func, Input, Pipeline, Var, float32
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.featurize.sketch.sketch import KernelSketch
from autosched.schedule.legality.validate import violations
from autosched.schedule.types import Level, StageId
from autosched.search.beam.state import Params, PartialKernel, State
from autosched.search.beam.to_schedule import schedule_of
from autosched.search.cost.gpu_analytical import AnalyticalModel
from autosched.search.cost.memory_transactions import sectors_moved
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.refine.cache_reads import CacheReadSearch
from autosched.search.refine.retile import Retiler
from autosched.search.settings import SearchSettings
from autosched.search.space.option_enumeration import OptionEnumerator
from autosched.search.space.tilings import member_tilings
from autosched.target import get_target

H200 = get_target("h200")
SETTINGS = SearchSettings()
y, x = Var("y"), Var("x")
OUT = StageId("out")
TILES: Params = (8, 32, 1, 1)


def rows_of_taps(count: int, dear: int = 0) -> BoundPipeline:
    """``out`` sums ``count`` neighbours of ``bright``, which is the input after ``dear`` more operations."""
    img, bright, out = Input("img", float32, 2), Func("bright"), Func("out")
    value = img[y, x] * 2.0
    for k in range(dear):
        value = value * value + float(k)
    bright[y, x] = value
    total = bright[y, x]
    for k in range(1, count):
        total = total + bright[y, x + k] * float(k)
    out[y, x] = total
    return bind(Pipeline([out.over(y=(0, 1024), x=(0, 1024))], name="rows"), {"img": (1024, 1152)})


def parts(bound: BoundPipeline) -> tuple[KernelEvaluator, CacheReadSearch]:
    evaluator = KernelEvaluator(bound, H200, AnalyticalModel(H200), SETTINGS)
    enumerator = OptionEnumerator(evaluator)
    return evaluator, CacheReadSearch(evaluator, enumerator, Retiler(evaluator, enumerator))


def inlined(evaluator: KernelEvaluator) -> State:
    sketch = KernelSketch((OUT,), (), frozenset({"bright"}))
    evaluator.evaluate([(sketch, TILES)])
    cost = evaluator.verdict(sketch, TILES).cost
    levels = {"out": Level.ROOT, "bright": Level.INLINE}
    return State((PartialKernel(sketch, TILES, tiled=True),), (cost,), levels, cost, 0)


def moved(evaluator: KernelEvaluator, state: State) -> float:
    (piece,) = state.pieces
    return sectors_moved(evaluator, piece.sketch, piece.params)


def test_threads_for_whole_vectors_only_where_a_row_is_made_of_them() -> None:
    plain = set(member_tilings([18, 264], 1, SETTINGS, H200)[:, 1].tolist())
    assert set(member_tilings([18, 264], 1, SETTINGS, H200, 4)[:, 1].tolist()) - plain == {132, 66}
    assert set(member_tilings([18, 264], 1, SETTINGS, H200, 8)[:, 1].tolist()) - plain == {132, 66, 33}
    odd = [18, 263]
    assert (member_tilings(odd, 1, SETTINGS, H200, 8) == member_tilings(odd, 1, SETTINGS, H200)).all()


def test_a_block_that_reads_every_tap_moves_its_sectors_again() -> None:
    """A warp's row of 32 is 4 sectors, one more where it begins inside one: 4 + 7 * 5, and 4 to store."""
    evaluator, _ = parts(rows_of_taps(8))
    blocks = 1024 * 1024 / (8 * 32)
    assert moved(evaluator, inlined(evaluator)) == blocks * 8 * (4 + 7 * 5 + 4)


@pytest.mark.parametrize("dear", [0, 12])
def test_shared_memory_holds_the_source_or_what_is_made_of_it(dear: int) -> None:
    """An expensive producer is computed once for each point of a tile instead of once for each tap."""
    bound = rows_of_taps(16, dear)
    evaluator, stager = parts(bound)
    state = inlined(evaluator)
    improved = stager.with_cache_reads(state)
    assert improved.cost < state.cost
    assert moved(evaluator, improved) < 0.25 * moved(evaluator, state)
    (piece,) = improved.pieces
    assert violations(bound, schedule_of(evaluator, improved), H200) == []
    if dear:
        assert [s.func for s in piece.sketch.locations] == ["bright"]
        assert piece.sketch.inlined == frozenset()
        assert improved.levels["bright"] is Level.BLOCK


def test_what_another_kernel_evaluates_too_stays_inlined() -> None:
    evaluator, stager = parts(rows_of_taps(16, 12))
    sketch = inlined(evaluator).pieces[0].sketch
    assert [n for n, _ in stager._alternatives(sketch, "img", frozenset({"bright"}))] == ["img.staged", "bright"]
    assert [n for n, _ in stager._alternatives(sketch, "img", frozenset())] == ["img.staged"]


def test_a_copy_that_costs_time_must_save_a_larger_share_of_the_transactions() -> None:
    evaluator, stager = parts(rows_of_taps(2))
    (piece,) = inlined(evaluator).pieces
    without = piece.sketch, piece.params
    variants = stager.variants(without, "img")
    evaluator.evaluate(variants)
    costs = {v: evaluator.verdict(*v).cost for v in variants}
    left = {v: sectors_moved(evaluator, *v) for v in variants}
    cost, before = evaluator.verdict(*without).cost, sectors_moved(evaluator, *without)
    limit = 2 * cost
    taken = {v for v in variants if stager._is_gain(v, without, limit)}
    dearer = [v for v in variants if cost <= costs[v] < limit]
    assert dearer
    worth = {v for v in dearer if left[v] * costs[v] < before * cost}
    assert taken == worth | {v for v in variants if costs[v] < cost}
    assert not any(stager._is_gain(v, without, 0.0) for v in variants)
