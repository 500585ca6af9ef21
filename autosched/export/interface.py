"""C interface of an exported function, from which header, sources and example are written."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from autosched.analysis.identifiers import Namer
from autosched.export.names import ArgumentNames
from autosched.lang.dtypes import DType
from autosched.lang.expr import Scalar
from autosched.lower.program import Program
from autosched.runtime.call.signature import CallSignature
from autosched.runtime.host_memory import ALIGN
from autosched.schedule.kernel.memory_layout import WORKSPACE_ALIGN
from autosched.target import Target

_PUBLIC_TYPE = {
    "bool": "bool", "int8": "int8_t", "uint8": "uint8_t", "int16": "int16_t", "uint16": "uint16_t",
    "int32": "int32_t", "uint32": "uint32_t", "int64": "int64_t", "uint64": "uint64_t",
    "float16": "uint16_t", "bfloat16": "uint16_t", "float32": "float",
    "float64": "double",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ArrayArgument:
    """An array argument.

    Attributes:
        name: Its name in the pipeline.
        identifier: Its name in C.
        macro: Prefix of the macros of its shape.
        dtype: Element type.
        shape: Extents, outermost first.
        dims: Names of the dimensions.
        first: Index of the first element in each dimension, which is the lower corner of an output's box.
        is_output: Whether it is written.
        alignment: Required alignment of its address, in bytes.
    """

    name: str
    identifier: str
    macro: str
    dtype: DType
    shape: tuple[int, ...]
    dims: tuple[str, ...]
    first: tuple[int, ...]
    is_output: bool
    alignment: int

    @property
    def count(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def bytes_(self) -> int:
        """Size in bytes."""
        return self.count * self.dtype.bytes_

    @property
    def c_type(self) -> str:
        """C type of an element in the header; a float16 or bfloat16 is its bits."""
        return _PUBLIC_TYPE[self.dtype.name]

    @property
    def pointer(self) -> str:
        """C type of the argument."""
        return f"{'' if self.is_output else 'const '}{self.c_type} *"


@dataclass(frozen=True, slots=True)
class InterfaceScalar:
    """A scalar argument.

    Attributes:
        name: Its name in the pipeline.
        identifier: Its name in C.
        macro: Name of the macro with its default.
        dtype: Its type.
        default: Python's default value, or None.
    """

    name: str
    identifier: str
    macro: str
    dtype: DType
    default: np.generic | None

    @property
    def c_type(self) -> str:
        """C type of the argument; a float16 or bfloat16 is passed as a float."""
        return "float" if self.dtype.is_reduced_float else _PUBLIC_TYPE[self.dtype.name]


@dataclass(frozen=True, slots=True)
class Interface:
    """An exported function.

    Attributes:
        name: Its name.
        pipeline: Name of the pipeline.
        target: Target of its schedule.
        arrays: Input arguments, then output arguments, in order.
        scalars: Scalar arguments, after the arrays.
        fixed: Parameters whose value is built into the code.
        workspace_bytes: Scratch memory of a call.
        workspace_alignment: Required alignment of the scratch memory, in bytes.
        by_step: Parameters with a value for each step of a time loop, passed as arrays in host memory.
    """

    name: str
    pipeline: str
    target: Target
    arrays: tuple[ArrayArgument, ...]
    scalars: tuple[InterfaceScalar, ...]
    fixed: Mapping[str, Scalar]
    workspace_bytes: int
    workspace_alignment: int
    by_step: tuple[InterfaceScalar, ...] = ()

    @classmethod
    def of(cls, name: str, program: Program, signature: CallSignature, target: Target) -> Interface:
        """Return the interface of a lowered pipeline.

        Args:
            name: Name of the function.
            program: The pipeline.
            signature: Its signature in Python.
            target: The schedule's target.
        """
        identifier = ArgumentNames([name, f"{name}_workspace_bytes"])
        macro = _Macros(name)
        dims = {i.name: i.dims for i in program.bound.pipeline.inputs}
        placed = {**program.inputs, **program.outputs}
        arrays = []
        for spec in (*signature.inputs, *signature.outputs):
            is_output = spec.name in program.outputs
            array = placed[spec.name]
            called = identifier(spec.name)
            arrays.append(
                ArrayArgument(
                    name=spec.name,
                    identifier=called,
                    macro=macro(called),
                    dtype=spec.dtype,
                    shape=spec.shape,
                    dims=program.bound.funcs[array.source].dims if is_output else dims[spec.name],
                    first=array.mins,
                    is_output=is_output,
                    alignment=spec.dtype.bytes_,
                )
            )
        scalars = []
        for p, dtype in signature.scalars.items():
            called = identifier(p)
            scalars.append(InterfaceScalar(p, called, macro(called), dtype, signature.defaults.get(p)))
        return cls(
            name=name,
            pipeline=signature.pipeline,
            target=target,
            arrays=tuple(arrays),
            scalars=tuple(scalars),
            fixed=signature.fixed,
            workspace_bytes=program.workspace_bytes,
            workspace_alignment=WORKSPACE_ALIGN if target.kind == "cuda" else ALIGN,
        )

    def with_alignments(self, alignments: Mapping[str, int]) -> Interface:
        """Return the interface with stricter alignments of some arrays, by name."""
        arrays = (replace(a, alignment=max(a.alignment, alignments.get(a.name, 1))) for a in self.arrays)
        return replace(self, arrays=tuple(arrays))

    @property
    def prefix(self) -> str:
        """Prefix of all its macros."""
        return self.name.upper()

    @property
    def inputs(self) -> tuple[ArrayArgument, ...]:
        """Arrays that are read."""
        return tuple(a for a in self.arrays if not a.is_output)

    @property
    def outputs(self) -> tuple[ArrayArgument, ...]:
        """Arrays that are written."""
        return tuple(a for a in self.arrays if a.is_output)

    @property
    def arguments(self) -> tuple[ArrayArgument | InterfaceScalar, ...]:
        """Array and scalar arguments in order, before the workspace and, for CUDA, the stream."""
        return (*self.arrays, *self.scalars, *self.by_step)

    @property
    def identifiers(self) -> Mapping[str, str]:
        """C name of every array and scalar, by its name in the pipeline."""
        return {argument.name: argument.identifier for argument in self.arguments}

    @property
    def is_cuda(self) -> bool:
        """Whether it runs on a GPU."""
        return self.target.kind == "cuda"

    @property
    def prototype(self) -> str:
        """The function's declaration, without a semicolon."""
        arguments = [f"{a.pointer}{a.identifier}" for a in self.arrays]
        arguments += [f"{s.c_type} {s.identifier}" for s in self.scalars]
        arguments += [f"const {s.c_type} *{s.identifier}" for s in self.by_step]
        arguments += ["void *workspace", *(["cudaStream_t stream"] if self.is_cuda else [])]
        head = f"{'cudaError_t' if self.is_cuda else 'int'} {self.name}("
        line = f"{head}{', '.join(arguments)})"
        return line if len(line) <= 110 else f"{head}\n    " + ",\n    ".join(arguments) + ")"


class _Macros:
    """Generator of unique macro prefixes of arguments."""

    def __init__(self, function: str) -> None:
        self._prefix = function.upper()
        self._namer = Namer([f"{self._prefix}_WORKSPACE"])

    def __call__(self, identifier: str) -> str:
        return self._namer(f"{self._prefix}_{identifier.upper()}")
