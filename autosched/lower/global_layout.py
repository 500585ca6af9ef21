"""Layout of every input and materialised Func in global memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.identifiers import component_label
from autosched.analysis.indices import index as ix
from autosched.lang.dtypes import DType
from autosched.lower.ir import Buffer, Memory
from autosched.schedule.policy import array_strides


@dataclass(frozen=True, slots=True)
class GlobalArray:
    """An array in global memory.

    Args:
        source: Name of the input or Func.
        buffer: The flat buffer.
        mins: Lowest index per dimension.
        extents: Extent per dimension.
        strides: Distance in elements per dimension.
        role: ``input``, ``output`` or ``workspace``.
    """

    source: str
    buffer: Buffer
    mins: tuple[int, ...]
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    role: str

    def flat(self, at: Sequence[ix.Index]) -> ix.Index:
        """Return the flat index of a point."""
        total: ix.Index = 0
        for i, lo, stride in zip(at, self.mins, self.strides, strict=True):
            total = ix.add(total, ix.scale(ix.sub(i, lo), stride))
        return total


Arrays = Mapping[tuple[str, int], GlobalArray]
"""Arrays in global memory by source and tuple component."""


def global_arrays(
    bound: BoundPipeline, names: Mapping[str, str], materialised: Sequence[str]
) -> dict[tuple[str, int], GlobalArray]:
    """Return the arrays of all inputs and of the Funcs in global memory, by (name, tuple component).

    Args:
        bound: The pipeline.
        names: Identifier of each source in generated code.
        materialised: Funcs in global memory.
    """
    arrays: dict[tuple[str, int], GlobalArray] = {}
    for i in bound.inputs.values():
        arrays[i.name, 0] = _array(i.name, names[i.name], i.dtype, (0,) * len(i.shape), i.shape, "input")
    outputs = set(bound.outputs.values())
    for name in materialised:
        func = bound.funcs[name]
        mins = tuple(lo for lo, _ in func.region)
        role = "output" if name in outputs else "workspace"
        for k, dtype in enumerate(func.dtypes):
            label = component_label(names, name, len(func.dtypes), k)
            arrays[name, k] = _array(name, label, dtype, mins, func.extents, role)
    return arrays


def _array(
    source: str, label: str, dtype: DType, mins: tuple[int, ...], extents: tuple[int, ...], role: str
) -> GlobalArray:
    strides, count = array_strides(extents, dtype.bytes_, pitched=role == "workspace")
    return GlobalArray(source, Buffer(label, dtype, count, Memory.GLOBAL), mins, extents, strides, role)
