"""First-fit allocation by lifetime: the workspace of a pipeline, the shared memory of a kernel."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.rewrites.cache_read import insert_cache_reads
from autosched.schedule.plan import KernelPlan, Nest
from autosched.schedule.policy import SHARED_ALIGN, array_strides
from autosched.schedule.types import Kernel, Schedule

WORKSPACE_ALIGN = 256


@dataclass(frozen=True, slots=True)
class BufferSlot:
    """Bytes ``[offset, offset + size)`` of one memory, in use from step ``first`` to ``last``."""

    name: str
    size: int
    first: int
    last: int
    offset: int = 0

    def overlaps(self, other: BufferSlot) -> bool:
        """Whether two slots share bytes."""
        return self.offset < other.offset + other.size and other.offset < self.offset + self.size


def first_fit(requests: Sequence[BufferSlot], align: int) -> tuple[tuple[BufferSlot, ...], int]:
    """Return slots with offsets, disjoint for requests that are live at the same time, and the total bytes."""
    slots: list[BufferSlot] = []
    total = 0
    for r in sorted(requests, key=lambda r: (r.first, -r.size, r.name)):
        live = sorted((p.offset, p.offset + p.size) for p in slots if p.first <= r.last and r.first <= p.last)
        offset = 0
        for start, end in live:
            if offset + r.size <= start:
                break
            offset = max(offset, -(-end // align) * align)
        slots.append(BufferSlot(r.name, r.size, r.first, r.last, offset))
        total = max(total, offset + r.size)
    return tuple(slots), -(-total // align) * align


def workspace_layout(bound: BoundPipeline, schedule: Schedule) -> tuple[dict[tuple[str, int], BufferSlot], int]:
    """Return the slots of intermediates in the workspace, by ``(Func, tuple component)``, and its size in bytes.

    Intermediates are the Funcs in global memory except outputs. The lifetime of one spans all kernels that access it.
    """
    lifetimes: dict[str, tuple[int, int]] = {}
    for k, kernel in enumerate(schedule.kernels):
        for name in (*kernel.root_funcs, *sources_of(bound, kernel)):
            lifetimes[name] = (lifetimes.get(name, (k, k))[0], k)
    materialised = schedule.materialised
    requests = []
    for func in bound.funcs.values():
        if func.name in materialised and not func.is_output:
            for c, dtype in enumerate(func.dtypes):
                _, count = array_strides(func.extents, dtype.bytes_, pitched=True)
                requests.append(BufferSlot(f"{func.name}\n{c}", count * dtype.bytes_, *lifetimes[func.name]))
    slots, total = first_fit(requests, WORKSPACE_ALIGN)
    return _by_component(slots), total


def sources_of(bound: BoundPipeline, kernel: Kernel) -> set[str]:
    """Return the inputs and Funcs that the stages and inlined Funcs of a kernel read."""
    bound = insert_cache_reads(bound, kernel.cache_reads)
    stages = [bound.stage(t.stage.func, t.stage.number) for t in kernel.tilings()]
    stages += [bound.funcs[i.func].stages[0] for i in kernel.inlined if i.func in bound.funcs]
    return {source for s in stages for source in s.sources}


def _by_component(slots: Sequence[BufferSlot]) -> dict[tuple[str, int], BufferSlot]:
    """Return slots by the Func and tuple component in their names."""
    return {(p.name.split("\n")[0], int(p.name.split("\n")[1])): p for p in slots}


@dataclass(frozen=True, slots=True)
class SharedLayout:
    """The shared memory of a block.

    Attributes:
        slots: Slots by ``(Func, tuple component)``.
        total_bytes: Bytes of the block.
        barriers: Whether each step needs a barrier before it.
        accesses: The Funcs in shared memory that each step reads, and the one that it writes.
    """

    slots: Mapping[tuple[str, int], BufferSlot]
    total_bytes: int
    barriers: tuple[bool, ...]
    accesses: tuple[tuple[frozenset[str], frozenset[str]], ...]


def shared_layout(plan: KernelPlan) -> SharedLayout:
    """Return the shared memory of a kernel; buffers with disjoint lifetimes reuse bytes."""
    accesses = tuple(_accesses(plan, group) for group in plan.steps)
    requests = []
    for name, a in plan.allocations.items():
        steps = [k for k, (reads, writes) in enumerate(accesses) if name in reads or name in writes]
        if a.is_shared and steps:
            first, last = _lifetime(steps, plan.repeated)
            for c, dtype in enumerate(a.func.dtypes):
                requests.append(BufferSlot(f"{name}\n{c}", a.count * a.buffers * dtype.bytes_, first, last))
    fitted, total = first_fit(requests, SHARED_ALIGN)
    slots = _by_component(fitted)
    ahead = plan.kernel.prefetched - set(plan.register_windows)  # values written in a step are read in the next one
    ordered = [(reads - ahead, writes - ahead) if k in plan.repeated else (reads, writes)
               for k, (reads, writes) in enumerate(accesses)]  # fmt: skip
    barriers = _barriers(ordered, slots, plan.repeated, plan.repeated[:1] if ahead else ())
    return SharedLayout(slots, total, barriers, accesses)


def _lifetime(steps: Sequence[int], repeated: range) -> tuple[int, int]:
    """Return the first and last step of a buffer's lifetime, which contains all repeated steps or none."""
    if not any(k in repeated for k in steps):
        return steps[0], steps[-1]
    return min(steps[0], repeated[0]), max(steps[-1], repeated[-1])


def _accesses(plan: KernelPlan, group: Sequence[Nest]) -> tuple[frozenset[str], frozenset[str]]:
    """Return the Funcs in shared memory that a step reads (through inlined Funcs and THREAD producers) and writes."""
    shared = {n for n, a in plan.allocations.items() if a.is_shared}
    private = {n for n, a in plan.allocations.items() if a.threads is not None}
    reads: set[str] = set()
    seen: set[str] = set()
    queue = [s for n in group for s in n.stage.sources]
    while queue:
        name = queue.pop()
        if name in seen:
            continue
        seen.add(name)
        if name in shared:
            reads.add(name)
        elif name in plan.inlined or (name in plan.allocations and name not in private):
            queue += [s for stage in plan.bound.funcs[name].stages for s in stage.sources]
    written = group[0].stage.func
    return frozenset(reads), frozenset((written,) if written in shared else ())


def _barriers(
    accesses: Sequence[tuple[frozenset[str], frozenset[str]]], slots: Mapping[tuple[str, int], BufferSlot],
    repeated: range, always: Collection[int],
) -> tuple[bool, ...]:  # fmt: skip
    """Return whether each step needs a barrier: it accesses bytes written, or writes bytes read, since the last one.

    The ``repeated`` steps follow themselves, so they are visited twice. Steps in ``always`` have one in any case.
    """
    bytes_of: dict[str, list[BufferSlot]] = {}
    for (name, _), p in slots.items():
        bytes_of.setdefault(name, []).append(p)

    def clash(a: set[str], b: frozenset[str]) -> bool:
        return any(p.overlaps(q) for x in a for y in b for p in bytes_of[x] for q in bytes_of[y])

    reads: set[str] = set()
    writes: set[str] = set()
    needed = [k in always for k in range(len(accesses))]
    order = range(len(accesses))
    for k in (*order[: repeated.stop], *repeated, *order[repeated.stop :]):
        r, w = accesses[k]
        if needed[k] or clash(writes, r | w) or clash(reads, w):
            needed[k] = True
            reads, writes = set(), set()
        reads |= r
        writes |= w
    return tuple(needed)
