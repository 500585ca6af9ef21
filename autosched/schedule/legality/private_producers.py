"""Rules on private producers: threads keep the elements that they compute, and no other thread reads them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from autosched.analysis.bound_pipeline import BoundPipeline, BoundStage
from autosched.analysis.indices import index as ix
from autosched.schedule.kernel.thread_fusion import is_private_tile, thread_loops
from autosched.schedule.plan import Allocation, KernelPlan, Nest, NestLoop
from autosched.schedule.types import FusedProducer, Kernel, Level, LoopKind
from autosched.target import Target

MAX_PRIVATE_BYTES = 256
"""Limit on the bytes of the private producers that are in the registers of one thread at a time."""
MAX_PRIVATE_POINTS = 64
"""Limit on the elements of one private producer in a thread, whose loops are unrolled."""


def private_producers_are_pure(bound: BoundPipeline, kernel: Kernel, target: Target) -> Iterator[str]:
    """Private producers are at BLOCK, have one pure definition, and each dimension's thread loop is its innermost."""
    for m in kernel.fused:
        reason = _private_error(bound, kernel, m) if m.private else ""
        if reason:
            yield f"{m.func} is private: {reason}"


def _private_error(bound: BoundPipeline, kernel: Kernel, m: FusedProducer) -> str:
    """Return why a producer cannot be private, empty if it can by its loops alone."""
    func = bound.funcs[m.func]
    if m.at.level is Level.MAINLOOP and kernel.is_sliding_window:
        return _window_error(bound, kernel, m)
    if m.at.level is not Level.BLOCK or kernel.mainloop_at is not None:
        return "only producers at BLOCK of a kernel without mainloop or sliding window can be"
    if m.materialised or m.aligned is not None:
        return "its tile can be neither materialised nor aligned"
    if len(func.nonempty_stages) != 1 or not func.is_pure or not is_private_tile(func, func.nonempty_stages[0]):
        return "only a Func with one pure definition can be"
    for dim in func.dims:
        loops = [p for p in m.tilings[0].loops if p.dim == dim and p.extent > 1]
        if any(p.kind is LoopKind.THREAD for p in loops[:-1]):
            return f"its thread loop over {dim} must be inside all its serial loops over {dim}"
    return ""


def _window_error(bound: BoundPipeline, kernel: Kernel, m: FusedProducer) -> str:
    """Return why a sliding window cannot be private, empty if it can by its loops alone."""
    func = bound.funcs[m.func]
    if len(func.nonempty_stages) != 1 or not func.is_pure:
        return "only a Func with one pure definition can be"
    if m.asynchronous:
        return "async copies go to shared memory; double buffering loads its next rows to registers"
    if any(o.at.level is Level.THREAD for o in kernel.fused):
        return "producers at THREAD read no registers of other stages; inline them"
    return ""


def private_elements_belong_to_their_thread(plan: KernelPlan) -> Iterator[str]:
    """Each thread reads only elements of private producers that it computed, at indices that unrolling fixes."""
    yield from _too_many_rows(plan)
    private = {
        name: a
        for name, a in plan.allocations.items()
        if a.threads is not None and name not in plan.register_windows and name not in plan.hybrid_tiles
    }
    if not private:
        return
    bytes_ = _live_bytes(plan, private)
    if bytes_ > MAX_PRIVATE_BYTES or any(a.count > MAX_PRIVATE_POINTS for a in private.values()):
        most = max(a.count for a in private.values())
        yield (
            f"private producers take {bytes_} bytes of a thread's registers, up to {most} elements each; the limits "
            f"are {MAX_PRIVATE_BYTES} and {MAX_PRIVATE_POINTS}; use more threads, or shared memory"
        )
        return
    axes = {n.stage.func: _axes(group) for group in plan.steps for n in group if n.stage.func in private}
    for group in plan.steps:
        for n in group:
            for name in dict.fromkeys(_misread(plan, n, _axes(group), private, axes)):
                yield (
                    f"{n.id} reads elements of {name} that other threads have computed, or at an index that unrolling "
                    f"does not make constant; compute {name} in shared memory"
                )
    for group in plan.thread_nests:
        for n in group:
            if n.indexes_registers:
                yield f"{n.id} at THREAD reads a private producer; compute that in shared memory"


def _too_many_rows(plan: KernelPlan) -> Iterator[str]:
    """Yield the reason why the rows of private windows do not fit in the registers of a thread, if they do not."""
    elements = {name: w.elements for name, w in plan.register_windows.items()}
    sizes = {name: sum(d.bytes_ for d in plan.allocations[name].func.dtypes) for name in elements}
    bytes_ = sum(elements[name] * sizes[name] for name in elements)
    if bytes_ > MAX_PRIVATE_BYTES or any(n > MAX_PRIVATE_POINTS for n in elements.values()):
        yield (
            f"the rows of {', '.join(elements)} take {bytes_} bytes of a thread's registers, up to "
            f"{max(elements.values())} elements each; the limits are {MAX_PRIVATE_BYTES} and {MAX_PRIVATE_POINTS}; "
            "use fewer points of a thread, or shared memory"
        )


