"""Lane loops in phases: several neighbouring lanes at a time, where what they do repeats after so many.

Upsampling reads ``x // 2``: lanes 2k and 2k + 1 the same element. Compilers make gathers of it, or one load after the
other. With both lanes in one iteration every address is affine in k: vectors are loaded, and shuffled when they are
stored. Conditions such as ``x % 2 == 0`` are decided, so that each phase computes its own arm alone.

Rewrite:
    for lane < 256: out[lane] = select(lane % 2 == 0, f(in[lane//2]), g(in[lane//2]))
    ->  for k < 128: { out[2*k] = f(in[k]); out[2*k + 1] = g(in[k]) }
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import gcd, lcm

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
from autosched.lower.passes.cpu.distribute_lane_loop import (
    MAX_VECTOR_STEP,
    Binding,
    is_gather,
    is_unit_stride,
    reads_in,
)
from autosched.lower.passes.cpu.split_index_set import folded, split_at_clamps
from autosched.lower.passes.unroll import unroll

MOST_PHASES = MAX_VECTOR_STEP
"""Lanes in one iteration, at most: what lay side by side then lies so far apart."""
LEAST_GROUPS = 4
"""Iterations of a loop that is worth it."""
MOST_STATEMENTS = 200
"""Of the lanes in one iteration; compilers take long for longer straight code."""


def unroll_by_period(loop: For, namer: Namer) -> tuple[For, ...]:
    """Return the loops that replace a lane loop: itself, where nothing repeats or it is not straight code.

    Lanes do not meet, so the order does not matter. Clamps may stay that `lane_ranges` then cuts off. A loop over the
    lanes that are left is over few points.

    Args:
        loop: A thread loop of axis 0 that begins at 0.
        namer: Gives names that are new in the kernel.
    """
    if not all(isinstance(s, Alloc | Binding | Store) for s in loop.body) or is_gather(loop):
        return (loop,)
    count = _period(loop)
    if not 1 < count <= MOST_PHASES or loop.extent < LEAST_GROUPS * count or count * len(loop.body) > MOST_STATEMENTS:
        return (loop,)
    group, groups = namer(loop.name), loop.extent // count
    first = ix.scale(ix.var(group, 0, groups - 1), count)
    straight = unroll(For(loop.name, count, LoopRole.UNROLLED, loop.body), namer, first)
    if straight is None or len(straight.stages) != 1:
        return (loop,)
    body = _Decided().statements(straight.stages[0].statements)
    comment = f"{loop.comment}, {count} at a time"
    together = replace(loop, name=group, extent=groups, body=body, comment=comment, upper_bounds=())
    return _over_range(loop, together, count) if any(map(_is_even, split_at_clamps(together))) else (loop,)


def _over_range(loop: For, together: For, count: int) -> tuple[For, ...]:
    """Return a loop over whole groups, and one over the few lanes after the last of them."""
    end: ix.Index = loop.extent
    for limit in loop.upper_bounds:
        end = ix.minimum(end, limit)
    groups = ix.floordiv(end, count)
    rest = ix.scale(groups, count)
    if groups != together.extent:
        together = replace(together, upper_bounds=(groups,))
    if rest == end:
        return (together,)
    starts = (rest,) if ix.interval(rest)[0] >= 0 else (0, rest)
    return together, replace(loop, lower_bounds=starts, few_points=True)


def _period(loop: For) -> int:
    """Return after how many lanes divisions and remainders in addresses repeat; 1 if there are none, or some never."""
    found = 1
    for e in _indices(loop.body):
        for t in ix.atoms(e):
            if not isinstance(t, ix.Atom) or t.kind in ("min", "max") or not _depends(t, loop.name):
                continue
            terms = ix.terms_of(t.args[0]) if t.kind in ("div", "mod") else ()
            if len(terms) != 1 or not isinstance(terms[0][0], ix.LoopVar):
                return 1
            found = lcm(found, t.payload // gcd(terms[0][1], t.payload))
    return found


def _is_even(loop: For) -> bool:
    """Whether all that a lane loop touches lies along memory, at indices in proportion to the lane."""
    uneven = (isinstance(t, ix.Atom) and _depends(t, loop.name) for e in _indices(loop.body) for t in ix.atoms(e))
    return is_unit_stride(loop) and not any(uneven)


def _indices(body: Sequence[Stmt]) -> Iterator[ix.Index]:
    """Yield the indices of what statements read and write, and those that they bind."""
    for s in body:
        if isinstance(s, LetIndex | Store):
            yield s.index
    yield from (r.index for r in reads_in(body))


def _depends(t: ix.Atom, name: str) -> bool:
    return name in ix.loop_vars(ix.Affine(((t, 1),), 0))


@dataclass
class _Decided:
    """Rewrites straight code in which comparisons have become constant."""

    known: dict[str, ConstValue] = field(default_factory=dict)

    def statements(self, body: Sequence[Stmt]) -> tuple[Stmt, ...]:
        """Return statements without what is known of them."""
        found: list[Stmt] = []
        for s in body:
            match s:
                case Let():
                    value = self._value(s.value)
                    if isinstance(value, ConstValue):
                        self.known[s.name] = value
                    else:
                        found.append(Let(s.name, value))
                case Store():
                    found.append(replace(s, value=self._value(s.value)))
                case _:
                    found.append(s)
        return tuple(found)

    def _value(self, v: Value) -> Value:
        match v:
            case VarRef():
                return self.known.get(v.name, v)
            case CompareIndex(a=int(a), b=int(b)):
                return ConstValue(COMPARE[v.op](a, b), v.dtype)
            case Op():
                return folded(replace(v, args=tuple(self._value(a) for a in v.args)))
        return v
