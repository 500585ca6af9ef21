"""Random update definitions as text: accumulations, scans, scatters, exchanges, constant points."""

from __future__ import annotations

from collections.abc import Callable

from fuzzing.expressions import Scope, expression, leaf, strong
from fuzzing.stages import ACCUMULATIONS, dims_of, reduction_domain, source
from fuzzing.writer import SIZES, TYPES, Source, Writer, at


def store(w: Writer, name: str, point: tuple[str, ...], s: Scope, *own: tuple[str, ...], depth: int = 1) -> None:
    """Add an update at a point, optionally with reads of the same Func at other points."""
    reads = tuple(at(name, o) for o in own)
    if reads and w.chance(60):
        value = expression(s, depth)
        dtype = w.dtype(reads[0])
        form = w.pick(ACCUMULATIONS) if dtype is None or dtype.kind != "b" else "{} ^ {}"
        text = form.format(w.pick(reads), f'au.cast("{dtype}", {value})')
    else:
        text = expression(s.also(*reads), depth)
    if not w.accepts(f"{at(name, point)} = {text}"):
        w.accepts(f"{at(name, point)} = {reads[0] if reads else strong(s, 0)}")


def at_own_point(w: Writer, name: str, v: tuple[str, ...]) -> None:
    """``f[y, x] = g(f[y, x])``."""
    store(w, name, v, Scope(w, v), v)


def reduced(w: Writer, name: str, v: tuple[str, ...]) -> None:
    """``f[x] = f[x] op g(x, r)``."""
    _, loops = reduction_domain(w, w.integer(1, 2))
    store(w, name, v, Scope(w, (*loops, *v)[-4:]), v)


def at_constants(w: Writer, name: str, v: tuple[str, ...]) -> None:
    """``f[0, x] = ...``."""
    point = tuple(d if k and w.chance(60) else str(w.integer(-1, 4)) for k, d in enumerate(v))
    store(w, name, point, Scope(w, point), point)


def along(w: Writer, name: str, v: tuple[str, ...]) -> None:
    """``f[r, x] = g(f[r, x])``."""
    point, _ = _reduced_index(w, v)
    store(w, name, point, Scope(w, point), point)


def scan(w: Writer, name: str, v: tuple[str, ...]) -> None:
    """``f[r, x] = g(f[r - 1, x], ...)``, of any order, along one dimension or two."""
    point, walked = _reduced_index(w, v)
    if not walked:
        return at_own_point(w, name, v)
    own = []
    for step in w.pick(((-1,), (1,), (-1, -2), (-3,))):
        own.append(tuple(f"{i} + {step}" if k in walked else i for k, i in enumerate(point)))
    if len(walked) > 1:
        own.append(tuple(f"{i} - 1" if k == walked[0] else i for k, i in enumerate(point)))
    store(w, name, point, Scope(w, point), *own)


def scatter(w: Writer, name: str, v: tuple[str, ...]) -> None:
    """``f[g(r)] = ...``: histograms and formulas."""
    _, loops = reduction_domain(w, w.integer(1, 2))
    s = Scope(w, loops)
    point = []
    for k, d in enumerate(v):
        kind = w.integer(0, 4)
        if kind == 4 and k:
            point.append(d)
        elif kind == 3:
            r = w.pick(loops)
            point.append(w.pick((f"3 * {r} - 1", f"{r} // 2", f"5 - {r}", f"{r} % 3", f"{loops[0]} + {r}")))
        else:
            text = f'au.cast("{w.pick(("uint8", "int32", "int8"))}", {leaf(s)})'
            point.append(f"au.clamp({text}, 0, {w.pick((3, 0, 15))})")
    store(w, name, tuple(point), s, tuple(point))


def exchange(w: Writer, name: str, v: tuple[str, ...]) -> None:
    """``f[r.y, r.x]`` from ``f[r.x, r.y]``."""
    _, (a, b) = reduction_domain(w, 2)
    if len(v) < 2:
        return at_own_point(w, name, v)
    point, other = (*v[:-2], a, b), (*v[:-2], b, a)
    store(w, name, point, Scope(w, point), w.pick((other, point)))


def _reduced_index(w: Writer, v: tuple[str, ...]) -> tuple[tuple[str, ...], list[int]]:
    """Return an index in which a reduction domain replaces one or two Vars, and the positions of those Vars."""
    if not v:
        return (), []
    chosen = sorted({w.integer(0, len(v) - 1) for _ in range(w.integer(1, 2))})
    r = w.fresh("r")
    bounds = ", ".join(f"{v[k]}=({low}, {max(low, w.pick(SIZES))})" for k in chosen for low in [w.pick((0, 1, -2))])
    w.add(f'{r} = RDom("{r}", {bounds})')
    forms = w.pick(("{}", "{}", "9 - {}"))
    return tuple(forms.format(f"{r}.{d}") if k in chosen else d for k, d in enumerate(v)), chosen


UPDATES: tuple[Callable[[Writer, str, tuple[str, ...]], None], ...] = (
    at_own_point, reduced, along, scan, scatter, at_constants, scan, exchange,
)  # fmt: skip


def updated(w: Writer) -> Source:
    """A Func with one to three updates."""
    v = dims_of(w, w.pick((1, 2, 2, 0, 3)))
    dtype = w.pick(("float32", "int32", *TYPES))
    first = f'au.cast("{dtype}", {w.pick(("0", "1", "7"))})' if w.chance(40) else strong(Scope(w, v), 1, dtype)
    name = w.func()
    w.add(f"{at(name, v)} = {first}")
    for _ in range(w.pick((1, 1, 2, 3))):
        w.pick(UPDATES)(w, name, v)
    return source(w, name, v)
