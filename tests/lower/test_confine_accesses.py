"""Kernels whose accesses are confined to one tile: in bounds, the same instructions, the footprint of a block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import autosched
from autosched import Func, Input, InputError, Pipeline, Var, cast, float32, int32, uint8
from autosched import clamp as clamped
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.pipeline_rewrites import RFactor
from autosched.analysis.rewrites.rfactor import apply_rfactors
from autosched.apps import get_app
from autosched.codegen.cuda import KernelParam, cuda_prelude, print_cuda
from autosched.codegen.prelude import called_scalar_functions, scalar_prelude
from autosched.errors import BoundsError
from autosched.lower.ir import KernelIR, Memory, Store, walk
from autosched.lower.passes.confine_accesses import confine_accesses
from autosched.lower.pipelines import CPU_PASSES, CUDA_PASSES, run_passes
from autosched.lower.program import Program, lower
from autosched.lower.verify import verify
from autosched.measure.compare.code_differencing import confined_program
from autosched.runtime.backends.cpu import CpuExecutable
from autosched.runtime.compile.nvrtc import compile_cubin, have_nvrtc
from autosched.runtime.emulator import ParamSpec, compile_emulated
from autosched.runtime.emulator.trace import Trace
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.schedule.types import Schedule
from autosched.target import get_target
from tests.analysis.test_rfactor import histogram
from tests.fuzz.choices import Choices
from tests.fuzz.pipelines import points, random_case
from tests.fuzz.witnesses import Fenced
from tests.lower.sweeps import has_step_partition, random_sliding, sweeps
from tests.schedule.building import kernel, root
from tests.schedule.building import schedule as made

H200, CPU = get_target("h200"), get_target("cpu")
KINDS = ("clamped", "constant", "mirrored", "mirrored_without_edge", "wrapped")
x, y = Var("x"), Var("y")


MOST_BLOCKS = 12


class Emulated:
    """A kernel in the traced emulator, with all of its arrays defined."""

    def __init__(self, ir: KernelIR) -> None:
        self.printed = k = print_cuda(ir)
        specs = [
            ParamSpec(p.kind if p.kind != "step" else "scalar", argument_type(p), p.name, p.count) for p in k.params
        ]
        helpers = scalar_prelude(called_scalar_functions(k.body))
        self.compiled = compile_emulated(
            k.body, k.name, specs, common_prelude=helpers, traced=True, site_depths=k.site_depths
        )
        rng = np.random.default_rng(0)
        self.arguments: list[Any] = [
            (rng.random(p.count) * 8).astype(p.dtype.numpy) if p.kind in ("in", "out") else argument_type(p).type(1)
            for p in k.params
        ]

    def launch(self, blocks: Sequence[Sequence[int]]) -> Trace:
        """Run some blocks and return their counts."""
        k = self.printed
        trace = self.compiled.launch(k.grid, k.block, k.shared_bytes, self.arguments, blocks=blocks)
        assert trace is not None
        return trace


def argument_type(p: KernelParam) -> np.dtype[Any]:
    """Return the type of an argument; half-precision scalars are passed as floats."""
    return np.dtype(np.float32) if p.kind == "scalar" and p.dtype.is_reduced_float else p.dtype.numpy


def some_blocks(grid: Sequence[int]) -> list[tuple[int, ...]]:
    """Return the first, the last, and some other blocks of a grid."""
    rng = np.random.default_rng(1)
    drawn = {tuple(int(rng.integers(n)) for n in grid) for _ in range(MOST_BLOCKS)}
    return [(0, 0, 0), tuple(n - 1 for n in grid), *sorted(drawn)]


def check_confined(ir: KernelIR) -> bool:
    """Check the confined form of a kernel against the kernel itself; whether there is one.

    Each block is launched on its own: several write the same elements, as do the warps of a block with tiles of their
    own, which become blocks.
    """
    ir = replace(ir, warps=())
    try:
        confined = confine_accesses(ir)
    except InputError as error:
        assert f"kernel {ir.name} cannot be confined to a tile: " in str(error)
        return False
    verify(confined)
    run_passes(confined, CUDA_PASSES, check=True)
    one, other = Emulated(ir), Emulated(confined)
    written: dict[str, np.ndarray[Any, Any]] = {}
    for block in some_blocks(one.printed.grid):
        before = [np.array(a) for a in other.arguments]
        expected, counted = one.launch([block]), other.launch([block])
        np.testing.assert_array_equal(expected.requests, counted.requests)
        np.testing.assert_array_equal(expected.active_lanes, counted.active_lanes)
        for p, a, b in zip(other.printed.params, before, other.arguments, strict=True):
            if p.kind == "out":
                written[p.name] = written.get(p.name, np.zeros(p.count, bool)) | (a != b).reshape(-1)
    whole = one.launch([(0, 0, 0), *some_blocks(one.printed.grid)])
    for p, most in zip(one.printed.params, whole.parameter_footprint.block_max, strict=True):
        if p.name in written:  # all blocks write what one of them does
            assert written[p.name].sum() * p.dtype.bytes_ <= most
    return True


def kernels_of(bound: BoundPipeline, schedule: Schedule) -> tuple[KernelIR, ...]:
    # without vectors: whether neighbouring accesses form one depends on their addresses
    return lower(bound, schedule, vectors=False).kernels


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("extents", [(37, 70), (13, 19, 40)])
def test_stencils_with_boundaries(kind: str, extents: tuple[int, ...]) -> None:
    bound = sweeps(kind, extents, 2)
    rng = np.random.default_rng(len(extents))
    confined = sum(
        check_confined(ir) for _ in range(4) for ir in kernels_of(bound, sample_schedule(bound, H200, rng, varied=True))
    )
    assert confined >= 3


@pytest.mark.parametrize(
    ("kind", "cached"),
    [(kind, kind in ("mirrored", "constant")) for kind in KINDS],
)
def test_sliding_windows(kind: str, cached: bool) -> None:
    """Windows of the first sweep, and of the input (none of these fits where rows wrap)."""
    bound = sweeps(kind, (25, 20, 34), 2)
    rng = np.random.default_rng(7)
    schedules = [s for _ in range(6) if (s := random_sliding(bound, rng, cached=cached)) is not None]
    irs = [ir for s in schedules[:3] for ir in kernels_of(bound, s)]
    assert irs and sum(map(check_confined, irs)) >= 1


def test_steps_at_faces_stay() -> None:
    """Interior and boundary steps of a window are executed as before."""
    bound = sweeps("clamped", (48, 40, 66), 2)
    rng = np.random.default_rng(3)
    for _ in range(20):
        schedule = random_sliding(bound, rng, cached=True)
        if schedule is not None and has_step_partition(ir := kernels_of(bound, schedule)[0]):
            assert check_confined(ir)
            return
    pytest.fail("no kernel with interior steps")


def check_random(seed: int) -> tuple[int, int]:
    """Check the kernels of a random pipeline; return the numbers of confined ones and of all."""
    case = random_case(Choices.from_seed(seed))
    try:
        bound = bind(case.pipeline, case.shapes, dict(case.params))
    except BoundsError:
        return 0, 0
    if points(bound) > 20_000:
        return 0, 0
    schedule = sample_schedule(bound, H200, np.random.default_rng(seed), varied=True, lanes="exact")
    outcomes = [check_confined(ir) for ir in kernels_of(bound, schedule) if not ir.is_ordered]
    return sum(outcomes), len(outcomes)


def test_random_pipelines() -> None:
    counts = [check_random(seed) for seed in range(12)]
    assert sum(done for done, _ in counts) >= 4


@pytest.mark.fuzz
@pytest.mark.parametrize("shard", range(10))
def test_many_random_pipelines(shard: int) -> None:
    for seed in range(1000 + 30 * shard, 1030 + 30 * shard):
        check_random(seed)


def test_indices_from_data_stay_in_bounds() -> None:
    image, table, f = Input("image", uint8, 2), Input("table", float32, 1), Func("f")
    f[y, x] = table[clamped(cast(int32, image[y, x]) * 3 + x, 0, 99)] + cast(float32, x)
    bound = bind(Pipeline(f.over(y=(0, 64), x=(0, 64))), {"image": (64, 64), "table": (100,)})
    ir = kernels_of(bound, made(bound, kernel(bound, [root("f", "by=8 bx=2 tx=32 ty=8")])))[0]
    assert check_confined(ir)


def test_each_thread_of_the_host_has_its_own_tile() -> None:
    """The C backend writes two tiles of the output where blocks are shared by two threads, one where they are not."""
    bound = sweeps("clamped", (64, 64), 1)
    schedule = made(bound, kernel(bound, [root("output", "by=8 bx=2 tx=32 ty=8")], inlined=[
        f for f in bound.funcs if f != "output"
    ]))  # fmt: skip
    program = lower(bound, schedule)
    for threads, tiles in ((1, 1), (2, 2), (4, 4)):
        written = run_on_host(program, threads)
        assert written.sum() == tiles * 8 * 32
        rows = np.flatnonzero(written.any(axis=1))
        assert len(rows) == 8 * tiles and rows[-1] - rows[0] == 8 * tiles - 1


@pytest.mark.parametrize(("kind", "threads"), [(kind, 2 + k % 2) for k, kind in enumerate(KINDS)])
def test_threads_of_the_host_stay_in_bounds(kind: str, threads: int) -> None:
    """The C backend writes nothing outside of its arrays; the emulator runs the same kernels block by block."""
    bound = sweeps(kind, (50, 90), 2)
    rng = np.random.default_rng(threads)
    for _ in range(3):
        program = lower(bound, sample_schedule(bound, CPU, rng, varied=True), vectors=False)
        confined, problems = confined_program(program, threads)
        for before, after in zip(program.kernels, confined.kernels, strict=True):
            if before.name not in problems:
                emulated = Emulated(after)
                for block in some_blocks(emulated.printed.grid)[:4]:
                    emulated.launch([block])
        fenced = {n: Fenced.full_of_garbage(a.extents, a.buffer.dtype.numpy) for n, a in program.outputs.items()}
        inputs = {n: rng.random(a.extents).astype(a.buffer.dtype.numpy) for n, a in program.inputs.items()}
        CpuExecutable(confined).run(inputs, {n: f.array for n, f in fenced.items()}, {})
        for name, output in fenced.items():
            output.check(name, "the confined kernel")


def run_on_host(program: Program, threads: int) -> np.ndarray[Any, Any]:
    """Return the elements of the output that the confined program writes through the C backend."""
    confined = replace(program, kernels=tuple(confine_accesses(k, threads) for k in program.kernels))
    for k in confined.kernels:
        run_passes(k, CPU_PASSES, check=True)
    rng = np.random.default_rng(0)
    inputs = {n: rng.random(a.extents).astype(a.buffer.dtype.numpy) for n, a in program.inputs.items()}
    outputs = {n: np.full(a.extents, np.nan, a.buffer.dtype.numpy) for n, a in program.outputs.items()}
    CpuExecutable(confined).run(inputs, outputs, {})
    (output,) = outputs.values()
    return ~np.isnan(output)


@pytest.mark.skipif(not have_nvrtc(), reason="NVRTC is missing")
@pytest.mark.parametrize("name", ["smoother7pt", "rhs4center", "unsharp", "sgemm"])
def test_confined_kernels_of_apps_compile(name: str) -> None:
    app = get_app(name)
    s = autosched.schedule(app.build(), app.shapes(app.default_sizes), H200, strategy="roots")
    for ir in s.program.kernels[:3]:
        body = print_cuda(confine_accesses(ir)).body
        compile_cubin(f"{cuda_prelude()}\n{scalar_prelude(called_scalar_functions(body))}\n{body}", "sm_90")


def test_the_text_has_the_tile_in_place_of_the_block() -> None:
    bound = sweeps("clamped", (64, 64), 1)
    schedule = made(bound, kernel(bound, [root("output", "by=8 bx=2 tx=32 ty=8")], inlined=[
        f for f in bound.funcs if f != "output"
    ]))  # fmt: skip
    (ir,) = kernels_of(bound, schedule)
    text = print_cuda(confine_accesses(ir)).body
    stores = [line for line in text.splitlines() if "STORE(" in line]
    assert stores and all("y_b" not in line.partition("STORE(")[2].partition(", ")[2].split(", ")[1] for line in stores)


@pytest.mark.parametrize(
    ("tiling", "threads", "message"),
    [
        ("by=1 bx=1 tx=32 ty=8 sy=2 sx=2", 1, "it has one block, whose tile is all that it accesses"),
        ("by=2 bx=2 tx=32 ty=8", 4, "it has no 4 blocks along a dimension, one for each thread; take fewer threads"),
    ],
)
def test_kernels_without_a_tile_are_refused(tiling: str, threads: int, message: str) -> None:
    image, f = Input("image", float32, 2), Func("f")
    f[y, x] = image[y, x] * 2
    bound = bind(Pipeline(f.over(y=(0, 16), x=(0, 64))), {"image": (16, 64)})
    (ir,) = kernels_of(bound, made(bound, kernel(bound, [root("f", tiling)])))
    with pytest.raises(InputError, match=message):
        confine_accesses(ir, threads)


def test_atomic_updates_are_refused() -> None:
    bound = apply_rfactors(bind(histogram(), {"image": (64, 64)}), (RFactor("hist", 1, (), atomic=True),))
    schedules = [sample_schedule(bound, H200, np.random.default_rng(seed)) for seed in range(20)]
    irs = [ir for s in schedules for ir in kernels_of(bound, s) if ir.blocks > 1 and updates_global_memory(ir)]
    assert irs
    with pytest.raises(InputError, match="updates global memory atomically"):
        confine_accesses(irs[0])


def updates_global_memory(ir: KernelIR) -> bool:
    return any(isinstance(s, Store) and s.combine and s.buffer.memory is Memory.GLOBAL for s in walk(ir.body))
