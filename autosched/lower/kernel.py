"""Lower one kernel: build its body, and a second body for the interior where clamps and guards fall away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from autosched.analysis import index as ix
from autosched.analysis.bound import BoundPipeline
from autosched.lang.dtypes import DType, bool_
from autosched.lower.interior import interior_box
from autosched.lower.ir import (
    Barrier,
    Buffer,
    CompareIndex,
    ConstValue,
    If,
    KernelIR,
    Memory,
    Op,
    Ref,
    Slot,
    Stmt,
    Value,
)
from autosched.lower.layout import GlobalArray, overlap, place
from autosched.lower.nests import NestEmitter
from autosched.lower.scope import Emitter
from autosched.lower.values import Point, ValueLowerer
from autosched.schedule.derived import SHARED_ALIGN
from autosched.schedule.plan import KernelPlan, Namer, plan_kernel
from autosched.schedule.types import Kernel, Level

Arrays = Mapping[tuple[str, int], GlobalArray]


@dataclass
class Step:
    """The statements of one thread nest and the shared buffers it touches."""

    statements: tuple[Stmt, ...]
    reads: set[str] = field(default_factory=set)
    writes: set[str] = field(default_factory=set)


class BodyBuilder:
    """Lowers the steps of one plan to statements; resolves every access to its storage."""

    def __init__(self, plan: KernelPlan, arrays: Arrays, names: Mapping[str, str], taken: Sequence[str]) -> None:
        self.plan = plan
        self.bound: BoundPipeline = plan.bound
        self.arrays = arrays
        self.names = names
        self.namer = Namer(taken)
        self.out = Emitter(self.namer)
        self.values = ValueLowerer(self)
        self.used: dict[str, Buffer] = {}
        self.written: set[str] = set()
        self.scalars: dict[str, Ref] = {}
        self.local: dict[tuple[str, int], Buffer] = {}
        self.accumulators: dict[str, tuple[tuple[Buffer, ...], ix.Index]] = {}
        self.writing: str = ""
        self.step = Step(())

    def build(self) -> list[Step]:
        """Return the steps in order."""
        self.out.push(name for name, _ in self._grid_names())
        nests = NestEmitter(self)
        steps = []
        for group in self.plan.steps:
            self.step = Step(())
            self.step.statements = nests.emit(group)
            steps.append(self.step)
        self.out.pop()
        return steps

    def _grid_names(self) -> list[tuple[str, int]]:
        return [(p.name, p.extent) for p in self.plan.grid]

    def scalar(self, name: str, dtype: DType) -> Value:
        """Return a scalar parameter of the kernel."""
        return self.scalars.setdefault(name, Ref(self.names[name], dtype))

    def read(self, name: str, at: Sequence[ix.Index], component: int, p: Point) -> Value:
        """Return a value of an input, a Func in memory, or the Func being updated."""
        if name == p.stage.func and name in self.accumulators:
            buffers, own = self.accumulators[name]
            return self.out.read(buffers[component], own, self.names[name], fixed=False)
        buffer, index = self.place(name, at, component)
        if buffer.memory is Memory.GLOBAL:
            self.used.setdefault(buffer.name, buffer)
        elif buffer.memory is Memory.SHARED:
            self.step.reads.add(buffer.name)
        return self.out.read(buffer, index, self.names[name], fixed=name != self.writing)

    def place(self, name: str, at: Sequence[ix.Index], component: int) -> tuple[Buffer, ix.Index]:
        """Return the buffer and flat index of a point of a source."""
        allocation = self.plan.allocations.get(name)
        if allocation is None:
            array = self.arrays[name, component]
            return array.buffer, array.flat(at)
        index = allocation.flat(dict(zip(allocation.func.dims, at, strict=True)))
        return self.local_buffer(name, component), index

    def local_buffer(self, name: str, component: int) -> Buffer:
        """Return the shared or register buffer of a Member."""
        known = self.local.get((name, component))
        if known is None:
            a = self.plan.allocations[name]
            memory = Memory.SHARED if a.level is Level.BLOCK else Memory.REGISTER
            label = self.names[name] if len(a.func.dtypes) == 1 else f"{self.names[name]}_{component}"
            known = self.local[name, component] = Buffer(label, a.func.dtypes[component], a.count, memory)
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
    taken = _reserved(arrays, names)
    border = BodyBuilder(plan, arrays, names, taken)
    steps = border.build()
    slots, shared_bytes = _shared_layout(border, steps)
    body = _with_barriers(steps, slots)
    grid = tuple((p.name, p.extent) for p in plan.grid)
    box = interior_box(border.out.conditions.values(), grid) if split_interior and border.out.conditions else None
    sites = border.out.site_depths
    if box is not None:
        body, sites = _split(bound, kernel, plan, border, body, slots, box, arrays, names)
    used = border.used
    written = [b for b in used.values() if b.name in border.written]
    return KernelIR(
        name=name,
        title=_title(kernel),
        reads=tuple(b for b in used.values() if b.name not in border.written),
        writes=tuple(written),
        scalars=tuple(border.scalars.values()),
        grid_loops=grid,
        block=plan.block,
        shared=slots,
        shared_bytes=shared_bytes,
        body=body,
        site_depths=tuple(sites),
    )


def _split(
    bound: BoundPipeline, kernel: Kernel, plan: KernelPlan, border: BodyBuilder, body: tuple[Stmt, ...],
    slots: tuple[Slot, ...], box: Mapping[str, tuple[int, int]], arrays: Arrays, names: Mapping[str, str],
) -> tuple[tuple[Stmt, ...], list[int]]:  # fmt: skip
    """Build the interior body for a box of blocks and join it with the border by one block-uniform branch."""
    inner_plan = plan_kernel(bound, kernel, box)
    same_shape = {
        n: replace(inner_plan.allocations[n], extents=a.extents, strides=a.strides, count=a.count)
        for n, a in plan.allocations.items()
    }
    inner = BodyBuilder(replace(inner_plan, allocations=same_shape), arrays, names, _reserved(arrays, names))
    inner.out.site_depths = border.out.site_depths  # sites go on counting
    inside = _with_barriers(inner.build(), slots)
    condition: Value = ConstValue(True, bool_)
    for loop in plan.grid:
        lo, hi = box.get(loop.name, (0, loop.extent - 1))
        at = ix.var(loop.name, 0, loop.extent - 1)
        for op, limit, needed in (("ge", lo, lo > 0), ("le", hi, hi < loop.extent - 1)):
            if needed:
                test = CompareIndex(op, at, limit, bool_)
                condition = test if isinstance(condition, ConstValue) else Op("and", (condition, test), bool_)
    if isinstance(condition, ConstValue):
        return inside, inner.out.site_depths
    return (If(condition, inside, body, uniform=True),), inner.out.site_depths


def _shared_layout(body: BodyBuilder, steps: Sequence[Step]) -> tuple[tuple[Slot, ...], int]:
    lifetimes: dict[str, tuple[int, int]] = {}
    for k, step in enumerate(steps):
        for name in sorted(step.reads | step.writes):
            first, _ = lifetimes.get(name, (k, k))
            lifetimes[name] = (first, k)
    shared = {b.name: b for b in body.local.values() if b.memory is Memory.SHARED}
    order = sorted(lifetimes, key=lambda n: (lifetimes[n][0], -shared[n].count * shared[n].dtype.bytes_, n))
    return place([shared[n] for n in order], lifetimes, SHARED_ALIGN)


def _with_barriers(steps: Sequence[Step], slots: Sequence[Slot]) -> tuple[Stmt, ...]:
    """Join steps, with a barrier wherever one touches shared bytes that an earlier one since the last barrier wrote."""
    by_name = {s.buffer.name: s for s in slots}
    statements: list[Stmt] = []
    reads: set[str] = set()
    writes: set[str] = set()

    def clash(a: set[str], b: set[str]) -> bool:
        return any(overlap(by_name[x], by_name[y]) for x in a for y in b)

    for step in steps:
        if clash(writes, step.reads | step.writes) or clash(reads, step.writes):
            statements.append(Barrier())
            reads, writes = set(), set()
        statements += step.statements
        reads |= step.reads
        writes |= step.writes
    return tuple(statements)


def _reserved(arrays: Arrays, names: Mapping[str, str]) -> list[str]:
    return [*names.values(), *(a.buffer.name for a in arrays.values())]


def _title(kernel: Kernel) -> str:
    roots = ", ".join(str(r.tiling.stage) for r in kernel.roots)
    parts = [f"computes {roots}"]
    if kernel.members:
        parts.append("with " + ", ".join(m.func for m in kernel.members))
    if kernel.inlined:
        parts.append("inlines " + ", ".join(i.func for i in kernel.inlined))
    return "; ".join(parts)
