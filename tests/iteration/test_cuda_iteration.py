"""Iterations on a GPU: kernels of all versions compiled by NVRTC, launched in the emulator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from autosched import ScheduledTimeLoop
from autosched.codegen.identical_kernels import distinct_kernels
from autosched.errors import InputError
from autosched.iteration.compilation import compile_time_loop
from autosched.iteration.cuda_iteration import CudaIteration
from autosched.runtime.call.launcher import LaunchSequence
from autosched.runtime.compile.nvrtc import have_nvrtc
from tests.emulated_device import EmulatedDevice
from tests.iteration.steps import STEPS, arrays, diffusion, fused, leapfrog, repeated

pytestmark = pytest.mark.skipif(not have_nvrtc(), reason="NVRTC is not installed")


def compiled(scheduled: ScheduledTimeLoop) -> CudaIteration:
    executable = compile_time_loop(scheduled, "cuda")._executable
    assert isinstance(executable, CudaIteration)
    return executable


def device_of(executable: CudaIteration) -> EmulatedDevice:
    return EmulatedDevice(distinct_kernels(k for kernels in executable._kernels.values() for k in kernels))


def run(
    scheduled: ScheduledTimeLoop, executable: CudaIteration, given: Any, times: int, calls: int = 1
) -> tuple[dict[str, Any], EmulatedDevice]:
    call = scheduled.signature.sort(given, {"times": times}, None)
    launches = executable.launches_of(call.scalars)
    device = device_of(executable)
    named = {name: name.encode() for name in launches.cubins}
    sequence = LaunchSequence(named, launches.steps, workspace_bytes=launches.workspace_bytes, driver=device)  # type: ignore[arg-type]
    out = {spec.name: np.zeros(spec.shape, spec.dtype.numpy) for spec in scheduled.signature.outputs}
    pointers = {name: array.ctypes.data for name, array in (*given.items(), *out.items())}
    for _ in range(calls):
        sequence.run(pointers, call.scalars)
    return out, device


@pytest.mark.parametrize("name", STEPS)
def test_launches_of_all_versions(name: str) -> None:
    iteration = STEPS[name]()
    given = arrays(iteration)
    kept = {key: array.copy() for key, array in given.items()}
    scheduled = fused(iteration, given, (1.0, 1.3, 2.5))
    executable = compiled(scheduled)
    for times in (0, 1, 4, 5):
        out, _ = run(scheduled, executable, given, times)
        for key, array in repeated(iteration, given, times).items():
            np.testing.assert_array_equal(out[key], array, err_msg=f"{key} after {times} steps")
    for key, array in given.items():
        np.testing.assert_array_equal(array, kept[key])


def test_fused_kernels_are_compiled_and_launched() -> None:
    given = arrays(diffusion(), (40, 70))
    scheduled = fused(diffusion(), given, (1.0, 1.3, 1.6), strategy="beam")
    assert any(kernel.fused for kernel in scheduled.version(3).scheduled.schedule.kernels)
    out, _ = run(scheduled, compiled(scheduled), given, 7)
    for key, array in repeated(diffusion(), given, 7).items():
        np.testing.assert_array_equal(out[key], array)


def test_a_repeated_call_becomes_a_graph() -> None:
    given = arrays(leapfrog())
    scheduled = fused(leapfrog(), given, (1.0,))
    out, device = run(scheduled, compiled(scheduled), given, 3, calls=3)
    assert device.graphs_launched == 2
    for key, array in repeated(leapfrog(), given, 3).items():
        np.testing.assert_array_equal(out[key], array)


def test_more_steps_use_the_same_code() -> None:
    given = arrays(diffusion())
    scheduled = fused(diffusion(), given, (1.0, 1.2))
    executable = compiled(scheduled)
    few, many = (executable.launches_of({"times": np.int64(t)}) for t in (4, 48))
    assert few.cubins == many.cubins
    assert few.workspace_bytes == many.workspace_bytes
    assert len(many.steps) == 12 * len(few.steps)


def test_kernels_are_listed_with_their_registers() -> None:
    given = arrays(diffusion())
    scheduled = fused(diffusion(), given, (1.0, 1.2))
    names = [info.name for info in compile_time_loop(scheduled, "cuda").resources]
    assert len(names) == sum(len(v.scheduled.program.kernels) for v in scheduled.used)
    assert all((info.registers or 0) > 0 for info in compile_time_loop(scheduled, "cuda").resources)


def test_a_cpu_schedule_is_refused() -> None:
    given = arrays(diffusion())
    with pytest.raises(InputError):
        compile_time_loop(fused(diffusion(), given, (1.0,), "cpu"), "cuda")
