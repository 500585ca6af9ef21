"""Cache reads and tile alignments that the search adds to complete states."""

from __future__ import annotations

import numpy as np

from autosched import Func, Input, Pipeline, Var, float32
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.featurize.featurizer import Featurizer
from autosched.featurize.schema import INDEX
from autosched.featurize.sketch.sketch import ComputeLocation, KernelSketch
from autosched.featurize.sketch.sketch_from_kernel import describe_kernel
from autosched.schedule.legality.validate import violations
from autosched.schedule.types import Level, StageId, TileAlignment
from autosched.search.beam.state import PartialKernel, State
from autosched.search.beam.to_schedule import schedule_of
from autosched.search.cost.gpu_analytical import AnalyticalModel
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.refine.cache_reads import CacheReadSearch
from autosched.search.refine.pinned import pinned_decisions, pinned_options
from autosched.search.refine.retile import Retiler
from autosched.search.refine.tile_alignment import alignments, with_alignment
from autosched.search.settings import SearchSettings
from autosched.search.space.option_enumeration import Decision, OptionEnumerator
from autosched.target import get_target

H200 = get_target("h200")
y, x = Var("y"), Var("x")
OUT, NEAR = StageId("out"), StageId("near")


def wide() -> BoundPipeline:
    """``near`` reads one column further right than ``out``, which also reads 7 x 7 points of the input."""
    img, near, out = Input("img", float32, 2), Func("near"), Func("out")
    near[y, x] = img[y, x + 1] * 2.0
    far = img[y, x]
    for dy in range(7):
        for dx in range(7):
            far = far + img[y + dy, x + dx] * (dy + 2.0 * dx)
    out[y, x] = near[y, x] + near[y, x + 1] + far
    return bind(Pipeline([out.over(y=(0, 1024), x=(0, 1024))], name="wide"), {"img": (1032, 1040)})


def parts(bound: BoundPipeline) -> tuple[KernelEvaluator, CacheReadSearch]:
    evaluator = KernelEvaluator(bound, H200, AnalyticalModel(H200), SearchSettings())
    enumerator = OptionEnumerator(evaluator)
    return evaluator, CacheReadSearch(evaluator, enumerator, Retiler(evaluator, enumerator))


def state_with(evaluator: KernelEvaluator, sketch: KernelSketch, params: tuple[int, ...]) -> State:
    evaluator.evaluate([(sketch, params)])
    cost = evaluator.verdict(sketch, params).cost
    levels = {"out": Level.ROOT, "near": Level.BLOCK if sketch.location("near") else Level.INLINE}
    return State((PartialKernel(sketch, params, tiled=True),), (cost,), levels, cost, 0)


def test_source_with_many_loads_gets_a_cache_read() -> None:
    bound = wide()
    evaluator, stager = parts(bound)
    plain = KernelSketch((OUT,), (), frozenset({"near"}))
    state = state_with(evaluator, plain, (8, 32, 1, 1))
    assert stager.sources(plain) == ["img"]
    improved = stager.with_cache_reads(state)
    assert improved.cost < state.cost
    (piece,) = improved.pieces
    assert piece.sketch.cache_reads == {"img"}
    schedule = schedule_of(evaluator, improved)
    assert violations(bound, schedule, H200) == []
    assert schedule.kernels[0].cache_reads == {"img"}
    assert describe_kernel(bound, schedule.kernels[0])[0] == piece.sketch
    assert stager.sources(piece.sketch) == []


def test_kernels_with_cache_reads_cost_the_same_in_any_batch() -> None:
    bound = wide()
    evaluator, stager = parts(bound)
    plain = KernelSketch((OUT,), (), frozenset({"near"}))
    variants = stager.variants((plain, (8, 32, 1, 1)), "img")
    evaluator.evaluate([(plain, (8, 32, 1, 1)), *variants, (plain, (4, 32, 1, 2))])
    again, _ = parts(bound)
    for sketch, params in (*variants[:3], (plain, (4, 32, 1, 2))):
        again.evaluate([(sketch, params)])
        assert again.verdict(sketch, params) == evaluator.verdict(sketch, params)


def test_tiles_are_aligned_to_their_sources() -> None:
    bound = wide()
    sketch = KernelSketch((OUT,), (ComputeLocation("near", Level.BLOCK, OUT),))
    model = Featurizer(bound, H200).model(sketch)
    assert alignments(model, "near") == [TileAlignment(4, 3)]
    aligned = Featurizer(bound, H200).model(with_alignment(sketch, "near", TileAlignment(4, 3)))
    params = np.array([[8, 32, 1, 1, 8, 9]])
    requests = [
        float(m.evaluate(params).features[0, 1, INDEX["global_requests_per_block"]]) for m in (model, aligned)
    ]  # fmt: skip
    assert requests == [8 * 3, 8]  # a warp for each of 8 rows: one element, two, and one; or four at once


def test_pinned_decision_keeps_its_alignment() -> None:
    bound = wide()
    evaluator, stager = parts(bound)
    sketch = with_alignment(
        KernelSketch((OUT,), (ComputeLocation("near", Level.BLOCK, OUT),)), "near", TileAlignment(4, 3)
    )
    state = state_with(evaluator, sketch, (8, 32, 1, 1, 8, 9))
    pinned = pinned_decisions(stager.enumerator.compute_locations, state)
    root = state_with(evaluator, KernelSketch((OUT,), near=frozenset({"near"})), (8, 32, 1, 1))
    decision = Decision("near")
    stager.enumerator.prefetch([root], decision)
    (option,) = pinned_options(stager.enumerator, root, decision, pinned["near"], fusion=True)
    assert option.added[0].sketch.locations == sketch.locations
    assert option.added[0].params == (8, 32, 1, 1, 8, 9)
