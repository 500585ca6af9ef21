"""Run a time loop on the GPU: the launches of all versions of a call as one sequence, with one workspace."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from autosched.codegen.cuda import CudaKernel
from autosched.codegen.identical_kernels import distinct_kernels, share_cuda_kernels
from autosched.iteration.field_update import TIMES
from autosched.iteration.host_iteration import own_scalars
from autosched.iteration.launch_sequence import ArrayPlace, IterationLaunches
from autosched.iteration.step_unrolling import UnrolledSteps
from autosched.lower.program import Program
from autosched.runtime.backends.cuda import CudaCalls, alignments, compile_kernels, kernel_info, launch_steps
from autosched.runtime.backends.kernel_info import KernelInfo
from autosched.runtime.call.launch_plan import (
    Argument,
    BufferArgument,
    CompiledLaunches,
    LaunchScalar,
    LaunchStep,
    WorkspaceArgument,
)
from autosched.runtime.call.launcher import LaunchSequence
from autosched.runtime.call.signature import CallSignature
from autosched.runtime.compile.nvrtc import Cubin, NvrtcOptions
from autosched.schedule.kernel.memory_layout import WORKSPACE_ALIGN

Key = TypeVar("Key", int, str)

_KEPT_SEQUENCES = 8
"""Most numbers of steps whose launches are kept."""


@dataclass(frozen=True)
class CudaVersion:
    """A version, or the copy of a field, with its lowered kernels.

    Attributes:
        program: The kernels.
        unrolled: The version; None for a copy.
    """

    program: Program
    unrolled: UnrolledSteps | None = None


class CudaIteration(CudaCalls):
    """A time loop compiled for one GPU architecture.

    Args:
        signature: Inputs, outputs and parameters of the time loop.
        versions: The versions by their number of steps.
        copies: For each field, the pipeline that copies ``source`` to ``copy``.
        plan: Returns the launches of a number of steps.
        arch: Architecture, such as ``sm_90``.
        fast_math: Approximate division and elementary functions.

    Raises:
        CompileError: If NVRTC is missing or refuses a kernel.
    """

    def __init__(
        self,
        signature: CallSignature,
        versions: Mapping[int, CudaVersion],
        copies: Mapping[str, CudaVersion],
        plan: Callable[[int], IterationLaunches],
        arch: str,
        *,
        fast_math: bool = False,
    ) -> None:
        super().__init__(signature)
        self._versions, self._copies, self._plan = versions, copies, plan
        self._arch, self._fast_math = arch, fast_math
        self._kernels = _printed_kernels([*versions.values(), *copies.values()])
        printed = distinct_kernels(k for kernels in self._kernels.values() for k in kernels)
        cubins = compile_kernels(printed, arch, NvrtcOptions(fast_math=fast_math))
        self.cubins: Mapping[str, Cubin] = {k.name: c for k, c in zip(printed, cubins, strict=True)}
        self._alignments = self._required_alignments()
        self._lock = threading.Lock()
        self._sequences: OrderedDict[int, LaunchSequence] = OrderedDict()
        self._for_any_alignment: CudaIteration | None = None

    @property
    def resources(self) -> tuple[KernelInfo, ...]:
        """The kernels of all versions, with the registers and local memory that ptxas gave them."""
        kernels = (k for v in self._versions.values() for k in self._kernels[id(v)])
        return tuple(kernel_info(k, self.cubins[k.name]) for k in kernels)

    def launches_of(self, scalars: Mapping[str, Any]) -> CompiledLaunches:
        """Return code and launches of a number of steps; see `CudaCalls`."""
        plan = self._plan(int(scalars[TIMES]))
        own = max((v.program.workspace_bytes for v in (*self._versions.values(), *self._copies.values())), default=0)
        offsets, size = [], _aligned(own)
        for spec in plan.scratch:
            offsets.append(size)
            size += _aligned(math.prod(spec.shape) * spec.dtype.bytes_)

        def argument(place: ArrayPlace) -> Argument:
            if place.kind == "scratch":
                return WorkspaceArgument(offsets[place.number])
            return BufferArgument(place.name)

        steps: list[LaunchStep] = []
        for launch in plan.launches:
            version = self._versions[launch.steps]
            assert version.unrolled is not None
            arrays = {name: argument(place) for name, place in (*launch.reads.items(), *launch.writes.items())}
            steps += self._steps(version, arrays, own_scalars(version.unrolled, launch.step))
        for source, target in plan.copies:
            field = next(f for f, name in self._fields().items() if name == target.name)
            arrays = {"source": argument(source), "copy": argument(target)}
            steps += self._steps(self._copies[field], arrays, {})
        used = {step.function for step in steps}
        code = {name: cubin.code for name, cubin in self.cubins.items() if name in used}
        return CompiledLaunches(code, tuple(steps), size if offsets or own else 0)

    def _launches(self, pointers: Mapping[str, int], scalars: Mapping[str, Any]) -> LaunchSequence:
        """Return the launches of a number of steps, for arrays at some addresses; see `CudaExecutable`."""
        times = int(scalars[TIMES])
        with self._lock:
            if any(pointers[name] % aligned for name, aligned in self._alignments.items()):
                if self._for_any_alignment is None:
                    self._for_any_alignment = CudaIteration(
                        self._signature, _without_vectors(self._versions), _without_vectors(self._copies), self._plan,
                        self._arch, fast_math=self._fast_math,
                    )  # fmt: skip
                return self._for_any_alignment._launches(pointers, scalars)
            if times not in self._sequences:
                compiled = self.launches_of(scalars)
                sequence = LaunchSequence(compiled.cubins, compiled.steps, workspace_bytes=compiled.workspace_bytes)
                self._sequences[times] = sequence
                if len(self._sequences) > _KEPT_SEQUENCES:
                    self._sequences.popitem(last=False)
            self._sequences.move_to_end(times)
            return self._sequences[times]

    def _fields(self) -> dict[str, str]:
        """Return the output of each field."""
        return dict(zip(self._copies, (spec.name for spec in self._signature.outputs), strict=True))

    def _steps(
        self, version: CudaVersion, arrays: Mapping[str, Argument], scalars: Mapping[str, str]
    ) -> list[LaunchStep]:  # fmt: skip
        """Return the launches of a version on some arrays."""

        def placed(argument: Argument) -> Argument:
            if isinstance(argument, BufferArgument):
                place = arrays.get(argument.name, argument)
                if isinstance(place, WorkspaceArgument):
                    return WorkspaceArgument(place.byte_offset + argument.byte_offset)
                assert isinstance(place, BufferArgument)
                return BufferArgument(place.name, argument.byte_offset)
            if isinstance(argument, LaunchScalar):
                return LaunchScalar(scalars.get(argument.name, argument.name), argument.dtype)
            return argument

        steps = launch_steps(version.program, self._kernels[id(version)])
        return [replace(step, arguments=tuple(map(placed, step.arguments))) for step in steps]

    def _required_alignments(self) -> dict[str, int]:
        """Return the alignment in bytes that vector accesses require of the caller's arrays, by name.

        Any version may read and write any array of a field.
        """
        required: dict[str, int] = {}
        constant = {spec.name for spec in self._signature.inputs} - set(self._copies)
        of_fields = 1
        for version in (*self._versions.values(), *self._copies.values()):
            for name, aligned in alignments(version.program, self._kernels[id(version)]).items():
                if name in constant and version.unrolled is not None:
                    required[name] = max(required.get(name, 1), aligned)
                else:
                    of_fields = max(of_fields, aligned)
        return required | {name: of_fields for pair in self._fields().items() for name in pair}


def _printed_kernels(versions: Sequence[CudaVersion]) -> dict[int, tuple[CudaKernel, ...]]:
    """Return the printed kernels of each version by its id; those that are equal share one function."""
    renamed = [
        replace(k, name=k.name if v.unrolled is not None else f"copy_{number}_{k.name}")
        for number, v in enumerate(versions)
        for k in v.program.kernels
    ]
    printed = iter(share_cuda_kernels(renamed))
    return {id(v): tuple(next(printed) for _ in v.program.kernels) for v in versions}


def _without_vectors(versions: Mapping[Key, CudaVersion]) -> dict[Key, CudaVersion]:
    return {key: replace(v, program=v.program.without_vectors()) for key, v in versions.items()}


def _aligned(size: int) -> int:
    return -(-size // WORKSPACE_ALIGN) * WORKSPACE_ALIGN
