"""Context of the emitters of one kernel body, and the mode they emit in."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.identifiers import Namer, component_label
from autosched.analysis.indices import index as ix
from autosched.errors import CompileError
from autosched.lang.dtypes import DType, bool_
from autosched.lower.builder import IRBuilder
from autosched.lower.edge_padding import padded_producers
from autosched.lower.global_layout import Arrays
from autosched.lower.ir import Buffer, CompareIndex, Memory, Op, ShuffleRead, Value, VarRef
from autosched.schedule.kernel.hybrid_parts import lane_order
from autosched.schedule.kernel.hybrid_read import HybridRead, locate_read
from autosched.schedule.kernel.lane_layout import HybridStorage
from autosched.schedule.kernel.nest_ranges import range_inside, without_clamps
from autosched.schedule.kernel.register_window import RegisterWindow, is_linear
from autosched.schedule.kernel.thread_fusion import thread_loops
from autosched.schedule.plan import Allocation, KernelPlan, Nest


@dataclass(frozen=True, slots=True)
class TileElement:
    """One element of a register tile: an index into the buffer of each tuple component."""

    buffers: tuple[Buffer, ...]
    index: ix.Index


@dataclass(frozen=True, slots=True)
class EmitMode:
    """The part of an emitter's input that depends on the position in the kernel body.

    Attributes:
        target: Func that the thread nest writes; loads of it are not reused. Empty outside of thread nests.
        parity: Number of the buffer, of two, that double-buffered accesses go to.
        asynchronous: Whether stores to shared memory may complete as late as the next barrier that waits for copies.
        allocations: Storage of fused producers whose region is that of another mainloop step.
        registers: Elements of register tiles that replace memory accesses, by Func; a thread only reads its own point.
        ranges: Loop variables with narrower ranges than the plan gives them.
        hoists: Whether divisions and elementary functions are hoisted out of the loops that they do not depend on.
        lanes: The nest of one point of each lane whose reads of hybrid tiles may be of registers; None where all are of
            shared memory.
    """

    target: str = ""
    parity: ix.Index = 0
    asynchronous: bool = False
    allocations: Mapping[str, Allocation] = field(default_factory=dict)
    registers: Mapping[str, TileElement] = field(default_factory=dict)
    ranges: Mapping[str, ix.Index] = field(default_factory=dict)
    hoists: bool = False
    lanes: Nest | None = None


class KernelContext:
    """Plan, arrays, names and builder that all emitters of a kernel body share; resolves accesses to storage.

    Attributes:
        plan: The kernel's plan.
        arrays: Arrays in global memory.
        namer: Makes identifiers that are unique in the kernel.
        names: Identifier of each source. A materialised producer's tile is named apart from its array.
        step: Name of the parameter that numbers the launches of a scan, or empty.
        builder: Builds the statements.
        padded: Fused producers with edge padding.
        async_copied: Fused producers that are filled by async copies.
        scalars: Scalar parameters that are read, by name.
    """

    def __init__(self, plan: KernelPlan, arrays: Arrays, names: Mapping[str, str]) -> None:
        self.plan = plan
        self.arrays = arrays
        self.namer = Namer(plan.bound.taken_labels | {loop.name for loop in plan.loops()})
        self.names = {**names, **self._tile_names(names)}
        self.step = self.namer("step") if plan.launches else ""
        self.builder = IRBuilder(self.namer)
        self.padded = padded_producers(plan)
        self.async_copied = frozenset(m.func for m in plan.kernel.fused if m.asynchronous)
        self.scalars: dict[str, VarRef] = {}
        self._local_buffers: dict[tuple[str, int], Buffer] = {}

    @property
    def bound(self) -> BoundPipeline:
        """The pipeline, with the kernel's cache reads."""
        return self.plan.bound

    def _tile_names(self, names: Mapping[str, str]) -> dict[str, str]:
        """Return identifiers of the tiles of materialised producers; their arrays have the producers' identifiers."""
        funcs = self.bound.funcs
        return {f: self.namer(names[f], "tile", components=len(funcs[f].dtypes)) for f in self.plan.owned}

    def scalar(self, name: str, dtype: DType) -> Value:
        """Return a scalar parameter of the kernel."""
        return self.scalars.setdefault(name, VarRef(self.names[name], dtype))

    def read(self, mode: EmitMode, name: str, at: Sequence[ix.Index], component: int) -> Value:
        """Return the value of an input or a Func at a point."""
        element = mode.registers.get(name)
        if element is not None:
            return self.builder.read(element.buffers[component], element.index, self.names[name], fixed=False)
        window = self.plan.register_windows.get(name)
        if window is not None and name != mode.target:
            own = self._read_own(mode, window, name, at, component)
            if own is not None:
                return own
        if mode.lanes is not None and name in self.plan.hybrid_tiles and name != mode.target:
            return self._read_hybrid(mode, mode.lanes, name, at, component)
        buffer, index = self.address(mode, name, at, component)
        return self.builder.read(buffer, index, self.names[name], fixed=name != mode.target)

    def _read_hybrid(self, mode: EmitMode, n: Nest, name: str, at: Sequence[ix.Index], component: int) -> Value:
        """Return an element of a hybrid tile: of the lane's own register, of another lane's, or of shared memory.

        Raises:
            CompileError: If its place is not determined, an internal error.
        """
        storage, dims = self.plan.hybrid_tiles[name], self.plan.allocations[name].func.dims
        for i in at:
            self.builder.require_atoms(i)
        read = locate_read(storage, dict(zip(dims, at, strict=True)), n, lane_order(self.plan))
        if read is None:
            raise CompileError(f"internal error in lowering: {n.id} reads {name} at no constant distance")
        if read.in_shared:
            buffer, index = self.address(mode, name, at, component)
            return self.builder.read(buffer, index, self.names[name], fixed=True)
        value = self._read_lane(storage, read, n, component)
        if read.before is None:
            return value
        buffer, index = self.address(mode, name, at, component)
        return self.builder.read_before(read.before, buffer, index, value, self.names[name])

    def _read_lane(self, storage: HybridStorage, read: HybridRead, n: Nest, component: int) -> Value:
        """Return an element that is in a register of some lane."""
        buffer = self.hybrid_registers(storage.func, component)
        builder, hint = self.builder, self.names[storage.func]
        if read.is_own:
            assert read.register is not None
            return builder.read(buffer, read.register, hint, fixed=False)
        lanes = lane_order(self.plan).mask([p.extent for p in thread_loops([n])])
        if read.register is not None:
            tests = tuple(CompareIndex("lt", index, limit, bool_) for index, limit in read.given_tests)
            return builder.shuffle(ShuffleRead(buffer, read.register, read.lane, read.given, tests, lanes, -1), hint)
        values = [
            builder.shuffle(ShuffleRead(buffer, c.register, read.lane, (c.register,), (), lanes, -1), hint)
            for c in read.candidates
        ]
        result = values[-1]
        for c, value in zip(reversed(read.candidates[:-1]), reversed(values[:-1]), strict=True):
            equal: list[Value] = [CompareIndex("eq", index, number, bool_) for index, number in c.tests]
            test = functools.reduce(lambda a, b: Op("and", (a, b), bool_), equal)
            result = Op("select", (test, value, result), buffer.dtype)
        return builder.let(result, hint) if len(values) > 1 else result

    def _read_own(
        self, mode: EmitMode, window: RegisterWindow, name: str, at: Sequence[ix.Index], component: int
    ) -> Value | None:  # fmt: skip
        """Return an element of a private window in the thread's registers; None if it is in shared memory.

        Raises:
            CompileError: If it is in neither, an internal error.
        """
        n = next(n for k in self.plan.repeated for n in self.plan.steps[k] if n.stage.func == mode.target)
        dims = self.plan.allocations[name].func.dims
        by_dim = {d: without_clamps(i, n) for d, i in zip(dims, at, strict=True)}
        position = window.position(by_dim[window.dim])
        span = range_inside(position, n, self._sliding_dim(n))
        element = window.element(by_dim)
        if element is not None and span[0] >= 0 and span[1] < window.count:
            buffer = self.register_window(name, component)
            lo, hi = ix.interval(position)
            if lo < 0 or hi >= window.count or not is_linear(position):
                return self._selected(buffer, window, position, element, span)
            return self.builder.read(buffer, window.flat(position, element), self.names[name], fixed=False)
        first, last = window.shared_span
        if not first <= span[0] <= span[1] <= last:
            raise CompileError(
                f"internal error in lowering: rows {span} of {name} are not in shared memory, which has {first} to "
                f"{last}; please report it"
            )
        return None

    def _selected(
        self, buffer: Buffer, window: RegisterWindow, position: ix.Index, element: ix.Index, span: tuple[int, int]
    ) -> Value:  # fmt: skip
        """Return an element at a position that differs from step to step, as registers have no run-time index."""
        builder = self.builder
        builder.require_atoms(position)
        values = [
            builder.read(buffer, window.flat(p, element), buffer.name, fixed=False) for p in range(span[0], span[1] + 1)
        ]
        result = values[-1]
        for p in reversed(range(span[0], span[1])):
            test = CompareIndex("le", position, p, bool_)
            result = Op("select", (test, values[p - span[0]], result), buffer.dtype)
        return builder.let(result, buffer.name)

    def _sliding_dim(self, n: Nest) -> str:
        """Return the dimension of a nest along which windows slide."""
        rolling = self.plan.allocations.get(n.stage.func)
        window = self.plan.register_windows.get(n.stage.func)
        if window is not None:
            return window.dim
        if rolling is not None and rolling.rolling is not None:
            return rolling.rolling
        return self.plan.kernel.mainloops[0].dim

    def hybrid_registers(self, name: str, component: int) -> Buffer:
        """Return the registers of a hybrid tile."""
        key = (name, -1 - component)
        buffer = self._local_buffers.get(key)
        if buffer is None:
            func = self.plan.allocations[name].func
            label = self.namer(component_label(self.names, name, len(func.dtypes), component), "r")
            count = self.plan.hybrid_tiles[name].elements
            buffer = self._local_buffers[key] = Buffer(label, func.dtypes[component], count, Memory.PRIVATE)
        return buffer

    def register_window(self, name: str, component: int) -> Buffer:
        """Return the registers of a private window."""
        key = (name, -1 - component)
        buffer = self._local_buffers.get(key)
        if buffer is None:
            window, func = self.plan.register_windows[name], self.plan.allocations[name].func
            label = self.namer(component_label(self.names, name, len(func.dtypes), component), "rows")
            buffer = self._local_buffers[key] = Buffer(label, func.dtypes[component], window.elements, Memory.PRIVATE)
        return buffer

    def store(
        self, mode: EmitMode, name: str, at: Sequence[ix.Index], component: int, value: Value, combine: str = ""
    ) -> None:
        """Store a value at a point of a Func, or combine it with the element by the operator ``combine``."""
        buffer, index = self.address(mode, name, at, component)
        asynchronous = mode.asynchronous and buffer.memory is Memory.SHARED
        self.builder.store(buffer, index, value, self.names[name], asynchronous=asynchronous, combine=combine)

    def store_global(self, name: str, at: Sequence[ix.Index], component: int, value: Value) -> None:
        """Store a value at a point of a Func's array in global memory, even if the kernel reads the Func elsewhere."""
        self.builder.store(*self._global_address(name, at, component), value, self.names[name])

    def address(self, mode: EmitMode, name: str, at: Sequence[ix.Index], component: int) -> tuple[Buffer, ix.Index]:
        """Return the buffer and the flat index of a point of a source."""
        allocation = self.plan.allocations.get(name)
        if allocation is None:
            return self._global_address(name, at, component)
        allocation = mode.allocations.get(name, allocation)
        index = allocation.flat(dict(zip(allocation.func.dims, at, strict=True)))
        if allocation.buffers > 1:
            index = ix.add(index, ix.scale(mode.parity, allocation.count))
        return self.local_buffer(name, component), index

    def _global_address(self, name: str, at: Sequence[ix.Index], component: int) -> tuple[Buffer, ix.Index]:
        array = self.arrays[name, component]
        return array.buffer, array.flat(at)

    def local_buffer(self, name: str, component: int) -> Buffer:
        """Return the shared or register buffer of a fused producer."""
        buffer = self._local_buffers.get((name, component))
        if buffer is None:
            a = self.plan.allocations[name]
            # With double buffering, a rolling buffer is one allocation: some rows are written, others are read.
            prefetched = self.plan.kernel.prefetched - set(self.plan.register_windows)
            rolling = a.rolling is not None and name in prefetched
            buffer = self._local_buffers[name, component] = Buffer(
                name=component_label(self.names, name, len(a.func.dtypes), component),
                dtype=a.func.dtypes[component],
                count=a.count * a.buffers,
                memory=_memory(a),
                buffers=2 if rolling else a.buffers,
            )
        return buffer


def _memory(a: Allocation) -> Memory:
    """Return the memory of a fused producer; private producers outlive the thread nest that computes them."""
    if a.threads is not None:
        return Memory.PRIVATE
    return Memory.SHARED if a.is_shared else Memory.REGISTER
