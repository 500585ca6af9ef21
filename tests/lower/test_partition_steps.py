"""Partition of the steps of sliding windows: exact ranges, code without clamps, all backends, counts of blocks."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.indices import index as ix
from autosched.analysis.rewrites.cache_read import cache_name, insert_cache_reads
from autosched.apps import get_app
from autosched.codegen.cuda import print_cuda
from autosched.lang.boundary import KINDS
from autosched.lower.ir import CompareIndex, If, KernelIR, Partitioning, Stmt, indices_of, values_of, walk, walk_values
from autosched.lower.ir_queries import boundary_sites, conjuncts
from autosched.lower.program import lower
from autosched.measure.simulated.body import Body
from autosched.measure.simulated.compiled import compiled_form
from autosched.measure.simulated.count import as_printed, block_bodies, count_sites
from autosched.measure.simulated.sampling import Limits, chosen_rows
from autosched.runtime.compile.nvrtc import compile_cubin, have_nvrtc
from autosched.schedule.legality.validate import violations
from autosched.schedule.types import ComputeAt, Level, Schedule
from autosched.target import get_target
from tests.lower.run_backends import assert_backends_agree, traced
from tests.lower.sweeps import has_step_partition, random_sliding, sweeps
from tests.schedule.building import kernel, member, root, schedule, stage

H200 = get_target("h200")
DEPTH = 4
"""Loops outside the windows of `smoother`."""


def smoother(depth: int, steps: int, *, cached: bool = True) -> tuple[BoundPipeline, Schedule]:
    """Return two fused sweeps of the 7-point smoother with windows along z, in blocks of 8 x 16 points a step."""
    bound = bind(get_app("smoother7pt").configure({"T": 2})[0], {"in": (depth, 48, 64)})
    at, tile = ComputeAt(Level.MAINLOOP, stage("output"), DEPTH), "tx=9 ty=5 sz=1 sy=2 sx=2"
    members = [member(at, ("z", "y", "x"), sweep_1=tile)]
    if cached:
        z, y, x = insert_cache_reads(bound, ["in"]).funcs[cache_name("in")].dims
        own = f"t{x}=10 t{y}=6 s{z}=1 s{y}=2 s{x}=2"
        members.append(member(at, (z, y, x), **{cache_name("in"): own}))
    loops = f"bz={-(-depth // steps)} by=6 bx=4 sz={steps} tx=8 ty=4 sy=2 sx=2"
    inlined = [f for f in bound.funcs if f not in ("output", "sweep_1")]
    found = schedule(bound, kernel(bound, [root("output", loops)], members, inlined))
    assert violations(bound, found, H200) == []
    return bound, found


def step_branches(body: Sequence[Stmt]) -> list[If]:
    """Return the branches between interior and boundary steps."""
    return [s for s in walk(tuple(body)) if isinstance(s, If) and s.partition is Partitioning.STEPS]


def limits(branch: If) -> dict[str, int]:
    """Return the limits of a branch on steps, by operator."""
    tests = [t for t in conjuncts(branch.condition) if isinstance(t, CompareIndex)]
    return {t.op: int(t.b) for t in tests}  # type: ignore[call-overload]


def index_kinds(body: Sequence[Stmt]) -> set[str]:
    """Return the kinds of non-affine terms in the indices of statements."""

    def indices() -> Iterator[ix.Index]:
        for s in walk(tuple(body)):
            yield from indices_of(s)
            for value in values_of(s):
                for v in walk_values(value):
                    yield from indices_of(v)

    return {t.kind for e in indices() for t in ix.atoms(e) if isinstance(t, ix.Atom)}


@pytest.mark.parametrize(("depth", "steps"), [(32, 8), (30, 8), (32, 32), (29, 29)])
@pytest.mark.parametrize("cached", [False, True])
def test_interior_steps_are_those_that_touch_no_face(depth: int, steps: int, cached: bool) -> None:
    """Step g reads rows up to g + 2 of the input, computes row g + 1 of the first sweep, and row g of the second."""
    bound, found = smoother(depth, steps, cached=cached)
    (ir,) = lower(bound, found).kernels
    (inner,) = (s for s in ir.body if isinstance(s, If))
    branches = step_branches(inner.then)
    last = depth - 3
    assert {"ge": 1, "le": last} in [limits(b) for b in branches]
    for b in branches:
        assert limits(b).get("ge", 1) == 1 and limits(b).get("le", last) == last
        assert not index_kinds(b.then) & {"min", "max", "select"}
        assert not any(v.op == "ge" for s in walk(b.then) for c in values_of(s) for v in walk_values(c)
                       if isinstance(v, CompareIndex))  # fmt: skip


def test_blocks_at_the_faces_of_one_dimension_have_its_clamps_alone() -> None:
    bound, found = smoother(32, 8)
    (ir,) = lower(bound, found).kernels
    boxes = []
    body = ir.body
    while isinstance(body[0], If):
        boxes.append({v.name for t in conjuncts(body[0].condition) for v in ix.loop_vars(t.a).values()})  # type: ignore[union-attr]
        body = body[0].orelse
    assert boxes == [{"y_b", "x_b"}, {"y_b"}, {"x_b"}] or boxes == [{"y_b", "x_b"}, {"x_b"}, {"y_b"}]


def test_windows_without_conditions_along_them_have_one_code() -> None:
    """Only x is behind a boundary condition: all steps of a block are alike."""
    from autosched import Func, Input, Pipeline, Var, float32

    y, x = Var("y"), Var("x")
    image, first, out = Input("image", float32, 2), Func("first"), Func("out")
    source = image.clamped()
    first[y, x] = source[y, x - 1] + source[y, x + 1]
    out[y, x] = first[y, x] + first[y + 2, x]
    bound = bind(Pipeline(out.over(y=(0, 32), x=(0, 64)), name="rows"), {"image": (34, 64)})
    at = ComputeAt(Level.MAINLOOP, stage("out"), 3)
    one = kernel(
        bound, [root("out", "by=4 bx=4 sy=8 tx=16")], [member(at, ("y", "x"), first="tx=16 sy=1")], ["image_clamped"]
    )
    assert not has_step_partition(lower(bound, schedule(bound, one)).kernels[0])


@pytest.mark.parametrize(
    ("kind", "extents", "times", "seed"),
    [*((kind, (26, 40), 2, 1) for kind in KINDS), ("mirrored", (24, 20, 36), 2, 2)],
)
def test_backends_agree(kind: str, extents: tuple[int, ...], times: int, seed: int) -> None:
    partitioned = check(kind, extents, times, seed)
    assert partitioned or kind == "wrapped"  # whole rows at the edges leave few steps inside


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("kind", KINDS)
def test_random_backends_agree(kind: str, seed: int) -> None:
    rng = np.random.default_rng((seed, KINDS.index(kind)))
    extents = (int(rng.integers(14, 30)), *(int(n) for n in rng.integers(16, 44, rng.integers(1, 3))))
    check(kind, extents, int(rng.integers(1, 5)), seed)


def check(kind: str, extents: tuple[int, ...], times: int, seed: int) -> bool:
    """Run random kernels of sweeps on all backends, compile one, and return whether any has interior steps."""
    rng, partitioned = np.random.default_rng(seed), False
    if kind == "wrapped":  # whole rows and planes fit shared memory
        extents = tuple(min(n, 20 if len(extents) == 2 else 12) for n in extents)
    bound = sweeps(kind, extents, times)
    kernels = (random_sliding(bound, rng, cached=times == 1 or k % 2 == 0) for k in range(400))
    legal = list(itertools.islice((s for s in kernels if s is not None), 2))
    assert legal
    for found in legal:
        program = lower(bound, found)
        partitioned |= has_step_partition(program.kernels[0])
        assert_backends_agree(bound, program)
    if have_nvrtc():
        assert compile_cubin(print_cuda(program.kernels[0]).source, H200.arch).code
    return partitioned


@pytest.mark.parametrize("steps", [6, 24])
def test_counts_of_sites_are_those_of_the_emulator(steps: int) -> None:
    bound = sweeps("clamped", (24, 32, 48), 2)
    at, dims = ComputeAt(Level.MAINLOOP, stage("output"), DEPTH), ("z", "y", "x")
    loops = f"bz={24 // steps} by=4 bx=3 sz={steps} tx=8 ty=4 sy=2 sx=2"
    inlined = [f for f in bound.funcs if f not in ("output", "sweep_1")]
    members = [member(at, dims, sweep_1="tx=9 ty=5 sz=1 sy=2 sx=2")]
    found = schedule(bound, kernel(bound, [root("output", loops)], members, inlined))
    assert violations(bound, found, H200) == []
    program = lower(bound, found)
    (ir,) = program.kernels
    blocks = [tuple(int(k) for k in at) for at in np.ndindex(*(n for _, n in ir.grid_loops))]
    counts, trace = count_sites(ir, blocks), traced(bound, program)
    for name in ("requests", "active_lanes", "sectors", "wavefronts"):
        np.testing.assert_array_equal(getattr(counts, name), getattr(trace, name), err_msg=name)
    outside = sorted(boundary_sites(as_printed(ir).body))
    inner = count_sites(ir, [(1, 1, 1) if steps == 6 else (0, 1, 1)])
    assert inner.requests[outside].any() == (steps == 24)  # with all steps, the first and last are at a face


def executed(ir: KernelIR, position: tuple[int, int, int]) -> float:
    """Return the instructions of a block, counted from the form that the compiler makes of it."""
    code = compiled_form(as_printed(ir))
    total = 0.0
    for part, statements in block_bodies(code, chosen_rows(code, [position])):
        body = Body(code, part, Limits(None, None), {})
        body.count(statements)
        total += body.executed
    return total


def test_first_and_last_blocks_execute_boundary_code_in_few_steps() -> None:
    bound, found = smoother(64, 16)
    (ir,) = lower(bound, found).kernels
    inside = executed(ir, (1, 2, 1))
    for face in [(0, 2, 1), (3, 2, 1)]:
        assert inside < executed(ir, face) < 1.25 * inside, face
