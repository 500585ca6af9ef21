"""Unroll a lane loop by the period of its quotients and remainders, for the C backend.

Upsampling reads ``x // 2``: lanes 2k and 2k + 1 read the same element. Compilers emit gathers or scalar loads for it.
With both lanes in one iteration, every address is affine in k: vectors are loaded, and interleaved when stored.
Conditions such as ``x % 2 == 0`` become constant, so that each lane of the period computes only its own arm.

Rewrite:
    for lane < 256: out[lane] = select(lane % 2 == 0, f(in[lane//2]), g(in[lane//2]))
    ->  for k < 128: { out[2*k] = f(in[k]); out[2*k + 1] = g(in[k]) }
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from autosched.analysis.identifiers import Namer
from autosched.analysis.indices import index as ix
from autosched.analysis.indices.comparisons import COMPARE
from autosched.lower.ir import (
    Alloc,
    CompareIndex,
    ConstValue,
    For,
    Let,
    LetIndex,
    LoopRole,
    Op,
    Stmt,
    Store,
    Value,
    VarRef,
)
from autosched.lower.ir_queries import reads_in
from autosched.lower.ir_visitor import map_parts
from autosched.lower.passes.cpu.distribute_lane_loop import Binding, is_gather, is_unit_stride
from autosched.lower.passes.cpu.split_index_set import folded, split_at_clamps
from autosched.lower.passes.unroll import unroll
from autosched.schedule import cpu_policy

LEAST_GROUPS = 4
"""Iterations of the unrolled loop, at least."""
MOST_STATEMENTS = 200
"""Statements of one period, at most; compilers take long for longer straight-line code."""


def unroll_by_period(loop: For, namer: Namer) -> tuple[For, ...]:
    """Return the loops that replace a lane loop; the loop itself if it has no period or no straight-line code.

    Lanes are independent, so the order does not matter. Clamps may be left for `split_at_clamps`. The loop over the
    remaining lanes has ``few_points``.

    Args:
        loop: A thread loop of axis 0 that begins at 0.
        namer: Returns names that are new in the kernel.
    """
    if not all(isinstance(s, Alloc | Binding | Store) for s in loop.body) or is_gather(loop):
        return (loop,)
    count = _period(loop)
    if not 1 < count <= cpu_policy.MAX_PERIOD or count * len(loop.body) > MOST_STATEMENTS:
        return (loop,)
    if loop.extent < LEAST_GROUPS * count:
        return (loop,)
    group, groups = namer(loop.name), loop.extent // count
    first = ix.scale(ix.var(group, 0, groups - 1), count)
    straight = unroll(For(loop.name, count, LoopRole.UNROLLED, loop.body), namer, first)
    if straight is None or len(straight.stages) != 1:
        return (loop,)
    body = _ConstantFolder().statements(straight.stages[0].statements)
    comment = f"{loop.comment}, {count} at a time"
    unrolled = replace(loop, name=group, extent=groups, body=body, comment=comment, upper_bounds=())
    return _with_remainder(loop, unrolled, count) if any(map(_is_even, split_at_clamps(unrolled))) else (loop,)


def _with_remainder(loop: For, unrolled: For, count: int) -> tuple[For, ...]:
    """Return the loop over whole periods, and one over the lanes after the last period."""
    end: ix.Index = loop.extent
    for limit in loop.upper_bounds:
        end = ix.minimum(end, limit)
    groups = ix.floordiv(end, count)
    rest = ix.scale(groups, count)
    if groups != unrolled.extent:
        unrolled = replace(unrolled, upper_bounds=(groups,))
    if rest == end:
        return (unrolled,)
    lower_bounds = (rest,) if ix.interval(rest)[0] >= 0 else (0, rest)
    return unrolled, replace(loop, lower_bounds=lower_bounds, few_points=True)


def _period(loop: For) -> int:
    """Return the period in lanes of quotients and remainders in addresses; 1 if there are none, or none repeats."""
    quotients: list[tuple[int, int]] = []
    for e in _indices(loop.body):
        for t in ix.atoms(e):
            if not isinstance(t, ix.Atom) or t.kind in ("min", "max") or not _depends(t, loop.name):
                continue
            terms = ix.terms_of(t.args[0]) if t.kind in ("div", "mod") else ()
            if len(terms) != 1 or not isinstance(terms[0][0], ix.LoopVar):
                return 1
            quotients.append((terms[0][1], t.payload))
    return cpu_policy.lane_period(quotients)


def _is_even(loop: For) -> bool:
    """Whether all accesses of a lane loop have a small step and an index that is affine in the lane."""
    uneven = (isinstance(t, ix.Atom) and _depends(t, loop.name) for e in _indices(loop.body) for t in ix.atoms(e))
    return is_unit_stride(loop) and not any(uneven)


def _indices(body: Sequence[Stmt]) -> Iterator[ix.Index]:
    """Yield the indices that statements access and bind."""
    for s in body:
        if isinstance(s, LetIndex | Store):
            yield s.index
    yield from (r.index for r in reads_in(body))


def _depends(t: ix.Atom, name: str) -> bool:
    return name in ix.loop_vars(ix.Affine(((t, 1),), 0))


@dataclass
class _ConstantFolder:
    """Folds constants in straight-line code; ``constants`` are the names bound to one."""

    constants: dict[str, ConstValue] = field(default_factory=dict)

    def statements(self, body: Sequence[Stmt]) -> tuple[Stmt, ...]:
        """Return statements with folded values, without bindings of constants."""
        kept: list[Stmt] = []
        for s in body:
            s = map_parts(s, values=self._value)
            if isinstance(s, Let) and isinstance(s.value, ConstValue):
                self.constants[s.name] = s.value
            else:
                kept.append(s)
        return tuple(kept)

    def _value(self, v: Value) -> Value:
        match v:
            case VarRef():
                return self.constants.get(v.name, v)
            case CompareIndex(a=int(a), b=int(b)):
                return ConstValue(COMPARE[v.op](a, b), v.dtype)
            case Op():
                return folded(map_parts(v, values=self._value))
        return v
