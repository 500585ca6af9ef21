"""Lower one kernel: build its body, and a second body for the interior where clamps and guards fall away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.identifiers import Namer, component_label
from autosched.analysis.indices import index as ix
from autosched.lang.dtypes import DType, bool_
from autosched.lower.builder import IRBuilder
from autosched.lower.edge_padding import padded_producers
from autosched.lower.emit.mainloop import emit_mainloop, first_register_blocked
from autosched.lower.emit.row_scans import emit_scan
from autosched.lower.emit.thread_nest import ThreadNestEmitter
from autosched.lower.global_layout import GlobalArray
from autosched.lower.ir import (
    Barrier,
    Buffer,
    CompareIndex,
    ConstValue,
    If,
    KernelIR,
    Memory,
    Op,
    SharedSlot,
    Stmt,
    Value,
    VarRef,
)
from autosched.lower.lower_expressions import EvalPoint, ExpressionLowerer
from autosched.lower.passes.partition_interior import interior_box
from autosched.lower.verify import verify
from autosched.schedule.kernel.memory_layout import SharedLayout, shared_layout
from autosched.schedule.plan import Allocation, KernelPlan
from autosched.schedule.planner import plan_kernel
from autosched.schedule.types import SHARED_LEVELS, Kernel

Arrays = Mapping[tuple[str, int], GlobalArray]


class KernelBuilder:
    """Lowers the steps of one plan to statements; resolves every access to its storage."""

    def __init__(self, plan: KernelPlan, arrays: Arrays, names: Mapping[str, str]) -> None:
        self.plan = plan
        self.bound: BoundPipeline = plan.bound
        self.arrays = arrays
        self.namer = Namer(plan.bound.taken_labels | {loop.name for loop in plan.loops()})
        self.names = {**names, **self._names_of_tiles(names)}
        self.step = self.namer("step") if plan.launches else ""  # a parameter
        self.out = IRBuilder(self.namer)
        self.values = ExpressionLowerer(self)
        self.used: dict[str, Buffer] = {}
        self.written: set[str] = set()
        self.scalars: dict[str, VarRef] = {}
        self.local: dict[tuple[str, int], Buffer] = {}
        self.accumulators: dict[str, tuple[tuple[Buffer, ...], ix.Index]] = {}
        self.writing: str = ""
        self.rotation: ix.Index = 0  # which of two buffers is read or written
        self.filled = padded_producers(plan)  # beyond what blocks at the border need
        self.asynchronous = False  # whether what is stored in shared memory may arrive later
        self.shifted: dict[str, Allocation] = {}  # of Members in another step than the one at hand

    def build(self, layout: SharedLayout) -> tuple[Stmt, ...]:
        """Return the steps in order, with barriers where the layout asks for them."""
        self.out.push([name for name, _ in self._grid_names()] + [p.name for p in self.plan.launches])
        nests = ThreadNestEmitter(self)
        statements: list[Stmt] = []
        unheld = self.plan.steps[: first_register_blocked(self.plan)]
        for group, barrier in zip(unheld, layout.barriers, strict=False):
            if self.plan.scan in group:
                statements += emit_scan(nests, group)
                continue
            if barrier:
                statements.append(Barrier())
            statements += nests.emit(group)
        if self.plan.streamed is not None:
            statements += emit_mainloop(nests, layout)
        self.out.pop()
        return tuple(statements)

    def _names_of_tiles(self, names: Mapping[str, str]) -> dict[str, str]:
        """Return what the tiles of Members are called whose arrays in global memory have their names."""
        funcs = self.bound.funcs
        return {f: self.namer(names[f], "tile", components=len(funcs[f].dtypes)) for f in self.plan.owned}

    def _grid_names(self) -> list[tuple[str, int]]:
        return [(p.name, p.extent) for p in self.plan.grid]

    def scalar(self, name: str, dtype: DType) -> Value:
        """Return a scalar parameter of the kernel."""
        return self.scalars.setdefault(name, VarRef(self.names[name], dtype))

    def read(self, name: str, at: Sequence[ix.Index], component: int, p: EvalPoint) -> Value:
        """Return a value of an input, a Func in memory, or the Func being updated."""
        if name in self.accumulators:  # only ever read at the thread's own point
            buffers, own = self.accumulators[name]
            return self.out.read(buffers[component], own, self.names[name], fixed=False)
        buffer, index = self.address(name, at, component)
        if buffer.memory is Memory.GLOBAL:
            self.used.setdefault(buffer.name, buffer)
        return self.out.read(buffer, index, self.names[name], fixed=name != self.writing)

    def address(self, name: str, at: Sequence[ix.Index], component: int) -> tuple[Buffer, ix.Index]:
        """Return the buffer and flat index of a point of a source."""
        allocation = self.plan.allocations.get(name)
        if allocation is None:
            return self.global_address(name, at, component)
        allocation = self.shifted.get(name, allocation)
        index = allocation.flat(dict(zip(allocation.func.dims, at, strict=True)))
        if allocation.buffers > 1:
            index = ix.add(index, ix.scale(self.rotation, allocation.count))
        return self.local_buffer(name, component), index

    def global_address(self, name: str, at: Sequence[ix.Index], component: int) -> tuple[Buffer, ix.Index]:
        """Return the buffer and flat index of a point of a Func in global memory, wherever else it is."""
        array = self.arrays[name, component]
        return array.buffer, array.flat(at)

    def local_buffer(self, name: str, component: int) -> Buffer:
        """Return the shared or register buffer of a Member."""
        known = self.local.get((name, component))
        if known is None:
            a = self.plan.allocations[name]
            memory = Memory.SHARED if a.level in SHARED_LEVELS else Memory.REGISTER
            label = component_label(self.names, name, len(a.func.dtypes), component)
            known = self.local[name, component] = _buffer(label, self.plan, a, component, memory)
        return known


def lower_kernel(
    bound: BoundPipeline,
    kernel: Kernel,
    name: str,
    arrays: Arrays,
    names: Mapping[str, str],
    *,
    split_interior: bool = True,
) -> KernelIR:
    """Return the IR of one kernel.

    Args:
        bound: The pipeline.
        kernel: Its schedule, validated.
        name: Identifier of the generated function.
        arrays: Global arrays of inputs and roots.
        names: Identifier of each source and parameter in generated code.
        split_interior: Generate a second body without clamps and guards for the blocks that need none.
    """
    plan = plan_kernel(bound, kernel)
    names = {**plan.bound.identifiers, **names}
    border = KernelBuilder(plan, arrays, names)
    layout = shared_layout(plan)
    body = border.build(layout)
    grid = tuple((p.name, p.extent) for p in plan.grid)
    box = interior_box(border.out.conditions.values(), grid) if split_interior and border.out.conditions else None
    sites = border.out.site_depths
    if box is not None:
        body, sites = _split(bound, kernel, plan, border, body, layout, box, arrays, names)
    used = border.used
    written = [b for b in used.values() if b.name in border.written]
    lowered = KernelIR(
        name=name,
        title=_title(kernel),
        reads=tuple(b for b in used.values() if b.name not in border.written),
        writes=tuple(written),
        scalars=tuple(border.scalars.values()),
        grid_loops=grid,
        block=plan.block,
        shared=_slots(plan, layout, border.names),
        shared_bytes=layout.total_bytes,
        body=body,
        site_depths=tuple(sites),
        step_loops=tuple((p.name, p.extent) for p in plan.launches),
        step=border.step,
    )
    verify(lowered)
    return lowered


def _split(
    bound: BoundPipeline, kernel: Kernel, plan: KernelPlan, border: KernelBuilder, body: tuple[Stmt, ...],
    layout: SharedLayout, box: Mapping[str, tuple[int, int]], arrays: Arrays, names: Mapping[str, str],
) -> tuple[tuple[Stmt, ...], list[int]]:  # fmt: skip
    """Build the interior body for a box of blocks and join it with the border by one block-uniform branch."""
    inner_plan = plan_kernel(bound, kernel, box)
    if not _stores_same_tiles(plan, inner_plan, box):
        return body, border.out.site_depths
    same_shape = {
        n: replace(inner_plan.allocations[n], extents=a.extents, strides=a.strides, count=a.count)
        for n, a in plan.allocations.items()
    }
    inner = KernelBuilder(replace(inner_plan, allocations=same_shape), arrays, names)
    whole = all(box.get(loop.name, (0, loop.extent - 1)) == (0, loop.extent - 1) for loop in plan.grid)
    if not whole:
        inner.out.site_depths = border.out.site_depths  # both bodies stay: sites go on counting
    inside = inner.build(layout)
    if whole:
        return inside, inner.out.site_depths
    condition: Value = ConstValue(True, bool_)
    for loop in plan.grid:
        lo, hi = box.get(loop.name, (0, loop.extent - 1))
        at = ix.var(loop.name, 0, loop.extent - 1)
        for op, limit, needed in (("ge", lo, lo > 0), ("le", hi, hi < loop.extent - 1)):
            if needed:
                test = CompareIndex(op, at, limit, bool_)
                condition = test if isinstance(condition, ConstValue) else Op("and", (condition, test), bool_)
    return (If(condition, inside, body, uniform=True),), inner.out.site_depths


def _stores_same_tiles(plan: KernelPlan, inner: KernelPlan, box: Mapping[str, tuple[int, int]]) -> bool:
    """Whether the Members that are stored have the same tiles in the plan of some blocks as in that of all.

    Ownership follows from the latter. Smaller tiles may follow of fewer blocks, those of a remainder for example.
    """
    within = {name: ix.var(name, *r) for name, r in box.items()}

    def tiles(p: KernelPlan, func: str) -> list[ix.Index]:
        nests = [n for group in p.steps for n in group if n.stage.func == func]
        of_nests = [e for n in nests for d in n.low for e in (n.low[d], n.high[d])]
        return [*p.allocations[func].base.values(), *of_nests]

    return all(
        ix.sub(ix.substitute(a, within), b) == 0
        for func in plan.owned
        for a, b in zip(tiles(plan, func), tiles(inner, func), strict=True)
    )


def _slots(plan: KernelPlan, layout: SharedLayout, names: Mapping[str, str]) -> tuple[SharedSlot, ...]:
    slots = []
    for (name, component), placed in layout.slots.items():
        func = plan.bound.funcs[name]
        label = component_label(names, name, len(func.dtypes), component)
        buffer = _buffer(label, plan, plan.allocations[name], component, Memory.SHARED)
        slots.append(SharedSlot(buffer, placed.offset))
    return tuple(slots)


def _buffer(label: str, plan: KernelPlan, a: Allocation, component: int, memory: Memory) -> Buffer:
    ahead = a.rolling is not None and plan.kernel.double_buffered  # rows come in while others are read
    return Buffer(label, a.func.dtypes[component], a.count * a.buffers, memory, 2 if ahead else a.buffers)


def _title(kernel: Kernel) -> str:
    roots = ", ".join(str(r.tiling.stage) for r in kernel.roots)
    parts = [f"computes {roots}"]
    if kernel.fused:
        parts.append("with " + ", ".join(m.func for m in kernel.fused))
    if kernel.inlined:
        parts.append("inlines " + ", ".join(i.func for i in kernel.inlined))
    return "; ".join(parts)
