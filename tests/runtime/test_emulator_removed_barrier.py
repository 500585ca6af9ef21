"""The emulator detects a missing barrier between two thread nests, a possible bug of lowering."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autosched.analysis.bind import bind
from autosched.apps import get_app
from autosched.lower.ir import Barrier, If, KernelIR, Stmt
from autosched.lower.program import Program, lower
from autosched.runtime.backends.emulator import EmulatedExecutable
from autosched.runtime.emulator import EmulatorError, ErrorKind
from autosched.schedule.legality.validate import validate
from autosched.schedule.types import (
    ComputeAt,
    FusedProducer,
    Kernel,
    Level,
    Loop,
    LoopKind,
    Root,
    Schedule,
    StageId,
    StageTiling,
)
from autosched.target import get_target


def blur_with_shared_rows() -> tuple[Program, dict[str, np.ndarray]]:
    """Return the blur with its horizontal pass in shared memory, and inputs."""
    app = get_app("blur")
    pipeline, params = app.configure({})
    inputs = app.make_inputs(app.small_sizes, 0)
    bound = bind(pipeline, {k: v.shape for k, v in inputs.items()}, params)
    height, width = bound.funcs["output"].extents
    root = (
        Loop("y", LoopKind.BLOCK, -(-height // 8)), Loop("x", LoopKind.BLOCK, -(-width // 32)),
        Loop("x", LoopKind.THREAD, 32), Loop("y", LoopKind.THREAD, 8),
    )  # fmt: skip
    rows = (Loop("x", LoopKind.THREAD, 32), Loop("y", LoopKind.THREAD, 8), Loop("y", LoopKind.SERIAL, 2))
    at = ComputeAt(Level.BLOCK, StageId("output"), 2)
    member = FusedProducer((StageTiling(StageId("blur_x"), rows),), at, ("y", "x"))
    schedule = Schedule(pipeline.hash, (Kernel((Root(StageTiling(StageId("output"), root)),), (member,)),))
    validate(bound, schedule, get_target("h200"))
    return lower(bound, schedule), inputs


def without_barriers(kernel: KernelIR) -> KernelIR:
    """Return the kernel with every barrier left out, and without vectors: putting those in verifies the kernel."""

    def strip(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        kept = (s for s in body if not isinstance(s, Barrier))
        return tuple(replace(s, then=strip(s.then), orelse=strip(s.orelse)) if isinstance(s, If) else s for s in kept)

    return replace(kernel, body=strip(kernel.body), vectors=False)


def run(program: Program, inputs: dict[str, np.ndarray], seed: int) -> np.ndarray:
    array = program.outputs["output"]
    output = np.zeros(array.extents, array.buffer.dtype.numpy)
    EmulatedExecutable(program, seed=seed).run(inputs, {"output": output}, {})
    return output


@pytest.mark.parametrize("seed", range(3))
def test_a_removed_barrier_is_caught(seed: int) -> None:
    program, inputs = blur_with_shared_rows()
    expected = get_app("blur").reference(inputs, {})["output"]
    np.testing.assert_array_equal(run(program, inputs, seed), expected)
    broken = replace(program, kernels=tuple(without_barriers(k) for k in program.kernels))
    assert broken.kernels != program.kernels
    with pytest.raises(EmulatorError) as caught:
        run(broken, inputs, seed)
    assert caught.value.kind in (ErrorKind.RACE, ErrorKind.UNINITIALISED_READ)
    assert caught.value.buffer == "blur_x"
