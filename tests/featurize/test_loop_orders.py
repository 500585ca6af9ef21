"""Loops and storage dimensions in any order: features are those of the lowered kernel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.codegen.c import print_c
from autosched.featurize.featurizer import Featurizer
from autosched.featurize.schema import INDEX
from autosched.featurize.sketch.kernel_from_sketch import build_kernel
from autosched.featurize.sketch.sketch_from_kernel import describe_kernel
from autosched.host import Host
from autosched.lang.dtypes import float32
from autosched.lang.expr import Var
from autosched.lang.func import Func, Input
from autosched.lang.pipeline import Pipeline
from autosched.lang.rdom import RDom
from autosched.lower.program import lower
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.schedule.types import Kernel, Loop, LoopKind, Root, Schedule, StageTiling
from autosched.search.cost.gpu_analytical import analytical_model
from autosched.search.cost.protocol import rounded_cost
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.settings import SearchSettings
from autosched.search.strategies.compute_root import schedule_roots
from autosched.target import Target, cpu_target, get_target
from tests.featurize.random_kernels import bound_app

CPU = cpu_target(Host(2, 16, 1 << 20, 32 << 20, 1 << 34, 2.5e9))
APPS = ("harris", "unsharp", "bilateral_grid", "sgemm", "hist")


def sampled(name: str, count: int) -> Iterator[tuple[BoundPipeline, Kernel]]:
    bound = bound_app(name)
    for seed in range(count):
        for kernel in sample_schedule(bound, CPU, np.random.default_rng(seed)).kernels:
            yield bound, kernel


def nests(kernel: Kernel) -> dict[object, tuple[list[str], list[str]]]:
    """Return the order of each nest's thread loops, and of the loops inside a thread, of more than one iteration."""
    found: dict[object, tuple[list[str], list[str]]] = {}
    for t in kernel.tilings():
        loops = [p for p in t.loops if p.extent > 1]
        inner = [p.dim for p in loops if p.kind in (LoopKind.SERIAL, LoopKind.REDUCTION)]
        found[t.stage] = [p.dim for p in loops if p.kind is LoopKind.THREAD], inner
    return found


@pytest.mark.parametrize("name", APPS)
def test_a_kernel_built_from_its_sketch_has_its_loop_order(name: str) -> None:
    reordered = 0
    for bound, kernel in sampled(name, 12):
        featurizer = Featurizer(bound, CPU)
        sketch, params = describe_kernel(bound, kernel)
        if featurizer.model(sketch).overflow:
            continue
        built = build_kernel(featurizer.model(sketch), np.array(params, np.int64))
        again = nests(built)
        for stage, orders in nests(kernel).items():
            for wanted, got in zip(orders, again[stage], strict=True):
                common = set(wanted) & set(got)  # fused producers' threads without points are omitted
                assert [d for d in got if d in common] == [d for d in wanted if d in common]
        assert [m.storage_order for m in built.fused] == [m.storage_order for m in kernel.fused]
        reordered += bool(sketch.orders)
    assert reordered


@pytest.mark.parametrize("target", [CPU, get_target("h200")], ids=lambda t: t.kind)
@pytest.mark.parametrize("name", APPS)
def test_a_described_kernel_has_the_features_and_cost_of_a_search(name: str, target: Target) -> None:
    for bound, kernel in sampled(name, 4):
        evaluator = KernelEvaluator(bound, target, analytical_model(target), SearchSettings())
        sketch, params = describe_kernel(bound, kernel)
        model = evaluator.kernel_model(sketch)
        if model.overflow or kernel.fused:
            continue
        evaluator.evaluate([(sketch, params)])
        built = build_kernel(model, np.array(params, np.int64))
        assert describe_kernel(bound, built) == (sketch, params)
        alone = Featurizer(bound, target)
        found = alone.evaluate([alone.model(sketch)], [np.array([params], np.int64)])
        cost = float(analytical_model(target).cost(found)[0])
        assert evaluator.verdict(sketch, params).cost == rounded_cost(cost)


