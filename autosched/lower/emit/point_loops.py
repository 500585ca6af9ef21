"""Loops over the points of one thread, and guards of points beyond a nest's region."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from autosched.analysis.indices import index as ix
from autosched.lang.dtypes import bool_
from autosched.lower.builder import CheckedIndex
from autosched.lower.ir import CompareIndex, For, If, LoopRole, Op, Value
from autosched.lower.kernel_context import EmitMode, KernelContext
from autosched.schedule.plan import Nest, NestLoop
from autosched.schedule.policy import is_unrolled
from autosched.schedule.types import LoopKind

Action = Callable[[], None]
PointAction = Callable[[Mapping[str, ix.Index]], None]
"""Emits statements at a point, given by its index in each dimension."""


def for_each_point(context: KernelContext, mode: EmitMode, n: Nest, action: PointAction) -> None:
    """Emit loops over the thread's points (no reduction loops) around ``action``, guarded at the domain's edge."""
    limited = n.stage.func not in context.padded
    open_loops(context, n, _point_loops(n), lambda: guarded(context, mode, n, action, limited=limited))


def for_whole_tile(context: KernelContext, n: Nest, action: Action) -> None:
    """Emit loops over the thread's points around ``action``, without guards."""
    open_loops(context, n, _point_loops(n), action)


def open_loops(context: KernelContext, n: Nest, loops: Sequence[NestLoop], action: Action) -> None:
    """Emit loops of a nest, outermost first, around ``action``."""
    if not loops:
        action()
        return
    loop, *inner = loops
    if loop.extent == 1:
        open_loops(context, n, inner, action)
        return
    builder = context.builder
    depth = builder.scope.depth
    builder.push((loop.name,), serial=True)
    open_loops(context, n, inner, action)
    body = builder.pop()
    role, few = _role(n, loop), _has_few_points(n, loop)
    comment = _note(loop)
    builder.append(
        For(loop.name, loop.extent, role, body, depth=depth, comment=comment, few_points=few, dim=loop.dim)
    )  # fmt: skip


def guarded(
    context: KernelContext, mode: EmitMode, n: Nest, action: PointAction, *, limited: bool = True, inside: bool = False,
    without: str = "",
) -> None:  # fmt: skip
    """Emit ``action`` at the nest's point, under a guard where the point may be outside the region.

    Args:
        context: Context of the kernel body.
        mode: Mode of emission.
        n: The nest.
        action: Emits the statements.
        limited: Whether points beyond the region's upper bounds are guarded; False for edge padding.
        inside: Whether `guarded_outside` is around the nest's loops, which has the other tests.
        without: A dimension whose bounds are not tested.
    """
    tests = _tests(context, mode, n, limited=limited, without=without)
    if not inside:
        _under(context, tests, lambda: action(n.point()))
        return
    outer = _outside_serial_loops(n, tests)
    inner = [t for t in tests if t not in outer]
    _under(context, inner, lambda: action(n.point()), context.builder.tested(inner))


def guarded_outside(
    context: KernelContext, mode: EmitMode, n: Nest, action: Action, *, limited: bool = True, without: str = ""
) -> None:  # fmt: skip
    """Emit ``action`` under the tests of a nest's guard that its serial loops do not change; see `guarded`."""
    _under(context, _outside_serial_loops(n, _tests(context, mode, n, limited=limited, without=without)), action)


def _tests(
    context: KernelContext, mode: EmitMode, n: Nest, *, limited: bool, without: str = ""
) -> list[CompareIndex]:  # fmt: skip
    """Return the conditions that together hold at points inside a nest's region."""
    tests = []
    for dim, i in n.point().items():
        if dim == without:
            continue
        if n.padded_extent(dim) > n.extents[dim]:  # threads and unrolled points beyond the box
            tests.append(_thread_test(n, dim, "le", n.extents[dim] - 1))
        for limit in upper_bounds(context, n, dim) if limited else ():
            tests.append(CompareIndex("le", i, limit, bool_))
        for limit in _lower_bounds(context, mode, n, dim):
            distance = ix.sub(limit, n.low[dim])
            if isinstance(distance, int):  # threads before the tile
                tests.append(_thread_test(n, dim, "ge", distance))
            else:
                tests.append(CompareIndex("ge", i, limit, bool_))
    return tests


