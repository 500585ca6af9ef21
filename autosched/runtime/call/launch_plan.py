"""Launches of a compiled pipeline: kernels in order, and the source of each argument."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from autosched.errors import LaunchError
from autosched.lang.dtypes import DType
from autosched.runtime.call.buffers import as_scalar

Dim3 = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class BufferArgument:
    """Pointer to an array of the caller.

    Attributes:
        name: Name of the input or output.
        byte_offset: Distance of the pointer from the array's first byte.
    """

    name: str
    byte_offset: int = 0


@dataclass(frozen=True, slots=True)
class WorkspaceArgument:
    """Pointer into the pipeline's workspace of intermediate arrays.

    Attributes:
        byte_offset: Distance of the pointer from the workspace's first byte.
    """

    byte_offset: int


@dataclass(frozen=True, slots=True)
class LaunchScalar:
    """Value of a scalar parameter.

    Attributes:
        name: Name of the parameter.
        dtype: Type of the kernel's argument.
    """

    name: str
    dtype: DType


@dataclass(frozen=True, slots=True)
class StepArgument:
    """Number of the launch, from 0, of a kernel that is launched several times, as a 32-bit integer."""


Argument = BufferArgument | WorkspaceArgument | LaunchScalar | StepArgument


@dataclass(frozen=True, slots=True)
class LaunchStep:
    """The launches of one kernel.

    Attributes:
        function: Name of the kernel.
        grid: Blocks in x, y, z; with a 0 nothing is launched.
        block: Threads per block in x, y, z.
        shared_bytes: Dynamic shared memory per block.
        arguments: The source of each argument, in the kernel's order.
        launches: Number of consecutive launches.
    """

    function: str
    grid: Dim3
    block: Dim3
    shared_bytes: int
    arguments: tuple[Argument, ...]
    launches: int = 1

    def __post_init__(self) -> None:
        """Refuse impossible sizes."""
        if len(self.grid) != 3 or len(self.block) != 3 or min(self.grid) < 0 or min(self.block) < 1:
            raise ValueError(f"{self.function}: grid {self.grid} and block {self.block} cannot be launched")
        if self.shared_bytes < 0:
            raise ValueError(f"{self.function}: {self.shared_bytes} bytes of shared memory cannot be allocated")

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to launch."""
        return 0 in self.grid


@dataclass(frozen=True, slots=True)
class CompiledLaunches:
    """Code and launches of a pipeline.

    Attributes:
        cubins: Code of each kernel, by name.
        steps: Launches in order.
        workspace_bytes: Memory for intermediate arrays.
        names: Names of kernels in errors, by name of the function, where they differ.
    """

    cubins: Mapping[str, bytes] = field(repr=False)
    steps: tuple[LaunchStep, ...]
    workspace_bytes: int
    names: Mapping[str, str] = field(repr=False, default_factory=dict)


@dataclass(frozen=True, slots=True)
class Binding:
    """The values of one call: pointers and scalars by name.

    Attributes:
        pointers: Address of each input and output.
        scalars: Value of each scalar parameter.
    """

    pointers: Mapping[str, int]
    scalars: Mapping[str, Any]

    def arguments_of(self, step: LaunchStep, workspace: int) -> tuple[np.generic, ...]:
        """Return a kernel's arguments as NumPy scalars, pointers as 64-bit integers; those of its first launch.

        Raises:
            LaunchError: If a buffer or scalar is not given.
            InputError: If a scalar does not fit its type.
        """
        return tuple(self.value_of(argument, workspace) for argument in step.arguments)

    def value_of(self, argument: Argument, workspace: int) -> np.generic:
        """Return one argument; `workspace` is the address of the workspace.

        Raises:
            LaunchError: If its buffer or scalar is not given.
            InputError: If a scalar does not fit its type.
        """
        match argument:
            case WorkspaceArgument(byte_offset):
                return np.uint64(workspace + byte_offset)
            case StepArgument():
                return np.int32(0)
            case BufferArgument(name, byte_offset) if name in self.pointers:
                return np.uint64(self.pointers[name] + byte_offset)
            case LaunchScalar(name, dtype) if name in self.scalars:
                return as_scalar(self.scalars[name], name, dtype)
        raise LaunchError(f"no value is given for {argument.name!r}, which the kernel takes")


@dataclass(frozen=True, slots=True)
class Signature:
    """Names of the arguments of a pipeline's launches, for cache keys of calls.

    Attributes:
        buffers: Inputs and outputs.
        scalars: Scalar parameters; a parameter with two argument types is listed twice.
    """

    buffers: tuple[str, ...]
    scalars: tuple[LaunchScalar, ...]

    @classmethod
    def of(cls, steps: Iterable[LaunchStep]) -> Signature:
        """Return the argument names of some launches."""
        arguments = dict.fromkeys(argument for step in steps for argument in step.arguments)
        buffers = dict.fromkeys(argument.name for argument in arguments if isinstance(argument, BufferArgument))
        return cls(tuple(buffers), tuple(a for a in arguments if isinstance(a, LaunchScalar)))

    def key(self, binding: Binding) -> tuple[object, ...]:
        """Return the values of a call as a hashable key; calls with equal keys are equal."""
        pointers = tuple(binding.pointers.get(name) for name in self.buffers)
        # bytes, since a NaN is not equal to itself and 0.0 is equal to -0.0
        return (*pointers, *(binding.value_of(scalar, 0).tobytes() for scalar in self.scalars))
