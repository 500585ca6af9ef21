"""Statement decomposition and retiming: a sum over planes becomes sub-statements that read one plane each.

    f[z, x] = c * (a[z - 1, x] + a[z, x - 1] + a[z, x + 1] + a[z + 1, x])

becomes

    f_planes[z, x] = (c * a[z, x], c * (a[z, x - 1] + a[z, x + 1]), c * a[z, x])
    f[z, x] = f_planes[z - 1, x][0] + f_planes[z, x][1] + f_planes[z + 1, x][2]

Every sub-statement is homogenised (Artemis, sections III-B1 and III-B2): its offset along ``z`` is 0. A block that
streams along ``z`` then keeps one plane of ``a`` in shared memory. When a plane arrives, each thread computes what it
contributes to the points before, at and after it. These partial sums are of the thread's own points, so their window
may lie in registers. Sums are added in another order and factors are distributed over them, so floating-point results
differ by rounding; integers wrap and do not differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.expressions.shifts import shift_of, shifted
from autosched.analysis.pipeline_rewrites import Retiming
from autosched.analysis.rewrites.horizontal_fusion import MOST_VALUES
from autosched.analysis.rewrites.rebuild import fresh_name, with_values
from autosched.analysis.rewrites.rewrite import apply, build
from autosched.analysis.rewrites.value_extraction import pure_form_error, with_rewritten
from autosched.errors import BoundsError, ScheduleError
from autosched.lang.expr import Binary, Expr, Load, Select, Unary, Var, children, postorder, rebuild
from autosched.lang.func import Definition, Func
from autosched.lang.to_text import expression_text

Planes = dict[int | None, Expr]
"""The terms of a sum by the plane that they read: its distance along the dimension, None for terms of no plane."""
LONGEST_TEXT = 80
"""Characters of an expression in a message."""


class _MixedPlanesError(Exception):
    """An expression that reads several planes and is no sum of terms that read one each."""


def retiming_error(bound: BoundPipeline, retiming: Retiming) -> str:
    """Return the reason why a sum cannot be retimed; empty if it can."""
    problem = _form_error(bound, retiming)
    if problem:
        return problem
    try:
        apply(bound, retiming)
    except BoundsError as e:  # conditions guard reads of the whole definition, but not those of a sub-statement
        return f"a sub-statement of {retiming.func} has no bounds: {str(e).splitlines()[0]}"
    return ""


def _form_error(bound: BoundPipeline, retiming: Retiming) -> str:
    problem = pure_form_error(bound, retiming.func)
    if problem:
        return problem
    func = bound.funcs[retiming.func]
    if retiming.dim not in func.dims or func.ndim < 2:
        return f"{retiming.func} has no dimension {retiming.dim!r} besides others"
    values = bound.pipeline.func(retiming.func).definitions[0].values
    if not 0 <= retiming.component < len(values):
        return f"{retiming.func} has no component {retiming.component}: it has {len(values)}"
    try:
        sums = decomposed_sums(values[retiming.component], retiming.dim)
    except _MixedPlanesError as e:
        return f"{retiming.func} is not homogenizable along {retiming.dim}: {e}"
    if sum(len(planes) for _, planes in sums) > MOST_VALUES:
        return f"{retiming.func} has more than {MOST_VALUES} sub-statements, each a value of a thread at each point"
    if not sums:
        return f"{retiming.func} reads one plane along {retiming.dim}, so there is nothing to retime"
    return ""


def decomposed_sums(value: Expr, dim: str) -> list[tuple[Expr, Planes]]:
    """Return the sums in a value, each with its terms by plane; none if the value reads one plane at most.

    The value is a sum, or a selection between sums. Arms that read one plane count as sums of one term.

    Raises:
        _MixedPlanesError: If a value over several planes is no sum of terms that read one each.
    """
    distances = _distances(value, dim)
    sums: list[tuple[Expr, Planes]] = []
    arms = [value]
    while arms:
        e = arms.pop()
        if isinstance(e, Select):
            arms += [e.f, e.t]
        elif distances[id(e)]:
            sums.append((e, _planes(e, distances)))
    return sums if len(distances[id(value)]) > 1 and any(len(planes) > 1 for _, planes in sums) else []


def _distances(value: Expr, dim: str) -> dict[int, frozenset[int]]:
    """Return the distances along a dimension at which each node below a value reads."""
    found: dict[int, frozenset[int]] = {}
    for node in postorder([value], found):
        shift = shift_of(node)
        if shift is not None:
            found[id(node)] = frozenset({shift[1]}) if shift[0] == dim else frozenset()
        else:
            found[id(node)] = frozenset().union(*(found[id(c)] for c in children(node)))
    return found


def _planes(e: Expr, distances: Mapping[int, frozenset[int]]) -> Planes:
    """Return the terms of a sum by plane.

    Raises:
        _MixedPlanesError: See `decomposed_sums`.
    """
    own = distances[id(e)]
    if len(own) < 2:
        return {next(iter(own), None): e}
    match e:
        case Binary(op="add" | "sub" as op):
            return _merged(op, _planes(e.a, distances), _planes(e.b, distances))
        case Unary(op="neg"):
            return {k: Unary("neg", v, v.dtype) for k, v in _planes(e.a, distances).items()}
        case Binary(op="mul") if not distances[id(e.a)]:
            return _mapped(_planes(e.b, distances), lambda v: Binary("mul", e.a, v, e.dtype))
        case Binary(op="mul") if not distances[id(e.b)]:
            return _mapped(_planes(e.a, distances), lambda v: Binary("mul", v, e.b, e.dtype))
        case Binary(op="truediv") if e.dtype.is_float and not distances[id(e.b)]:
            return _mapped(_planes(e.a, distances), lambda v: Binary("truediv", v, e.b, e.dtype))
    text = expression_text(e)
    text = text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}..."
    planes = ", ".join(f"{k:+d}" if k else "0" for k in sorted(own))
    raise _MixedPlanesError(f"{text} reads the planes at {planes} and is no sum of terms that read one each")


def _mapped(planes: Planes, of: Callable[[Expr], Expr]) -> Planes:
    return {k: of(v) for k, v in planes.items()}


def _merged(op: str, a: Planes, b: Planes) -> Planes:
    """Return the terms of a sum or difference of two sums."""
    result = dict(a)
    for k, v in b.items():
        if k in result:
            result[k] = Binary(op, result[k], v, v.dtype)
        else:
            result[k] = v if op == "add" else Unary("neg", v, v.dtype)
    return result


@build.register
def _build(retiming: Retiming, bound: BoundPipeline) -> BoundPipeline:
    problem = _form_error(bound, retiming)
    if problem:
        raise ScheduleError(f"{problem}: remove this retiming, or make a new schedule")
    old = bound.pipeline.func(retiming.func)
    dim = retiming.dim
    sums = decomposed_sums(old.definitions[0].values[retiming.component], dim)
    terms = [(k, term) for _, planes in sums for k, term in planes.items() if k is not None]
    partial = Func(fresh_name(f"{retiming.func}_planes", {*bound.funcs, *bound.inputs}))
    partial.location, partial._dtypes = old.location, tuple(term.dtype for _, term in terms)
    components = tuple(_at_plane(term, dim, k) for k, term in terms)
    partial._definitions.append(Definition(old.vars, components, (), old.location))
    values: dict[int, Expr] = {}
    first = 0
    for e, planes in sums:
        values[id(e)] = _total(partial, planes, dim, first)
        first += sum(k is not None for k in planes)
    return with_rewritten(bound, old, with_values(old, values), retiming)


def _total(partial: Func, planes: Planes, dim: str, first: int) -> Expr:
    """Return the sum of the terms of planes, the lowest first, which are components of a Func from ``first`` on."""
    reads: dict[int, Expr] = {}
    for k in planes:
        if k is not None:
            at = tuple(shifted(v, k) if v.name == dim else v for v in partial.vars)
            reads[k] = Load(partial, at, partial.dtypes[first + len(reads)], first + len(reads))
    total, *others = (reads[k] for k in sorted(reads))
    others += [planes[None]] if None in planes else []
    for term in others:
        total = Binary("add", total, term, term.dtype)
    return total


def _at_plane(e: Expr, dim: str, distance: int) -> Expr:
    """Return a term that reads the plane at a distance, for a point of that plane: the distance becomes 0."""
    done: dict[int, Expr] = {}
    for node in postorder([e], done):
        shift = shift_of(node)
        if shift is not None and shift[0] == dim:
            done[id(node)] = shifted(Var(dim), shift[1] - distance)
        else:
            done[id(node)] = rebuild(node, [done[id(c)] for c in children(node)])
    return done[id(e)]
