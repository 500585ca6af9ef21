"""Scans over rows on all backends: within a thread, by blocks with barriers, by one launch per step."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.codegen.c import print_c
from autosched.codegen.cuda import print_cuda
from autosched.errors import CompileError
from autosched.lower.ir import Barrier, For, If, KernelIR, LoopRole, Stmt, walk
from autosched.lower.program import Program, lower
from autosched.lower.verify import verify
from autosched.reference import interpret
from autosched.runtime.backends.cpu import CpuExecutable
from autosched.runtime.backends.emulator import EmulatedExecutable
from autosched.runtime.compile.nvrtc import compile_cubin, have_nvrtc
from autosched.runtime.emulator import EmulatorError, ErrorKind
from autosched.schedule.io.serialise import from_json, to_json
from autosched.schedule.kernel.row_scans import ScanLevel
from autosched.schedule.legality.validate import violations
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.schedule.types import Root, Schedule, StageTiling
from autosched.search.strategies.compute_root import schedule_roots
from autosched.target import get_target
from tests.schedule.building import loops
from tests.schedule.scans import PROGRAMS, Scan, inputs_of, seam, two_loops, viterbi, walks

H200, CPU = get_target("h200"), get_target("cpu")


def check(bound: BoundPipeline, program: Program, seed: int = 0, *, emulate: bool = True) -> None:
    inputs = inputs_of(bound, seed)
    expected = interpret(bound.pipeline, inputs, {})
    for backend in (*([EmulatedExecutable(program, seed=seed)] if emulate else []), CpuExecutable(program)):
        outputs = {n: np.full(a.extents, 77, a.buffer.dtype.numpy) for n, a in program.outputs.items()}
        backend.run(inputs, outputs, {})
        for name, found in outputs.items():
            np.testing.assert_array_equal(found, expected[name], err_msg=type(backend).__name__)


def with_scan(bound: BoundPipeline, text: str) -> Schedule:
    """Return the baseline's schedule with other loops for the scan, which is the last update."""
    found = schedule_roots(bound, H200)
    (root,) = found.kernels[-1].roots
    other = replace(found.kernels[-1], roots=(Root(StageTiling(root.tiling.stage, loops(text))),))
    return replace(found, kernels=(*found.kernels[:-1], other))


def legal(bound: BoundPipeline, found: Schedule) -> Schedule:
    assert violations(bound, found, H200) == []
    assert from_json(to_json(bound, found), bound) == found
    return found


@pytest.mark.parametrize("scan", PROGRAMS, ids=lambda f: f.__name__)
def test_random_schedules(scan: Scan) -> None:
    bound = scan()
    seen: Counter[ScanLevel] = Counter()
    for seed in range(9):
        target = CPU if seed % 3 == 2 else H200
        found = sample_schedule(bound, target, np.random.default_rng(seed), varied=seed % 2 == 0)
        assert from_json(to_json(bound, found), bound) == found
        seen.update(walks(bound, found))
        program = lower(bound, found)
        check(bound, program, seed, emulate=target is H200)
        if have_nvrtc() and target is H200:
            for kernel in program.kernels:
                assert compile_cubin(print_cuda(kernel).source, H200.arch).code
    assert len(seen) > 1


@pytest.mark.parametrize("target", [H200, CPU], ids=lambda t: t.name)
@pytest.mark.parametrize("scan", PROGRAMS, ids=lambda f: f.__name__)
def test_the_baseline(scan: Scan, target) -> None:
    bound = scan()
    check(bound, lower(bound, schedule_roots(bound, target)), emulate=target is H200)


@pytest.mark.parametrize(("columns", "walk"), [(1000, ScanLevel.BLOCK), (3000, ScanLevel.LAUNCH)])
def test_the_baseline_keeps_short_rows_in_one_block(columns: int, walk: ScanLevel) -> None:
    bound = seam(5, columns)
    assert walks(bound, schedule_roots(bound, H200)) == [walk]


def test_each_step_of_a_block_begins_with_a_barrier() -> None:
    bound = seam()
    program = lower(bound, legal(bound, with_scan(bound, "bx=1 rr.y=8 tx=13")))
    loop = next(s for s in walk(program.kernels[-1].body) if isinstance(s, For) and s.role is LoopRole.MAINLOOP)
    assert (loop.extent, loop.ordered, isinstance(loop.body[0], Barrier)) == (8, True, True)
    assert [isinstance(s, Barrier) for s in walk(loop.body)].count(True) == 1
    check(bound, program)