def _thread_test(n: Nest, dim: str, op: str, distance: int) -> CompareIndex:
    """Return the comparison of a point's distance from the lowest one; of aligned threads alone, where it suffices."""
    offset = ix.sub(n.point()[dim], n.low[dim])
    points = math.prod(p.extent for p in n.inner if p.dim == dim and p.kind is LoopKind.SERIAL)
    if n.aligned and (distance + (op == "le")) % points == 0:
        first = {p.name: 0 for p in n.inner if p.dim == dim}
        offset, distance = ix.substitute(offset, first), distance // points * points
    return CompareIndex(op, offset, distance, bool_)


def _outside_serial_loops(n: Nest, tests: Sequence[CompareIndex]) -> list[CompareIndex]:
    """Return the tests that depend on no loop inside a thread, nor on a dimension with interleaved points."""
    moving = {p.name for p in n.inner} | {p.name for p in n.loops if p.dim in n.interleaved}
    return [t for t in tests if moving.isdisjoint((*ix.loop_vars(t.a), *ix.loop_vars(t.b)))]


def _under(
    context: KernelContext, tests: Sequence[CompareIndex], action: Action, tested: frozenset[str] | None = None
) -> None:  # fmt: skip
    """Emit ``action`` under a guard of some tests, or without a guard if there are none."""
    if not tests:
        action()
        return
    guard: Value = tests[0]
    for test in tests[1:]:
        guard = Op("and", (guard, test), bool_)
    context.builder.push((), guard=True, tested=tested)
    action()
    context.builder.append(If(guard, context.builder.pop()))


def upper_bounds(context: KernelContext, n: Nest, dim: str) -> list[ix.Index]:
    """Return the region's upper bounds that some points of a nest's tile exceed; in the interior none do."""
    bounds = []
    last = ix.add(n.low[dim], n.extents[dim] - 1)
    for bound in min_operands(n.high[dim]):
        slack = ix.sub(bound, last)
        if ix.interval(slack)[0] < 0:
            _require_nonnegative(context, slack)
            bounds.append(bound)
    return bounds


def _lower_bounds(context: KernelContext, mode: EmitMode, n: Nest, dim: str) -> list[ix.Index]:
    """Return the indices of which some points of a nest may precede the greatest, the first that a window needs."""
    bounds = []
    for bound in _max_operands(n.lower_bound[dim]) if dim in n.lower_bound else ():
        slack = ix.substitute(ix.sub(n.low[dim], bound), mode.ranges)
        if ix.interval(slack)[0] < 0:
            if not isinstance(slack, int):
                _require_nonnegative(context, slack)
            bounds.append(bound)
    return bounds


def _require_nonnegative(context: KernelContext, index: ix.Index) -> None:
    context.builder.require_atoms(index)
    context.builder.require(CheckedIndex("nonnegative", index))


def min_operands(bound: ix.Index) -> list[ix.Index]:
    """Return the indices whose minimum is ``bound``: a point is at most ``bound`` when it is at most each of them."""
    for t, c in ix.terms_of(bound):
        if isinstance(t, ix.Atom) and c == 1 and t.kind == "min":
            rest = ix.sub(bound, ix.Affine(((t, 1),), 0))
            operands = [operand for a in t.args for operand in min_operands(ix.add(rest, a))]
            return list({ix.key(o): o for o in operands}.values())
    return [bound]


def _max_operands(bound: ix.Index) -> list[ix.Index]:
    """Return the indices whose maximum is ``bound``: a point is at least ``bound`` when it is at least each of them."""
    operands = ix.arms(bound, "max")
    return [bound] if operands is None else [o for a in operands for o in _max_operands(a)]


def _point_loops(n: Nest) -> list[NestLoop]:
    """Return the loops over a thread's points."""
    return [p for p in n.inner if p.kind is LoopKind.SERIAL]


def _role(n: Nest, loop: NestLoop) -> LoopRole:
    unrolled = n.unrolls_terms if loop.kind is LoopKind.REDUCTION else n.unrolls_points
    return LoopRole.UNROLLED if unrolled else LoopRole.SERIAL


def _has_few_points(n: Nest, loop: NestLoop) -> bool:
    """Whether a loop and those inside it iterate over points alone, and over few enough to be unrolled."""
    inside = n.inner[n.inner.index(loop) :]
    points = all(p.kind is LoopKind.SERIAL for p in inside)
    return points and bool(is_unrolled(math.prod(p.extent for p in inside)))


def _note(loop: NestLoop) -> str:
    what = "points" if loop.kind is LoopKind.SERIAL else "terms"
    return f"{loop.dim}: {loop.extent} {what}"
