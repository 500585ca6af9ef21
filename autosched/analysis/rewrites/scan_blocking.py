"""Scans by blocks: totals of blocks, a scan of the totals, and a scan of each block, all blocks at once.

    f[x] = f[x - 1] + a[x]   ->   f_total[k] = sum of a[k * 64 + i] over i < 64
                                  f_carry[k] = f_carry[k - 1] + f_total[k]
                                  f_block[k, i] = a[k * 64 + i];  f_block[k, i] += f_block[k, i - 1]
                                  f[x] = f_carry[x // 64 - 1] + f_block[x // 64, x % 64]

This is the reduce-then-scan form. Each element is read twice and written once; blocks run in parallel. The carry of a
linear recurrence ``f[x] = w * f[x - 1] + a[x]`` is multiplied by ``w ** 64`` from block to block, and enters a block at
its first element.

With ``chunk``, the threads of a block scan chunks of it (``f_block``), and the totals of the chunks are scanned by
doubling with radix 4 (``f_chunk1``, ``f_chunk4``, ...), as are the totals of the blocks.

The result is an ordinary pipeline with more Funcs, made for the schedules that contain the rewrite. It is exact up to
the rounding of floating-point sums and products.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import isfinite

from autosched.analysis.access.accumulation import identity
from autosched.analysis.access.scan import Scan, find_scan
from autosched.analysis.bound_pipeline import BoundPipeline, ScanBlocking
from autosched.analysis.expressions.constant_folding import fold
from autosched.analysis.expressions.hash_consing import Interner
from autosched.analysis.indices.to_index import rvar_range, to_index
from autosched.analysis.rewrites.rebuild import Replacement, fresh_name, rebuild_pipeline, with_replaced_reads
from autosched.analysis.rewrites.rewrite import apply, build
from autosched.errors import ScheduleError
from autosched.lang.dtypes import DType
from autosched.lang.expr import Binary, Const, Expr, Load, RVar, Select, Unary, Var, children, postorder, rebuild, walk
from autosched.lang.func import Definition, Func
from autosched.lang.functions import max as larger
from autosched.lang.functions import min as smaller
from autosched.lang.functions import select
from autosched.lang.operators import as_expr, typed_const
from autosched.lang.rdom import RDom

RADIX = 4
"""Totals that one step of doubling combines."""
MOST_DOUBLED = 64
"""Most totals that are scanned by doubling where blocks have no chunks; more are scanned serially."""
Values = tuple[Expr, ...]


def block_scans(bound: BoundPipeline, scans: Sequence[ScanBlocking]) -> BoundPipeline:
    """Return the pipeline with scans by blocks; the same scans give the same object.

    Args:
        bound: The pipeline. Its own scans by blocks and later rewrites are replaced.
        scans: The scans, in the order of their application.

    Raises:
        ScheduleError: If an update is no scan, see `scan_error`.
    """
    rewritten = bound.rewritten
    return reduce(apply, scans, rewritten.before_scans or rewritten.before_rfactor or rewritten)


def scan_error(bound: BoundPipeline, blocking: ScanBlocking) -> str:
    """Return the reason why an update cannot be computed by blocks; empty if it can."""
    found = _checked(bound, blocking)
    return found if isinstance(found, str) else ""


def scan_of(bound: BoundPipeline, func: str, stage: int) -> Scan | None:
    """Return the scan of an update that blocks can compute, None for another update."""
    found = _checked(bound, ScanBlocking(func, stage, 2))
    return None if isinstance(found, str) else found


def _checked(bound: BoundPipeline, blocking: ScanBlocking) -> Scan | str:
    func = bound.funcs.get(blocking.func)
    if func is None or not 0 < blocking.stage < len(func.stages):
        return f"there is no update {blocking.stage} of {blocking.func!r}"
    scan = find_scan(bound, blocking.func, blocking.stage, fresh_name(f"{func.name}_before", _taken(bound)))
    if isinstance(scan, str):
        return scan
    if not 2 <= blocking.block < 2 * scan.length:
        return f"blocks of {blocking.block} elements of {blocking.func!r}: give 2 to {2 * scan.length - 1}"
    if blocking.chunk and (
        scan.is_linear or not 2 <= blocking.chunk < blocking.block or blocking.block % blocking.chunk
    ):
        return (
            f"chunks of {blocking.chunk} elements in blocks of {blocking.block} of {blocking.func!r}: give a divisor, "
            "and none for a linear recurrence"
        )
    elements = _Elements(scan)
    if any(value is None for value in elements.at_first()):
        return f"{blocking.func!r} is undefined at the position before update {blocking.stage}"
    region = func.region[scan.axis]
    outside = elements.before(Var("x"), region) if _exceeds(region, scan.ends) else []
    read = [*elements.at(Var("q")), *(v for v in outside if v is not None)]
    if not scan.before.definitions[0].values and any(
        isinstance(n, Load) and n.source is scan.before for e in read for n in walk(e)
    ):
        return f"{blocking.func!r} is defined in parts before update {blocking.stage}"
    return scan


def _exceeds(region: tuple[int, int], ends: tuple[int, int]) -> bool:
    return region[0] < ends[0] or region[1] > ends[1]


def _taken(bound: BoundPipeline) -> set[str]:
    return {*bound.funcs, *bound.inputs}


@build.register
def _build(blocking: ScanBlocking, bound: BoundPipeline) -> BoundPipeline:
    scan = _checked(bound, blocking)
    if isinstance(scan, str):
        raise ScheduleError(f"{scan}: remove this scan by blocks, or make a new schedule")
    old = bound.pipeline.func(blocking.func)
    region = bound.funcs[blocking.func].region[scan.axis]
    new = _BlockedScan(old, blocking, scan, region, _taken(bound)).build()
    rebuilt = rebuild_pipeline(bound, {old: Replacement(new)}).bound
    return replace(
        rebuilt, windows=bound.windows, before_windows=bound.before_windows,
        before_scans=bound.before_scans or bound, scans=(*bound.scans, blocking),
    )  # fmt: skip


class _Elements:
    """The elements of a scan: the value before it at position 0, then the combined values.

    Args:
        scan: The scan.
    """

    def __init__(self, scan: Scan) -> None:
        self._scan = scan
        self._components = range(len(scan.values))
        self._uniform = self._is_uniform()

    def at_first(self) -> list[Expr | None]:
        """Return the values at the first position, None where they are undefined."""
        first = self._scan.first
        return [self._earlier(k, as_expr(first), (first, first)) for k in self._components]

    def at(self, q: Expr) -> Values:
        """Return the values at a position from 0 on."""
        if self._uniform:
            return tuple(self._combined(k, q) for k in self._components)
        later = larger(q, 1)
        return tuple(
            select(q == 0, first, self._combined(k, later))
            for k, first in enumerate(self.at_first())
            if first is not None
        )

    def before(self, position: Expr, within: tuple[int, int]) -> list[Expr | None]:
        """Return the values before the scan at a position of the Func, whose range is known."""
        return [self._earlier(k, position, within) for k in self._components]

    def _is_uniform(self) -> bool:
        """Whether the formula of the later elements gives the first one as well."""
        first = self.at_first()
        return all(
            value is not None and _is_same(value, self._combined(k, as_expr(0))) for k, value in enumerate(first)
        )

    def _combined(self, component: int, q: Expr) -> Expr:
        s = self._scan
        low = rvar_range(s.loop)[0]
        value = _with_variable(s.values[component], lambda n: isinstance(n, RVar), q + (low - 1))
        position = q * s.step + s.first
        written = s.ends[0] + (s.step > 0), s.ends[1] - (s.step < 0)
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


@dataclass
class _BlockedScan:
    """Builds the Funcs of a scan by blocks.

    Args:
        func: The Func.
        blocking: The blocks.
        scan: The scan.
        region: Lowest and highest required position of the Func along the scan.
        taken: Names in use.
    """

    func: Func
    blocking: ScanBlocking
    scan: Scan
    region: tuple[int, int]
    taken: set[str]

    def __post_init__(self) -> None:
        self._elements = _Elements(self.scan)
        self._size = self.blocking.block
        self._blocks = -(-self.scan.length // self._size)
        self._k, self._i = (Var(self._fresh_dim(n)) for n in ("k", "i"))
        self._dtypes: Sequence[DType] = self.func.dtypes

    def _fresh_dim(self, name: str) -> str:
        return fresh_name(name, self.func.dims)

    def build(self) -> Func:
        """Return the Func that combines carries and blocks; its later stages are unchanged."""
        f = self.func
        carry = self._carries() if self._blocks > 1 else None
        block = self._block(carry)
        chunks = self._chunk_totals(block) if self.blocking.chunk else None
        new = Func(f.name)
        new.location, new._dtypes = f.location, f.dtypes
        new.boundary, new.boundary_ranges = f.boundary, f.boundary_ranges
        pure = Definition(f.vars, self._result(block, chunks, carry), (), f.definitions[self.blocking.stage].location)
        later = f.definitions[self.blocking.stage + 1 :]
        new._definitions += [pure, *(with_replaced_reads(d, {f: Replacement(new)}) for d in later)]
        return new

    def _new(self, suffix: str, dims: Sequence[Var], values: Values) -> Func:
        g = Func(fresh_name(f"{self.func.name}_{suffix}", self.taken))
        self.taken.add(g.name)
        g.location, g._dtypes = self.func.location, self.func.dtypes
        g._definitions.append(Definition(tuple(dims), values, (), self.func.location))
        return g

    def _with_axis(self, *parts: Expr) -> tuple[Expr, ...]:
        """Return the Func's Vars with other indices in place of the one along the scan."""
        axis, at = self.scan.axis, self.func.vars
        return (*at[:axis], *parts, *at[axis + 1 :])

    def _load(self, g: Func, *parts: Expr) -> Values:
        return tuple(Load(g, self._with_axis(*parts), d, k) for k, d in enumerate(self._dtypes))

    def _joined(self, first: Values, second: Values) -> Values:
        """Return the combination of the total of earlier elements with that of later ones."""
        kinds = zip(self.scan.operators, self._dtypes, first, second, strict=True)
        return tuple(Binary(op, a, b, d) for op, d, a, b in kinds)

    def _weighted(self, values: Values, weights: Sequence[Expr | None]) -> Values:
        return tuple(
            v if w is None else Binary("mul", w, v, d)
            for v, w, d in zip(values, weights, self._dtypes, strict=True)
        )  # fmt: skip

    def _update(self, g: Func, at: Sequence[Expr], loops: Sequence[RVar], values: Values) -> None:
        g._definitions.append(Definition(tuple(at), values, tuple(loops), self.func.location))

    def _axis_vars(self, *parts: Var) -> tuple[Var, ...]:
        return tuple(e for e in self._with_axis(*parts) if isinstance(e, Var))

    def _carries(self) -> Func:
        """Return the totals of each block and all earlier ones, for all blocks but the last."""
        n, k = self._blocks - 1, self._k
        starts = tuple(identity(op, d) for op, d in zip(self.scan.operators, self._dtypes, strict=True))
        if self.scan.is_linear:
            starts = self._elements.at(k * self._size)
        total = self._new("total", self._axis_vars(k), starts)
        (i,) = RDom("elements", i=(int(self.scan.is_linear), self._size)).vars
        own = self._load(total, k)
        elements = self._elements.at(k * self._size + i)
        values = self._joined(self._weighted(own, self.scan.weights), elements)
        self._update(total, self._with_axis(k), (i,), values)
        if self.blocking.chunk or n <= MOST_DOUBLED:
            return self._doubled(total, n, "carry", self._size)
        carry = self._new("carry", self._axis_vars(k), self._load(total, k))
        (r,) = RDom("blocks", k=(1, n)).vars
        before = _powers(self.scan.weights, self._load(carry, r - 1), self._size)
        self._update(carry, self._with_axis(r), (r,), self._joined(before, self._load(carry, r)))
        return carry

    def _doubled(self, g: Func, count: int, name: str, elements: int, *outer: Var) -> Func:
        """Return the scan of ``count`` totals of ``elements`` each along the scanned dimension, by doubling."""
        k, n = self._k, 1
        while n < count:
            values = self._load(g, *outer, k)
            for m in range(1, RADIX):
                if m * n < count:
                    earlier = self._load(g, *outer, larger(k - m * n, 0))
                    more = self._joined(_powers(self.scan.weights, earlier, m * n * elements), values)
                    values = tuple(
                        Select(k >= m * n, a, b, d) for a, b, d in zip(more, values, self._dtypes, strict=True)
                    )
            g = self._new(f"{name}{n}", self._axis_vars(*outer, k), values)
            n *= RADIX
        return g

    def _block(self, carry: Func | None) -> Func:
        """Return the scan of each block, or of each of its chunks; with the carry, if that of a linear recurrence."""
        k, i, size, chunk = self._k, self._i, self._size, self.blocking.chunk
        q: Expr = k * size + i
        if self._blocks * size > self.scan.length:
            q = smaller(q, self.scan.length - 1)
        values = self._elements.at(q)
        if carry is not None and self.scan.is_linear:
            start = self._joined(self._weighted(self._load(carry, larger(k - 1, 0)), self.scan.weights), values)
            values = tuple(select((i == 0) & (k > 0), a, b) for a, b in zip(start, values, strict=True))
        block = self._new("block", self._axis_vars(k, i), values)
        if chunk:
            c, j = RDom("chunk", c=(0, size // chunk), j=(1, chunk)).vars
            loops, at = (c, j), c * chunk + j
        else:
            (j,) = RDom("element", i=(1, size)).vars
            loops, at = (j,), as_expr(j)
        previous = self._weighted(self._load(block, k, at - 1), self.scan.weights)
        self._update(block, self._with_axis(k, at), loops, self._joined(previous, self._load(block, k, at)))
        return block

    def _chunk_totals(self, block: Func) -> Func | None:
        """Return the totals of each chunk and all earlier ones of its block."""
        chunk = self.blocking.chunk
        count = self._size // chunk - 1
        c = Var(self._fresh_dim("c"))
        last = self._load(block, c, self._k * chunk + (chunk - 1))
        return self._doubled(self._new("chunk", self._axis_vars(c, self._k), last), count, "chunk", chunk, c)

    def _result(self, block: Func, chunks: Func | None, carry: Func | None) -> Values:
        """Return the values of the Func at its Vars."""
        s, x = self.scan, self.func.vars[self.scan.axis]
        position: Expr = x
        ends, outside = s.ends, _exceeds(self.region, s.ends)
        if outside:
            position = smaller(larger(x, ends[0]), ends[1])
        q = (position - s.first) if s.step > 0 else (s.first - position)
        k, i = q // self._size, q % self._size
        values = self._load(block, k, i)
        if chunks is not None:
            c = i // self.blocking.chunk
            values = self._after(c, self._load(chunks, k, larger(c - 1, 0)), values)
        if carry is not None and not s.is_linear:
            values = self._after(k, self._load(carry, larger(k - 1, 0)), values)
        if not outside:
            return values
        before = self._elements.before(x, self.region)
        inside = (x >= ends[0]) & (x <= ends[1])
        return tuple(v if b is None else select(inside, v, b) for v, b in zip(values, before, strict=True))

    def _after(self, number: Expr, carried: Values, values: Values) -> Values:
        """Return the values with those of earlier parts, except in part 0."""
        joined = self._joined(carried, values)
        return tuple(Select(number == 0, b, a, d) for a, b, d in zip(joined, values, self._dtypes, strict=True))


def _powers(weights: Sequence[Expr | None], values: Values, count: int) -> Values:
    """Return the values multiplied by ``count`` weights each."""
    return tuple(v if w is None else _times_power(w, v, count) for w, v in zip(weights, values, strict=True))


def _times_power(weight: Expr, value: Expr, count: int) -> Expr:
    """Return ``weight ** count * value``, with the zeros and infinities of one multiplication after the other.

    A power that overflows or underflows has no influence on a zero or an infinity beyond its sign.
    """
    power = _power(weight, count)
    product = Binary("mul", power, value, value.dtype)
    if not value.dtype.is_float or (isinstance(weight, Const) and _is_normal(float(weight.value), count, value.dtype)):
        return product
    d = value.dtype
    zero, one = typed_const(0, d), typed_const(1, d)
    sign = select(weight > zero, one, select(weight < zero, Unary("neg", one, d), weight))  # 0 and NaN stay
    infinite = (value == typed_const(float("inf"), d)) | (value == typed_const(float("-inf"), d))
    return select((value == zero) | infinite, Binary("mul", _power(sign, count), value, d), product)


def _power(weight: Expr, count: int) -> Expr:
    """Return a power by repeated squaring."""
    result: Expr | None = None
    while count:
        if count & 1:
            result = weight if result is None else Binary("mul", result, weight, weight.dtype)
        count >>= 1
        if count:
            weight = Binary("mul", weight, weight, weight.dtype)
    assert result is not None
    return result


def _is_normal(weight: float, count: int, dtype: DType) -> bool:
    """Whether no power up to ``count`` overflows or underflows."""
    largest = {2: 2.0**15, 4: 2.0**126, 8: 2.0**1022}[dtype.bytes_]
    try:
        power = abs(weight) ** count
    except OverflowError:
        return False
    return isfinite(power) and 1 / largest <= power <= largest
