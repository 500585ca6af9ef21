"""A pipeline's launches on copies of its arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from autosched.runtime.call.cuda_graphs import BoundStep
from autosched.runtime.call.launch_plan import Binding, CompiledLaunches
from autosched.runtime.call.launcher import CudaModule
from autosched.runtime.timing.gpu_arrays import GpuArrays
from autosched.runtime.timing.gpu_device import GpuDevice


@dataclass(frozen=True, slots=True)
class Launches:
    """A pipeline's launches on one copy of its arrays.

    Attributes:
        steps: In launch order; None stands for a kernel without any block.
    """

    steps: tuple[BoundStep | None, ...]


def copy_arguments(
    device: GpuDevice, arrays: GpuArrays, compiled: CompiledLaunches, scalars: Mapping[str, Any]
) -> list[Launches]:
    """Load a pipeline's code and return its launches for each copy of its arrays.

    Args:
        device: The GPU.
        arrays: The copies.
        compiled: The pipeline.
        scalars: Value of each run-time parameter.

    Raises:
        LaunchError: If the device refuses the code, or memory runs out.
        InputError: If a parameter's value does not fit its type.
    """
    modules = {code: CudaModule(code, device.driver) for code in set(compiled.cubins.values())}
    functions = {
        step.function: modules[compiled.cubins[step.function]].function(step.function, step.shared_bytes)
        for step in compiled.steps
        if not step.is_empty
    }
    workspace = arrays.workspace(compiled.workspace_bytes)
    launches = []
    for copy in range(arrays.rotation.copies):
        binding = Binding(arrays.pointers(copy), scalars)
        launches.append(
            Launches(
                tuple(
                    None
                    if step.is_empty
                    else BoundStep(step, functions[step.function], binding.arguments_of(step, workspace))
                    for step in compiled.steps
                )
            )
        )
    return launches
