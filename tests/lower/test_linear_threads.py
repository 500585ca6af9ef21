"""Kernels whose threads are numbered by a linear index: text, legality, and agreement of all witnesses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.api import schedule as schedule_pipeline
from autosched.apps.registry import get_app
from autosched.codegen.c import print_c
from autosched.codegen.cuda import print_cuda
from autosched.errors import CompileError
from autosched.lower.ir import For, LoopRole, walk
from autosched.lower.program import lower
from autosched.lower.verify import verify
from autosched.reference import interpret
from autosched.runtime.backends.cpu import CpuExecutable
from autosched.runtime.backends.emulator import EmulatedExecutable
from autosched.runtime.compile.nvrtc import compile_cubin
from autosched.schedule.io.serialise import from_json, to_json
from autosched.schedule.io.structural_hash import structural_hash
from autosched.schedule.io.text import canonical_text, schedule_text
from autosched.schedule.legality.validate import kernel_violations, violations
from autosched.schedule.planner import plan_kernel
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.schedule.types import Kernel, Schedule
from autosched.search.strategies.forma.forma_strategy import Forma
from autosched.target import get_target
from tests.search.forma import pipelines
from tests.stage_limits import short_app

H200 = get_target("h200")
LONG = ("camera_pipe", "canny", "denoise", "unsharp")
"""Apps whose kernels take longest."""
APPS = ("harris", "unsharp", "canny", "bilateral_grid", "denoise", "hist", "camera_pipe", "depthwise_separable_conv")


def linear(bound: BoundPipeline, schedule: Schedule) -> Schedule:
    """Return a schedule with linear threads in all kernels where these are legal."""
    others = [replace(k, linear_threads=True) for k in schedule.kernels]
    legal = [kernel_violations(bound, k, H200) == [] for k in others]
    kernels = [b if ok else a for a, b, ok in zip(schedule.kernels, others, legal, strict=True)]
    return replace(schedule, kernels=tuple(kernels))


def blur_kernel(*, linear_threads: bool) -> tuple[BoundPipeline, Schedule]:
    """Return Listing 1 of Forma with blocks of 16 x 32 points."""
    bound = pipelines.blur()
    schedule = Forma().search(bound, H200).best
    (kernel,) = schedule.kernels
    return bound, replace(schedule, kernels=(replace(kernel, linear_threads=linear_threads),))


def test_stages_divide_a_linear_index() -> None:
    bound, schedule = blur_kernel(linear_threads=True)
    (kernel,) = lower(bound, schedule).kernels
    printed = print_cuda(kernel)
    assert printed.block == (18 * 34, 1, 1)
    for line in (
        "const int y_t1 = threadIdx.x / 34;  // y: 18 threads", "const int x_t1 = threadIdx.x % 34;  // x: 34 threads",
        "if (threadIdx.x < 576) {", "const int x_t2 = threadIdx.x % 32;  // x: 32 threads", "if (threadIdx.x < 512) {",
    ):  # fmt: skip
        assert line in printed.body
    assert "threadIdx.y" not in printed.body


def test_the_c_backend_ignores_it() -> None:
    along, across = (print_c(lower(*blur_kernel(linear_threads=linear))).text for linear in (False, True))
    assert along == across


def test_verify_counts_the_threads_of_a_nest() -> None:
    bound, schedule = blur_kernel(linear_threads=True)
    (kernel,) = lower(bound, schedule).kernels
    assert any(isinstance(s, For) and s.role is LoopRole.THREAD and s.axis == 1 for s in walk(kernel.body))
    with pytest.raises(CompileError, match="have 612 iterations, but the block has 600 threads"):
        verify(replace(kernel, block=(600, 1, 1)))


def test_forms_of_a_schedule_keep_it() -> None:
    bound, schedule = blur_kernel(linear_threads=True)
    _, other = blur_kernel(linear_threads=False)
    assert from_json(to_json(bound, schedule), bound) == schedule
    assert '"linear_threads": true' in to_json(bound, schedule)
    assert "linear_threads" not in to_json(bound, other)
    assert canonical_text(schedule) == canonical_text(other) + "; linear threads"
    assert "of 612 threads in linear order" in schedule_text(bound, schedule)
    assert structural_hash(schedule, 0) == structural_hash(other, 0)
    assert structural_hash(schedule, 1) != structural_hash(other, 1)


def reasons(kernel: Kernel, bound: BoundPipeline) -> list[str]:
    return kernel_violations(bound, replace(kernel, linear_threads=True), H200)


def test_threads_along_axes_are_required_where_they_keep_values() -> None:
    app = get_app("sgemm")
    found = schedule_pipeline(app.build(), app.shapes(), "h200", strategy="beam", seconds=10)
    kernel = found.schedule.kernels[0]
    assert kernel.mainloop_at is not None
    (reason,) = reasons(kernel, found.bound)
    assert "is the loop of a mainloop or sliding window, which needs threads along axes" in reason


def test_a_block_of_too_many_threads_is_illegal() -> None:
    bound, schedule = blur_kernel(linear_threads=True)
    few = replace(H200, name="few", max_threads_per_block=600)
    assert violations(bound, schedule, few) == [
        "kernel 0: 612 x 1 x 1 threads per block exceed the limit of 600 on few; use fewer"
    ]


def assert_computes(bound: BoundPipeline, schedule: Schedule, inputs: dict, params: dict, *, seed: int) -> None:  # type: ignore[type-arg]
    """Compare emulator and C backend with the interpreter, and compile every kernel for sm_90."""
    program = lower(bound, schedule)
    expected = interpret(bound.pipeline, inputs, params)
    for executable in (EmulatedExecutable(program, seed=seed), CpuExecutable(program)):
        outputs = {n: np.zeros(o.extents, o.buffer.dtype.numpy) for n, o in program.outputs.items()}
        executable.run(inputs, outputs, {p.name: params[p.name] for p in bound.scalars})
        for n, found in outputs.items():
            np.testing.assert_array_equal(found, expected[n], err_msg=n)
    for k in program.kernels:
        printed = print_cuda(k)
        assert compile_cubin(printed.source, "sm_90", name=printed.name).code


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.fuzz] * (n in LONG)) for n in APPS])
def test_random_schedules_of_apps_agree(name: str) -> None:
    app, bound = get_app(name), short_app(name)
    params = {p.name: p.default for p in bound.pipeline.params}
    found = 0
    for seed in range(2):
        schedule = sample_schedule(bound, H200, np.random.default_rng(seed), varied=seed > 0)
        schedule = linear(bound, schedule)
        found += sum(k.linear_threads and plan_kernel(bound, k).block[0] > 1 for k in schedule.kernels)
        assert violations(bound, schedule, H200) == []
        assert_computes(bound, schedule, app.make_inputs(app.small_sizes), params, seed=seed)
    assert found > 0
