"""Elements of a scan as expressions of their position, for `autosched.analysis.rewrites.scan_blocking`."""

from __future__ import annotations

from collections.abc import Callable

from autosched.analysis.access.scan import ScanUpdate
from autosched.analysis.expressions.constant_folding import fold
from autosched.analysis.expressions.hash_consing import Interner
from autosched.analysis.indices.to_index import rvar_range, to_index
from autosched.lang.expr import Expr, Load, RVar, Var, children, postorder, rebuild, walk
from autosched.lang.functions import max as larger
from autosched.lang.functions import select
from autosched.lang.operators import as_expr, typed_const

Values = tuple[Expr, ...]


class ScanElements:
    """The elements of a scan: the value before it at position 0, then the combined values.

    Args:
        scan: The scan.
    """

    def __init__(self, scan: ScanUpdate) -> None:
        self._scan = scan
        self._components = range(len(scan.values))
        self._uniform = self._is_uniform()

    def at_start(self) -> list[list[Expr | None]]:
        """Return the values at each position before the first written one, None where they are undefined."""
        s = self._scan
        positions = [s.first + n * s.step for n in range(s.order)]
        return [[self._earlier(k, as_expr(x), (x, x)) for k in self._components] for x in positions]

    def at(self, q: Expr) -> Values:
        """Return the values at a position from 0 on; before the first written position, those of the Func."""
        if self._uniform:
            return tuple(self._combined(k, q) for k in self._components)
        start = self.at_start()
        values = tuple(self._combined(k, larger(q, len(start))) for k in self._components)
        for n, first in reversed(list(enumerate(start))):
            values = tuple(
                v if earlier is None else select(q == n, earlier, v) for earlier, v in zip(first, values, strict=True)
            )
        return values

    def before(self, position: Expr, within: tuple[int, int]) -> list[Expr | None]:
        """Return the values before the scan at a position of the Func, whose range is known."""
        return [self._earlier(k, position, within) for k in self._components]

    def _is_uniform(self) -> bool:
        """Whether the formula of the later elements gives the one before the first written position as well."""
        first, *more = self.at_start()
        return not more and all(
            value is not None and _is_same(value, self._combined(k, as_expr(0))) for k, value in enumerate(first)
        )

    def _combined(self, component: int, q: Expr) -> Expr:
        s = self._scan
        low = rvar_range(s.loop)[0]
        value = _with_variable(s.values[component], lambda n: isinstance(n, RVar), q + (low - s.order))
        position = q * s.step + s.first
        start = s.order * (s.step > 0), s.order * (s.step < 0)
        written = s.ends[0] + start[0], s.ends[1] - start[1]
        done: dict[int, Expr] = {}
        for node in postorder([value], done):
            if isinstance(node, Load) and node.source is s.before:
                earlier = self._earlier(node.component, position, written)
                done[id(node)] = typed_const(0, node.dtype) if earlier is None else earlier  # undefined: any value
            else:
                done[id(node)] = rebuild(node, [done[id(c)] for c in children(node)])
        return done[id(value)]

    def _earlier(self, component: int, position: Expr, within: tuple[int, int]) -> Expr | None:
        """Return a value before the scan, by the definition that gives it if there is only one; None if undefined."""
        s, f = self._scan, self._scan.before
        point = tuple(position if k == s.axis else v for k, v in enumerate(f.vars))
        for d in reversed(f.definitions):
            if not d.values:
                return None
            index = d.indices[s.axis]
            pure = all(
                isinstance(i, Var) and i.name == f.dims[k] for k, i in enumerate(d.indices) if k != s.axis
            )  # fmt: skip
            value = d.values[component]
            if not pure or d.rvars or any(isinstance(n, Load) and n.source is f for n in walk(value, *d.indices)):
                break
            if isinstance(index, Var):
                return _with_variable(value, _is_var(index.name), position)
            only = to_index(index)
            if not isinstance(only, int):
                break
            if within == (only, only):
                return value
            if within[0] <= only <= within[1]:
                break
        return Load(f, point, f.dtypes[component], component)


def _is_var(name: str) -> Callable[[Expr], bool]:
    return lambda n: isinstance(n, Var) and n.name == name


def _with_variable(e: Expr, is_variable: Callable[[Expr], bool], new: Expr) -> Expr:
    """Return an expression with another one in place of a variable, its constants folded."""
    done: dict[int, Expr] = {}
    for node in postorder([e], done):
        parts = [done[id(c)] for c in children(node)]
        constant = None if is_variable(node) else fold(node, parts)
        done[id(node)] = new if is_variable(node) else rebuild(node, parts) if constant is None else constant
    return done[id(e)]


def _is_same(a: Expr, b: Expr) -> bool:
    interner = Interner()
    return interner(a) is interner(b)
