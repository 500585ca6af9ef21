"""Where every Func and input lives in global memory, and how shared buffers share the block's memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autosched.analysis import index as ix
from autosched.analysis.bound import BoundPipeline
from autosched.lang.dtypes import DType
from autosched.lower.ir import Buffer, Memory, Slot
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
            label = f"{names[name]}_{k}" if len(func.dtypes) > 1 else names[name]
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


def _pitched(
    source: str, label: str, dtype: DType, mins: tuple[int, ...], extents: tuple[int, ...]
) -> GlobalArray:
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


def place(
    buffers: Sequence[Buffer], lifetimes: Mapping[str, tuple[int, int]], align: int
) -> tuple[tuple[Slot, ...], int]:
    """Place buffers first-fit so that those alive at the same time never overlap.

    Args:
        buffers: In order of first use.
        lifetimes: First and last step (or kernel) that touches each buffer, by name.
        align: Alignment of every buffer in bytes.

    Returns:
        The slots, and the bytes needed in all.
    """
    slots: list[Slot] = []
    total = 0
    for b in buffers:
        first, last = lifetimes[b.name]
        size = b.count * b.dtype.bytes_
        alive = sorted(
            (s.offset, s.offset + s.buffer.count * s.buffer.dtype.bytes_)
            for s in slots
            if lifetimes[s.buffer.name][0] <= last and first <= lifetimes[s.buffer.name][1]
        )
        offset = 0
        for start, end in alive:
            if offset + size <= start:
                break
            offset = max(offset, -(-end // align) * align)
        slots.append(Slot(b, offset))
        total = max(total, offset + size)
    return tuple(slots), -(-total // align) * align


def overlap(a: Slot, b: Slot) -> bool:
    """Whether two slots share bytes."""
    end_a = a.offset + a.buffer.count * a.buffer.dtype.bytes_
    end_b = b.offset + b.buffer.count * b.buffer.dtype.bytes_
    return a.offset < end_b and b.offset < end_a
