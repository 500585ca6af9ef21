"""Where every Func and input lives in global memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autosched.analysis import index as ix
from autosched.analysis.bound import BoundPipeline
from autosched.analysis.naming import component_label
from autosched.lang.dtypes import DType
from autosched.lower.ir import Buffer, Memory
from autosched.schedule.derived import row_pitch


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


def global_arrays(
    bound: BoundPipeline, names: Mapping[str, str], roots: Sequence[str]
) -> dict[tuple[str, int], GlobalArray]:
    """Return the arrays of all inputs and of all Funcs computed at root, by (name, tuple component).

    ``names`` gives the identifier of each source in generated code.
    """
    arrays: dict[tuple[str, int], GlobalArray] = {}
    for i in bound.inputs.values():
        arrays[i.name, 0] = _dense(i.name, names[i.name], i.dtype, (0,) * len(i.shape), i.shape, "input")
    outputs = set(bound.outputs.values())
    for name in roots:
        func = bound.funcs[name]
        mins = tuple(lo for lo, _ in func.region)
        for k, dtype in enumerate(func.dtypes):
            label = component_label(names, name, len(func.dtypes), k)
            if name in outputs:
                arrays[name, k] = _dense(name, label, dtype, mins, func.extents, "output")
            else:
                arrays[name, k] = _pitched(name, label, dtype, mins, func.extents)
    return arrays


def _dense(
    source: str, label: str, dtype: DType, mins: tuple[int, ...], extents: tuple[int, ...], role: str
) -> GlobalArray:
    strides, count = _strides(extents, extents[-1] if extents else 1)
    return GlobalArray(source, Buffer(label, dtype, count, Memory.GLOBAL), mins, extents, strides, role)


def _pitched(source: str, label: str, dtype: DType, mins: tuple[int, ...], extents: tuple[int, ...]) -> GlobalArray:
    row = row_pitch(extents[-1], dtype.bytes_) if len(extents) > 1 else (extents[-1] if extents else 1)
    strides, count = _strides(extents, row)
    return GlobalArray(source, Buffer(label, dtype, count, Memory.GLOBAL), mins, extents, strides, "workspace")


def _strides(extents: tuple[int, ...], row: int) -> tuple[tuple[int, ...], int]:
    strides: list[int] = []
    count = 1
    for k in reversed(range(len(extents))):
        strides.insert(0, count)
        count *= row if k == len(extents) - 1 else extents[k]
    return tuple(strides), count
