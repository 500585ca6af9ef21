"""Guides: the parts of a schedule that an expert chooses; the search finds the rest (Artemis, section II).

A guide is immutable, hashable and free of imports of the search. Names and limits are checked against a pipeline by
`autosched.search.guidance.guide_checks`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Generic, Literal, TypeVar, get_args

from autosched.errors import InputError

Memory = Literal["shared", "registers", "global", "inline"]
"""Where the values of a Func or a copy are: see `Guide.memory`."""

MEMORIES: tuple[Memory, ...] = get_args(Memory)
FEWEST_REGISTERS, MOST_REGISTERS = 32, 255
"""Range of limits on the registers of a thread: those of a full multiprocessor, and the most of the hardware."""

V = TypeVar("V")


class FrozenMapping(Mapping[str, V], Generic[V]):
    """A hashable mapping from names, in the order of insertion; equal to any mapping with the same entries."""

    __slots__ = ("_entries",)

    def __init__(self, entries: Mapping[str, V]) -> None:
        self._entries = dict(entries)

    def __getitem__(self, name: str) -> V:
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __hash__(self) -> int:
        return hash(frozenset(self._entries.items()))

    def __repr__(self) -> str:
        return repr(self._entries)


_NONE: FrozenMapping[int] = FrozenMapping({})


@dataclass(frozen=True)
class KernelGuide:
    """Choices for a kernel; what is left out is searched.

    Attributes:
        stream: Dimension that blocks stream along: a sliding window with rolling buffers in shared memory, or with
            rows of Funcs that `Guide.memory` puts there in registers.
        threads: Threads of a block by dimension. Along the streamed dimension it is one thread if others are given.
            With rows in registers, the threads cover the tile of the outermost window, and the root has an inner part.
        points: Points of a thread by dimension. Along the streamed dimension these are the points of a block over all
            of its steps; as many as the dimension has is serial streaming.
        unroll: Points of a thread that are unrolled by dimension. Along the streamed dimension these are the points of
            a step; elsewhere all points of a thread are unrolled, so it means the same as ``points``.
        occupancy: Least theoretical occupancy, above 0, at most 1: resident threads over those that a multiprocessor
            can have. The least used copies in shared memory are given up until it is met.
        registers: Most registers of a thread, by launch bounds for as many resident blocks.

    Raises:
        InputError: If a number is out of range, or ``points`` and ``unroll`` differ where they mean the same.
    """

    stream: str | None = None
    threads: Mapping[str, int] = field(default_factory=lambda: _NONE)
    points: Mapping[str, int] = field(default_factory=lambda: _NONE)
    unroll: Mapping[str, int] = field(default_factory=lambda: _NONE)
    occupancy: float | None = None
    registers: int | None = None

    def __post_init__(self) -> None:
        for name in ("threads", "points", "unroll"):
            object.__setattr__(self, name, _sizes(name, getattr(self, name)))
        if self.stream is not None and (not isinstance(self.stream, str) or not self.stream):
            raise InputError(f"stream is {self.stream!r}: give the name of a dimension, or leave it out")
        _check_occupancy(self.occupancy)
        _check_registers(self.registers)
        for dim in self.points.keys() & self.unroll.keys():
            _check_unrolling(dim, self.points[dim], self.unroll[dim], streamed=dim == self.stream)

    def __bool__(self) -> bool:
        """Whether anything is chosen."""
        return self != KernelGuide()

    def over(self, other: KernelGuide) -> KernelGuide:
        """Return another guide with the choices of this one in place of its own."""
        return KernelGuide(
            other.stream if self.stream is None else self.stream,
            {**other.threads, **self.threads},
            {**other.points, **self.points},
            {**other.unroll, **self.unroll},
            other.occupancy if self.occupancy is None else self.occupancy,
            other.registers if self.registers is None else self.registers,
        )

    def serial_points(self) -> dict[str, int]:
        """Return the points of a thread by dimension, without the streamed one."""
        return {d: n for d, n in {**self.points, **self.unroll}.items() if d != self.stream}

    def of_step(self, dim: str) -> KernelGuide:
        """Return the guide of one step of a window that slides along a dimension.

        The points of a step are chosen by the direction of the window; ``unroll`` gives those of one thread.
        """
        rows = self.unroll.get(dim)
        serial = {d: n for d, n in self.serial_points().items() if d != dim}
        threads = dict(self.threads)
        if rows is not None:
            serial[dim] = rows
        if threads or rows is not None:
            threads.setdefault(dim, 1)
        return replace(self, stream=None, threads=threads, points=serial, unroll={})

    def rows_of_step(self, dim: str) -> int | None:
        """Return the points along the streamed dimension in a step; None if these are searched."""
        rows = self.unroll.get(dim)
        return None if rows is None else rows * self.threads.get(dim, 1)

    def steps(self, dim: str, rows: int) -> int | None:
        """Return the steps of a block for so many points a step; None if they are searched."""
        points = self.points.get(dim)
        return None if points is None else -(-points * self.threads.get(dim, 1) // rows)

    def to_data(self) -> dict[str, Any]:
        """Return the choices as data for `json`."""
        data = {f.name: getattr(self, f.name) for f in fields(self)}
        return {
            k: dict(v) if isinstance(v, Mapping) else v for k, v in data.items() if v is not None and v != _NONE
        }  # fmt: skip


@dataclass(frozen=True)
class Guide:
    """The parts of a schedule that an expert chooses.

    A choice is met or refused: a search that cannot meet it raises an error with the reason. Choices restrict the
    options of a search, so that a guided search has fewer candidates.

    Attributes:
        every: Choices for all kernels whose Func has the dimensions in question.
        kernels: Choices for the kernel of a Func, in place of those for all kernels. The Func is computed at root,
            unless ``memory`` puts it in shared memory; then ``threads`` are the threads that compute its tile.
        memory: Where a Func or a copy is. A Func is in ``shared`` memory or ``registers`` of the kernel of its
            consumers (where that streams, the rows at a thread's own points), in ``global`` memory as the result of a
            kernel, or ``inline`` in all consumers. A copy of an input, named as the input, is in ``shared`` memory, or
            is not made (``global``): then kernels read the input directly. A copy of a Func that is in global memory
            has its name with the suffix ``.staged``.
        fuse: Groups of Funcs that share a kernel: that of the last one.

    Raises:
        InputError: If a memory is unknown, or a group has fewer than two Funcs.
    """

    every: KernelGuide = field(default_factory=KernelGuide)
    kernels: Mapping[str, KernelGuide] = field(default_factory=lambda: FrozenMapping[KernelGuide]({}))
    memory: Mapping[str, Memory] = field(default_factory=lambda: FrozenMapping[Memory]({}))
    fuse: tuple[tuple[str, ...], ...] = ()

    def __post_init__(self) -> None:
        for name in ("kernels", "memory"):
            if not isinstance(getattr(self, name), Mapping):
                raise InputError(f"{name} is {getattr(self, name)!r}: give a mapping from names of Funcs")
            object.__setattr__(self, name, FrozenMapping(getattr(self, name)))
        object.__setattr__(self, "fuse", tuple(map(tuple, self.fuse)))
        for name, kernel in self.kernels.items():
            if not isinstance(kernel, KernelGuide):
                raise InputError(f"the guide of kernel {name!r} is {kernel!r}: give a KernelGuide")
        for name, memory in self.memory.items():
            if memory not in MEMORIES:
                raise InputError(f"the memory of {name!r} is {memory!r}: choose {', '.join(MEMORIES)}")
        for group in self.fuse:
            if len(set(group)) < 2:
                raise InputError(f"fuse has the group {list(group)}: give at least two Funcs that share a kernel")

    def __bool__(self) -> bool:
        """Whether anything is chosen."""
        return self != Guide()

    def of(self, func: str) -> KernelGuide:
        """Return the choices for the kernel of a Func."""
        own = self.kernels.get(func)
        return self.every if own is None else own.over(self.every)

    def with_kernel(self, func: str, kernel: KernelGuide) -> Guide:
        """Return the guide with other choices for the kernel of a Func."""
        return replace(self, kernels={**self.kernels, func: kernel})

    def of_step(self, func: str, dim: str) -> Guide:
        """Return the guide of one step of a Func's kernel that slides along a dimension (`KernelGuide.of_step`)."""
        return replace(self, every=KernelGuide(), kernels={**self.kernels, func: self.of(func).of_step(dim)})

    def to_data(self) -> dict[str, Any]:
        """Return the choices as data for `json`; `autosched.search.guidance.guide_file` reads them."""
        data: dict[str, Any] = {}
        if self.every:
            data["every"] = self.every.to_data()
        if self.kernels:
            data["kernels"] = {name: kernel.to_data() for name, kernel in self.kernels.items()}
        if self.memory:
            data["memory"] = dict(self.memory)
        if self.fuse:
            data["fuse"] = [list(group) for group in self.fuse]
        return data

    def to_json(self) -> str:
        """Return the choices as JSON; equal guides with equal orders have equal texts."""
        return json.dumps(self.to_data())


def _sizes(name: str, sizes: object) -> FrozenMapping[int]:
    if not isinstance(sizes, Mapping):
        raise InputError(f"{name} is {sizes!r}: give numbers by dimension, as in {{'x': 32}}")
    for dim, size in sizes.items():
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise InputError(f"{name} of {dim!r} is {size!r}: give a whole number of at least 1")
    return FrozenMapping(sizes)


def _check_occupancy(occupancy: object) -> None:
    if occupancy is None:
        return
    if not isinstance(occupancy, int | float) or isinstance(occupancy, bool) or not 0 < occupancy <= 1:
        raise InputError(f"occupancy is {occupancy!r}: give a share of a multiprocessor's threads above 0, at most 1")


def _check_registers(registers: object) -> None:
    if registers is None:
        return
    is_whole = isinstance(registers, int) and not isinstance(registers, bool)
    if not is_whole or not FEWEST_REGISTERS <= registers <= MOST_REGISTERS:  # type: ignore[operator]
        raise InputError(
            f"registers is {registers!r}: give the most registers of a thread, {FEWEST_REGISTERS} to {MOST_REGISTERS}"
        )


def _check_unrolling(dim: str, points: int, unroll: int, *, streamed: bool) -> None:
    if streamed and points % unroll:
        raise InputError(
            f"points of {dim!r} are {points}, but a step of the streamed dimension has {unroll}: give a multiple"
        )
    if not streamed and points != unroll:
        raise InputError(
            f"points of {dim!r} are {points}, but {unroll} are unrolled: all points of a thread are unrolled together, "
            "so give equal numbers or only one of them"
        )