@pytest.mark.parametrize("text", ["rr.y=8 bx=4 tx=4", "rr.y=8 bx=1 tx=13", "rr.y=8 bx=7 sx=2", "rr.y=8 bx=2 tx=3 sx=3"])
def test_one_launch_per_step(text: str) -> None:
    bound = seam()
    program = lower(bound, legal(bound, with_scan(bound, text)))
    kernel = program.kernels[-1]
    assert (kernel.launches, kernel.step_loops) == (8, (("r_y", 8),))
    printed = print_cuda(kernel)
    assert (printed.launches, printed.params[-1].kind, printed.params[-1].name) == (8, "step", "step")
    assert "const int r_y = step;  // 8 launches" in printed.body
    assert not any(isinstance(s, Barrier) for s in walk(kernel.body))
    check(bound, program)


@pytest.mark.parametrize("text", ["bx=1 rr.y=8 sx=3 tx=5", "bx=1 rr.y=8 tx=5 sx=3", "bx=1 rr.y=8 sx=2 tx=4 sx=2"])
def test_threads_with_several_points_of_a_row(text: str) -> None:
    bound = seam()
    check(bound, lower(bound, legal(bound, with_scan(bound, text))))


@pytest.mark.parametrize("text", ["rr.t=5 bx=3 tx=4 rr.k=11", "bx=1 rr.t=5 tx=11 rr.k=11", "rr.t=5 rr.k=11 sx=11"])
def test_maxima_over_states(text: str) -> None:
    bound = viterbi()
    check(bound, lower(bound, legal(bound, with_scan(bound, text))))


def test_steps_of_nested_loops_are_numbered_consecutively() -> None:
    bound = two_loops()
    program = lower(bound, legal(bound, with_scan(bound, "rr.y=4 rr.g=3 bx=3 tx=3")))
    assert program.kernels[-1].launches == 12
    body = print_cuda(program.kernels[-1]).body
    assert "const int r_y = step / 3;  // 4 launches" in body
    assert "const int r_g = step % 3;  // 3 launches" in body
    check(bound, program)


def test_steps_are_not_vectorised_in_c() -> None:
    bound = seam()
    text = print_c(lower(bound, with_scan(bound, "bx=1 rr.y=8 tx=13"))).text
    assert "ONE_BY_ONE;" in text.partition("m.1")[2]
    text = print_c(lower(bound, with_scan(bound, "rr.y=8 bx=4 tx=4"))).text
    assert "for (int step = 0; step < 8; step++) {" in text


def without_barriers(kernel: KernelIR) -> KernelIR:
    def strip(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        found: list[Stmt] = []
        for s in body:
            if isinstance(s, For) and s.role is LoopRole.MAINLOOP:
                found.append(replace(s, body=strip(s.body)))
            elif isinstance(s, If):
                found.append(replace(s, then=strip(s.then), orelse=strip(s.orelse)))
            elif not isinstance(s, Barrier):
                found.append(s)
        return tuple(found)

    return replace(kernel, body=strip(kernel.body), vectors=False)


def test_the_emulator_detects_a_missing_barrier() -> None:
    bound = seam()
    program = lower(bound, with_scan(bound, "bx=1 rr.y=8 tx=13"))
    torn = replace(program, kernels=(program.kernels[0], without_barriers(program.kernels[1])))
    outputs = {n: np.zeros(a.extents, a.buffer.dtype.numpy) for n, a in torn.outputs.items()}
    with pytest.raises(EmulatorError) as caught:
        EmulatedExecutable(torn).run(inputs_of(bound), outputs, {})
    assert caught.value.kind is ErrorKind.RACE


def test_verify_detects_a_missing_barrier() -> None:
    bound = seam()
    kernel = lower(bound, with_scan(bound, "bx=1 rr.y=8 tx=13")).kernels[-1]
    verify(kernel)
    with pytest.raises(CompileError, match="no barrier"):
        verify(without_barriers(kernel))


def test_blocks_with_common_rows_race() -> None:
    """The emulator detects the race of a schedule that validation refuses."""
    bound = seam()
    found = with_scan(bound, "bx=2 rr.y=8 tx=7")
    assert "loop x is split over blocks" in violations(bound, found, H200)[0]
    program = lower(bound, found)
    outputs = {n: np.zeros(a.extents, a.buffer.dtype.numpy) for n, a in program.outputs.items()}
    with pytest.raises(EmulatorError):
        EmulatedExecutable(program).run(inputs_of(bound), outputs, {})
