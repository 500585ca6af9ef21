"""Producers in the registers of their threads, and invariants hoisted out of loops over interleaved points."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from autosched import interpret
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.lang.dtypes import as_dtype
from autosched.schedule.legality.validate import kernel_violations
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.schedule.types import FusedProducer, Kernel, Level, Loop, LoopKind, Schedule, StageTiling
from autosched.scheduled_pipeline import ScheduledPipeline
from autosched.target import get_target
from tests.schedule.row_kernel_cases import bound_rows, normalised, row_kernel

H200 = get_target("h200")
SHAPES = [(1, 64), (13, 100), (5, 33), (4, 96), (8, 95), (3, 97), (9, 771), (64, 64), (2, 2)]


def elements(shape: tuple[int, int], name: str, seed: int = 5) -> NDArray[np.generic]:
    """Return whole numbers, so that sums are exact in any order."""
    rng = np.random.default_rng(seed)
    high = 7 if np.dtype(name).kind == "f" else int(np.iinfo(name).max)
    return rng.integers(0, high, shape).astype(name)


def check(bound: BoundPipeline, found: Kernel, a: NDArray[np.generic]) -> str:
    """Check all backends against the interpreter, and that NVRTC compiles the code; return the CUDA code."""
    expected = interpret(bound.pipeline, {"a": a})["out"]
    scheduled = ScheduledPipeline(bound, Schedule.for_pipeline(bound, [found]), H200)
    for backend in ("cpu", "emulator"):
        np.testing.assert_array_equal(scheduled.compile(backend)({"a": a}), expected, err_msg=backend)
    scheduled.compile("cuda")
    return scheduled.source("cuda")


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("private", [(), ("shifted",), ("a.staged", "shifted")])
def test_all_lengths(shape: tuple[int, int], private: tuple[str, ...]) -> None:
    bound = bound_rows(*shape)
    lanes = min(32, shape[1])
    check(bound, row_kernel(bound, 4, private, lanes=lanes), elements(shape, "float32"))


@pytest.mark.parametrize("name", ["int32", "uint32", "int64", "float64"])
def test_all_types(name: str) -> None:
    bound = bound_rows(7, 75, as_dtype(name))
    check(bound, row_kernel(bound), elements((7, 75), name))


@pytest.mark.parametrize("lanes", [2, 8, 16])
def test_parts_of_a_warp(lanes: int) -> None:
    bound = bound_rows(13, 50)
    check(bound, row_kernel(bound, 4, lanes=lanes), elements((13, 50), "float32"))


def test_special_values_of_rows() -> None:
    """NaN, infinities, both zeros, subnormal and huge numbers: quotients are those of a division, bit for bit."""
    bound = bound_rows(8, 70)
    a = elements((8, 70), "float32").astype(np.float32)
    a[0, 3], a[1, 5], a[2, 9], a[3] = np.nan, np.inf, -np.inf, 0.0
    a[3, ::2] = -0.0
    a[4, :], a[5, 7], a[6, :] = 1e-42, 3e38, 1e-30
    a[7, 1] = -1e30
    with np.errstate(all="ignore"):
        expected = interpret(bound.pipeline, {"a": a})["out"]
    scheduled = ScheduledPipeline(bound, Schedule.for_pipeline(bound, [row_kernel(bound)]), H200)
    for backend in ("cpu", "emulator"):
        got = scheduled.compile(backend)({"a": a})
        np.testing.assert_allclose(got, expected, rtol=1e-6, err_msg=backend)
        zero = expected == 0
        np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(expected[zero]))


def test_invariants_are_hoisted() -> None:
    """The square root and the reciprocal stand before the loop over a row's points, inside the guard of the row."""
    bound = bound_rows(13, 100)
    text = check(bound, row_kernel(bound), elements((13, 100), "float32"))
    last = text[text.rindex("// out: this block's tile") :]
    root, loop = last.index("as_sqrt_f32("), last.index("for (int c_s")
    assert root < loop and "1.0f / " in last[:loop] and "as_div_by_f32(" in last[loop:]
    assert last.index("if (4*n_b") < root
    assert "REGISTER(float, shifted, 4);" in text and "SHARED(float, shifted" not in text


def test_other_loops_keep_their_code() -> None:
    """Without interleaved points nothing is hoisted out of guards, and quotients are divisions."""
    bound = bound_rows(13, 96)
    plain = row_kernel(bound, private=(), points="tc=32 tn=4 sc=3")
    across = tuple(replace(r, tiling=_contiguous(r.tiling)) for r in plain.roots)
    text = check(bound, replace(plain, roots=across), elements((13, 96), "float32"))
    assert "as_div_by_f32(" not in text


def _contiguous(t: StageTiling) -> StageTiling:
    """Return a tiling with its serial loops innermost."""
    serial = [p for p in t.loops if p.kind is LoopKind.SERIAL]
    return StageTiling(t.stage, (*(p for p in t.loops if p not in serial), *serial))


def _interleaved(t: StageTiling) -> StageTiling:
    """Return a tiling with its serial loops before its thread loops."""
    serial = [p for p in t.loops if p.kind is LoopKind.SERIAL]
    blocks = [p for p in t.loops if p.kind is LoopKind.BLOCK]
    rest = [p for p in t.loops if p not in serial and p not in blocks]
    return StageTiling(t.stage, (*blocks, *serial, *rest))


@pytest.mark.fuzz
def test_random_schedules_with_interleaved_and_private_producers() -> None:
    bound = bind(normalised(), {"a": (6, 45)})
    a = elements((6, 45), "float32")
    tried = 0
    for seed in range(60):
        found = sample_schedule(bound, H200, np.random.default_rng(seed), lanes="all")
        kernels = tuple(_with_registers(bound, k) for k in found.kernels)
        tried += any(m.private for k in kernels for m in k.fused)
        if tried > 2:
            break
        if kernels == found.kernels:
            continue
        scheduled = ScheduledPipeline(bound, replace(found, kernels=kernels), H200)
        expected = interpret(bound.pipeline, {"a": a})["out"]
        for backend in ("cpu", "emulator"):
            np.testing.assert_array_equal(scheduled.compile(backend)({"a": a}), expected, err_msg=f"{seed} {backend}")
    assert tried > 2


def _with_registers(bound: BoundPipeline, k: Kernel) -> Kernel:
    """Return a kernel with interleaved points, and with all producers private that may be."""
    candidates = [replace(k, roots=tuple(replace(r, tiling=_interleaved(r.tiling)) for r in k.roots))]
    best = candidates[0] if not kernel_violations(bound, candidates[0], H200) else k
    for m in best.fused:
        if m.at.level is Level.BLOCK:
            for change in (_apart(m), replace(_apart(m), private=True), replace(m, private=True)):
                other = replace(best, fused=tuple(change if o.func == m.func else o for o in best.fused))
                if not kernel_violations(bound, other, H200):
                    best = other
    return best


def _apart(m: FusedProducer) -> FusedProducer:
    return replace(m, tilings=tuple(_interleaved(t) for t in m.tilings))


def test_loops_are_those_of_the_schedule() -> None:
    assert _interleaved(StageTiling(row_kernel(bound_rows(4, 64)).roots[0].tiling.stage, (
        Loop("c", LoopKind.THREAD, 4), Loop("c", LoopKind.SERIAL, 2),
    ))).loops[0].kind is LoopKind.SERIAL  # fmt: skip