def product() -> BoundPipeline:
    k, y, x = RDom("k", k=(0, 96)), Var("y"), Var("x")
    left, right, f = Input("left", float32, 2), Input("right", float32, 2), Func("f")
    f[y, x] = 0.0
    f[y, x] += left[y, k.k] * right[k.k, x]
    return bind(Pipeline([f.over(y=(0, 64), x=(0, 512))]), {"left": (64, 96), "right": (96, 512)})


def with_loops(bound: BoundPipeline, *inside: Loop) -> Kernel:
    """Return the kernel of a product with these loops inside its blocks, reductions only in the update."""
    first, update = (r.tiling for r in schedule_roots(bound, CPU).kernels[0].roots)
    of = {d: int(np.prod([p.extent for p in inside if p.dim == d])) for d in "yx"}
    blocks = (Loop("y", LoopKind.BLOCK, 64 // of["y"]), Loop("x", LoopKind.BLOCK, 512 // of["x"]))
    pure = [p for p in inside if p.kind is not LoopKind.REDUCTION]
    terms = next(iter(bound.funcs.values())).stages[1].reductions[0].name
    named = [replace(p, dim=terms) if p.kind is LoopKind.REDUCTION else p for p in inside]
    return Kernel(
        (Root(StageTiling(first.stage, (*blocks, *pure))), Root(StageTiling(update.stage, (*blocks, *named))))
    )


def c_of(bound: BoundPipeline, kernel: Kernel) -> str:
    return print_c(lower(bound, Schedule.for_pipeline(bound, [kernel]))).text


Y, X = Loop("y", LoopKind.THREAD, 4), Loop("x", LoopKind.THREAD, 64)
POINTS, TERMS = Loop("y", LoopKind.SERIAL, 2), Loop("k", LoopKind.REDUCTION, 96)
PAIRS = {"threads": ((X, Y, TERMS, POINTS), (Y, X, TERMS, POINTS)), "inside": ((X, TERMS, POINTS), (X, POINTS, TERMS))}


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS.keys())
def test_loop_orders_change_code_and_features(
    pair: tuple[tuple[Loop, ...], tuple[Loop, ...]],
) -> None:
    bound = product()
    kernels = [with_loops(bound, *loops) for loops in pair]
    assert c_of(bound, kernels[0]) != c_of(bound, kernels[1])
    (usual, params), (other, same) = (describe_kernel(bound, k) for k in kernels)
    assert params == same and usual.orders == () != other.orders
    featurizer = Featurizer(bound, CPU)
    model = analytical_model(CPU)
    found = [featurizer.evaluate([featurizer.model(s)], [np.array([params], np.int64)]) for s in (usual, other)]
    assert (found[0].features != found[1].features).any()
    assert float(model.cost(found[0])[0]) != float(model.cost(found[1])[0])


def test_loops_outside_the_reduction_need_no_accumulators() -> None:
    bound = product()
    featurizer = Featurizer(bound, CPU)
    points = []
    for loops in PAIRS["inside"]:
        sketch, params = describe_kernel(bound, with_loops(bound, *loops))
        found = featurizer.model(sketch).evaluate(np.array([params], np.int64))
        points.append(found.features[0, 1, INDEX["innermost_pure_loop_extent"]])
    assert points == [2, 1]


def test_a_reduction_loop_may_be_split() -> None:
    """Adjacent parts are equivalent to the whole loop, and have its features."""
    bound = bound_app("sgemm")
    kernel = next(k for k in schedule_roots(bound, CPU).kernels if len(k.roots) > 1)
    (terms,) = kernel.roots[1].tiling.of_kind(LoopKind.REDUCTION)
    parts = (replace(terms, extent=terms.extent // 3), replace(terms, extent=3))
    loops = tuple(q for p in kernel.roots[1].tiling.loops for q in (parts if p == terms else (p,)))
    cut = replace(kernel.roots[1], tiling=replace(kernel.roots[1].tiling, loops=loops))
    assert terms.extent % 3 == 0
    assert describe_kernel(bound, replace(kernel, roots=(kernel.roots[0], cut))) == describe_kernel(bound, kernel)
