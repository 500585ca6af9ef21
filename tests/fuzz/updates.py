"""Random Funcs with update definitions: in-place updates, scans, scatters, reductions written by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import autosched as a
from autosched.lang.dtypes import DType, int32
from autosched.lang.expr import Expr, Var
from autosched.lang.func import Func
from tests.fuzz.expressions import Scope, any_type, as_type, constant, expression, leaf
from tests.fuzz.stages import SIZES, Pool, domain


@dataclass(frozen=True)
class Target:
    """A Func with a pure definition that is to be updated."""

    pool: Pool
    func: Func
    vars: tuple[Var, ...]

    @property
    def dtype(self) -> DType:
        """Element type of the first component."""
        return self.func.dtypes[0]

    def scope(self, coords: tuple[Expr, ...], *own: tuple[Expr, ...]) -> Scope:
        """Return the scope of a value at a point; ``own`` are the places where it may read the Func itself."""
        reads = [self.func[at] for at in own]
        values = [v for r in reads for v in (r if isinstance(r, tuple) else (r,))]
        return replace(self.pool.scope(*coords), values=values)

    def store(self, at: tuple[Expr, ...], s: Scope, depth: int = 1, kind: int | None = None) -> None:
        """Add an update that stores a value for each component; it often accumulates in one of the usual ways."""
        c = self.pool.choices
        kind = c.integer(0, 3) if kind is None else kind
        if self.func.is_tuple:
            self.func[at] = tuple(expression(s, d, depth) for d in self.func.dtypes)
        elif kind == 0 and s.values:
            self.func[at] = accumulated(s, self.func[at], replace(s, values=()), depth)
        else:
            self.func[at] = expression(s, self.dtype, depth)


def accumulated(s: Scope, own: Expr, others: Scope, depth: int) -> Expr:
    """Return ``own op value``."""
    value = expression(others, own.dtype, depth)
    if own.dtype.kind == "b":
        return s.choices.pick((own | value, own & value, own ^ value))
    return s.choices.pick((own + value, a.max(own, value), a.min(own, value), own * value, value + own, own - value))


def at_own_point(t: Target) -> None:
    """``f[y, x] = g(f[y, x])``."""
    t.store(t.vars, t.scope(t.vars, t.vars))


def reduced(t: Target) -> None:
    """``f[x] = f[x] op g(x, r)``."""
    r = domain(t.pool, t.pool.choices.integer(1, 2))
    t.store(t.vars, t.scope((*r, *t.vars)[-4:], t.vars), kind=0 if t.pool.choices.chance(60) else None)


def at_constants(t: Target) -> None:
    """``f[0, x] = ...``: fixed points in some dimensions."""
    c = t.pool.choices
    at = tuple(v if k and c.chance(60) else a.cast(int32, c.integer(-1, 4)) for k, v in enumerate(t.vars))
    t.store(at, t.scope(at, at))


def along(t: Target) -> None:
    """``f[r, x] = g(f[r, x])``: a reduction domain iterates over some dimensions."""
    at = _walked(t)
    t.store(at, t.scope(at, at))


def scan(t: Target) -> None:
    """``f[r, x] = g(f[r - 1, x], ...)``, forwards or backwards, of any order, along one dimension or two."""
    c = t.pool.choices
    at = _walked(t)
    steps = c.pick(((-1,), (1,), (-1, -2), (-1, 0), (-3,)))
    walked = [k for k, (i, v) in enumerate(zip(at, t.vars, strict=True)) if i is not v]
    own = [tuple(i + d if k in walked else i for k, i in enumerate(at)) for d in steps]
    if len(walked) > 1:
        own.append(tuple(i - 1 if k == walked[0] else i for k, i in enumerate(at)))
    if c.chance(15):  # everything depends on one element
        own.append(tuple(a.cast(int32, 0) if k in walked else i for k, i in enumerate(at)))
    t.store(at, t.scope(at, *own), kind=1)


def scatter(t: Target) -> None:
    """``f[g(r)] = ...``: histograms and permutations, by data or by a formula."""
    c = t.pool.choices
    r = domain(t.pool, c.integer(1, 2))
    s = t.scope(tuple(r))
    at: list[Expr] = []
    for k, v in enumerate(t.vars):
        kind = c.integer(0, 4)
        if kind == 4 and k:
            at.append(v)
        elif kind == 3:
            at.append(c.pick((3 * r[0] - 1, r[0] // 2, 5 - r[0], r[-1] % 3, r[0] + r[-1])))
        else:
            value = leaf(s, c.pick((a.uint8, int32, a.int8)))
            at.append(a.clamp(value, 0, c.pick((3, 0, 15))) if value.dtype == int32 or c.chance(60) else value)
    point = tuple(at)
    t.store(point, t.scope(tuple(r), point), kind=c.pick((0, 1)))


def exchange(t: Target) -> None:
    """``f[r.y, r.x]`` from ``f[r.x, r.y]``, or strided places of one dimension."""
    c = t.pool.choices
    r = domain(t.pool, 2)
    if len(t.vars) < 2:
        at: tuple[Expr, ...] = (2 * r.x,) if t.vars else ()
        t.store(at, t.scope(at, tuple(i + 1 for i in at)), kind=1)
        return
    rest = t.vars[: len(t.vars) - 2]
    at, other = (*rest, r.y, r.x), (*rest, r.x, r.y)
    t.store(at, t.scope(at, c.pick((other, at))), kind=1)


def _walked(t: Target) -> tuple[Expr, ...]:
    """Return an index in which a reduction domain replaces one or two Vars."""
    c = t.pool.choices
    if not t.vars:
        return ()
    chosen = sorted({c.integer(0, len(t.vars) - 1) for _ in range(c.integer(1, 2))})
    bounds: dict[str, Any] = {f"d{k}": c.pick(((0, n := c.pick(SIZES)), (1, n), (-2, n))) for k in chosen}
    bounds = {k: (low, max(low, high)) for k, (low, high) in bounds.items()}
    r = a.RDom("r", **bounds)
    forms = [lambda i: i, lambda i: 9 - i]
    return tuple(c.pick(forms)(r[chosen.index(k)]) if k in chosen else v for k, v in enumerate(t.vars))


UPDATE_KINDS: tuple[Callable[[Target], None], ...] = (
    at_own_point, reduced, along, scan, scatter, at_constants, scan, exchange,
)  # fmt: skip


def updated(p: Pool, name: str) -> Func:
    """A Func with one to three updates."""
    c = p.choices
    v = p.variables(c.pick((1, 2, 2, 0, 3)))
    f = Func(name)
    s = p.scope(*v)
    if c.chance(8):
        dtype = any_type(c)
        f[v] = a.undef(dtype)
        f[v] = expression(s, dtype, 1)
    elif c.chance(15):
        f[v] = (expression(s, any_type(c), 1), constant(c, any_type(c)))
    else:
        dtype = any_type(c)
        f[v] = constant(c, dtype) if c.chance(50) else as_type(expression(s, dtype, 1), dtype)
    for _ in range(c.pick((1, 1, 2, 3))):
        c.pick(UPDATE_KINDS)(Target(p, f, v))
    return f