def _live_bytes(plan: KernelPlan, private: Mapping[str, Allocation]) -> int:
    """Return the most bytes of private producers between the steps that first and last access them."""
    accesses = [{name for n in group for name in private if name in _reached(plan, n)} for group in plan.steps]
    lifetimes = {}
    for name in private:
        steps = [k for k, names in enumerate(accesses) if name in names]
        lifetimes[name] = range(steps[0], steps[-1] + 1)
    sizes = {name: a.count * sum(d.bytes_ for d in a.func.dtypes) for name, a in private.items()}
    return max(sum(sizes[name] for name in private if k in lifetimes[name]) for k in range(len(accesses)))


def _reached(plan: KernelPlan, n: Nest) -> set[str]:
    """Return the Func of a nest, and those that it reads directly or through inlined Funcs."""
    reached, queue = {n.stage.func}, list(n.stage.sources)
    while queue:
        name = queue.pop()
        if name not in reached:
            reached.add(name)
            queue += plan.bound.funcs[name].stages[0].sources if name in plan.inlined else ()
    return reached


def _axes(group: Sequence[Nest]) -> dict[str, int]:
    """Return the axis of threadIdx of each thread loop of a group, by name."""
    return {loop.name: axis for axis, loop in enumerate(thread_loops(group))}


def _misread(
    plan: KernelPlan, n: Nest, axes: Mapping[str, int], private: Mapping[str, Allocation],
    owners: Mapping[str, Mapping[str, int]],
) -> Iterator[str]:  # fmt: skip
    """Yield the private producers of which a nest reads elements of other threads, or at a dynamic index."""
    unrolled = {p.name for p in n.inner}
    nests = {m.stage.func: m for group in plan.steps for m in group if m.stage.func in private}
    if n.stage.func in private and not _is_own(n.point(), nests[n.stage.func], private, axes, owners, unrolled):
        yield n.stage.func
    queue: list[tuple[BoundStage, Mapping[str, ix.Index]]] = [(n.stage, n.point())]
    seen: set[tuple[str, ...]] = set()
    while queue:
        stage, at = queue.pop()
        for f in stage.footprints:
            if f.source == stage.func or (f.source not in private and f.source not in plan.inlined):
                continue
            dims = plan.bound.funcs[f.source].dims
            choices = [[ix.substitute(i, at) for i in dim] for dim in f.dims]
            for pick in range(max((len(c) for c in choices), default=1)):
                point = {d: c[min(pick, len(c) - 1)] for d, c in zip(dims, choices, strict=True)}
                text = (f.source, *(ix.key(i) for i in point.values()))
                if text in seen:
                    continue
                seen.add(text)
                if f.source in plan.inlined:
                    queue.append((plan.bound.funcs[f.source].stages[0], point))
                elif any(len(c) > 1 for c in choices) or not _is_own(
                    point, nests[f.source], private, axes, owners, unrolled
                ):
                    yield f.source


def _is_own(
    point: Mapping[str, ix.Index], owner: Nest, private: Mapping[str, Allocation], axes: Mapping[str, int],
    owners: Mapping[str, Mapping[str, int]], unrolled: set[str],
) -> bool:  # fmt: skip
    """Whether the thread that accesses a point has computed it, and its index in registers is constant."""
    name = owner.stage.func
    if not set(axes.values()) <= set(owners[name].values()):  # on the other axes, thread 0 alone computes it
        return False
    allocation = private[name]
    assert allocation.threads is not None
    for dim, threads in allocation.threads.items():
        offset = ix.sub(point[dim], allocation.base[dim])
        loop = next((p for p in owner.thread_loops if p.dim == dim and p.extent > 1), None)
        if not set(ix.loop_vars(ix.floordiv(offset, threads))) <= unrolled or _by_data(offset):
            return False
        if loop is not None and not _is_thread(ix.mod(offset, threads), loop, axes, owners[name]):
            return False
    return True


def _is_thread(thread: ix.Index, loop: NestLoop, axes: Mapping[str, int], owner: Mapping[str, int]) -> bool:
    """Whether an index is the thread index of the axis that a thread loop of the owner is mapped to."""
    (name, *others) = [*ix.loop_vars(thread), ""]
    return (
        not any(others) and axes.get(name) == owner[loop.name] and ix.sub(thread, ix.var(name, 0, loop.extent - 1)) == 0
    )


def _by_data(index: ix.Index) -> bool:
    return any(isinstance(t, ix.Atom) and t.kind in ("data", "select") for t in ix.atoms(index))
