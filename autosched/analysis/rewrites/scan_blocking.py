"""Scans by blocks: totals of blocks, a scan of the totals, and a scan of each block, all blocks at once.

    f[x] = f[x - 1] + a[x]   ->   f_total[k] = sum of a[k * 64 + i] over i < 64
                                  f_carry[k] = f_carry[k - 1] + f_total[k]
                                  f_block[k, i] = a[k * 64 + i];  f_block[k, i] += f_block[k, i - 1]
                                  f[x] = f_carry[x // 64 - 1] + f_block[x // 64, x % 64]

This is the reduce-then-scan form. Each element is read twice and written once; blocks run in parallel. The carry of a
linear recurrence ``f[x] = w * f[x - 1] + a[x]`` is multiplied by ``w ** 64`` from block to block, and enters a block at
its first element. Recurrences of second order carry two elements, multiplied by a power of their 2 x 2 matrix.

With ``chunk``, the threads of a block scan chunks of it (``f_block``). The totals of the chunks are scanned by doubling
with radix 4 in rows of 16 (``f_chunk1``, ``f_chunk4``), then the totals of these rows (``f_row1``, ``f_row4``).
The totals of the blocks are scanned by doubling as well.

The result is an ordinary pipeline with more Funcs, made for the schedules that contain the rewrite. It is exact up to
the rounding of floating-point sums and products.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

from autosched.analysis.access.accumulation import identity
from autosched.analysis.access.scan import ScanUpdate, find_scan
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.pipeline_rewrites import ScanBlocking
from autosched.analysis.rewrites.rebuild import Replacement, fresh_name, rebuild_pipeline, with_replaced_reads
from autosched.analysis.rewrites.recurrence_powers import times_matrix_power, times_powers
from autosched.analysis.rewrites.rewrite import apply, build
from autosched.analysis.rewrites.scan_elements import ScanElements
from autosched.errors import ScheduleError
from autosched.lang.dtypes import DType
from autosched.lang.expr import Binary, Expr, Load, RVar, Select, Var, walk
from autosched.lang.func import Definition, Func
from autosched.lang.functions import max as larger
from autosched.lang.functions import min as smaller
from autosched.lang.functions import select
from autosched.lang.operators import typed_const
from autosched.lang.rdom import RDom

RADIX = 4
"""Totals that one step of doubling combines."""
ROW = 16
"""Chunks of a block whose totals are scanned together."""
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
    first = rewritten.before_scans or rewritten.before_deinterleaving or rewritten.before_hoisting
    later = rewritten.before_unrolling or rewritten.before_narrowing or rewritten.before_rfactor
    return reduce(apply, scans, first or later or rewritten)


def scan_error(bound: BoundPipeline, blocking: ScanBlocking) -> str:
    """Return the reason why an update cannot be computed by blocks; empty if it can."""
    found = _checked(bound, blocking)
    return found if isinstance(found, str) else ""


def scan_of(bound: BoundPipeline, func: str, stage: int) -> ScanUpdate | None:
    """Return the scan of an update that blocks can compute, None for another update."""
    found = _checked(bound, ScanBlocking(func, stage, 2))
    return None if isinstance(found, str) else found


def _checked(bound: BoundPipeline, blocking: ScanBlocking) -> ScanUpdate | str:
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
    if blocking.doubled and scan.order != 2:
        return f"{blocking.func!r} is no recurrence of second order: leave out doubled"
    elements = ScanElements(scan)
    if any(value is None for values in elements.at_start() for value in values):
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
    scan: ScanUpdate
    region: tuple[int, int]
    taken: set[str]

    def __post_init__(self) -> None:
        self._elements = ScanElements(self.scan)
        self._size = self.blocking.block
        self._blocks = -(-self.scan.length // self._size)
        self._k, self._i = (Var(self._fresh_dim(n)) for n in ("k", "i"))
        self._dtypes: Sequence[DType] = self.func.dtypes

    def _fresh_dim(self, name: str) -> str:
        return fresh_name(name, self.func.dims)

    def build(self) -> Func:
        """Return the Func that combines carries and blocks; its later stages are unchanged."""
        f = self.func
        second = self.scan.order == 2
        carry = None
        if self._blocks > 1:
            carry = self._second_order_carries() if second else self._carries()
        chunks = self._chunk_totals() if self.blocking.chunk else []
        block = self._chunks() if chunks else self._second_order_block(carry) if second else self._block(carry)
        new = Func(f.name)
        new.location, new._dtypes = f.location, f.dtypes
        new.boundary, new.boundary_ranges = f.boundary, f.boundary_ranges
        pure = Definition(f.vars, self._result(block, chunks, carry), (), f.definitions[self.blocking.stage].location)
        later = f.definitions[self.blocking.stage + 1 :]
        new._definitions += [pure, *(with_replaced_reads(d, {f: Replacement(new)}) for d in later)]
        return new

    def _new(self, suffix: str, dims: Sequence[Var], values: Values, dtypes: Sequence[DType] = ()) -> Func:
        g = Func(fresh_name(f"{self.func.name}_{suffix}", self.taken))
        self.taken.add(g.name)
        g.location, g._dtypes = self.func.location, tuple(dtypes) or self.func.dtypes
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
        starts: Values = tuple(identity(op, d) for op, d in zip(self.scan.operators, self._dtypes, strict=True))
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
        before = times_powers(self.scan.weights, self._load(carry, r - 1), self._size)
        self._update(carry, self._with_axis(r), (r,), self._joined(before, self._load(carry, r)))
        return carry

    def _second_order_carries(self) -> Func:
        """Return the last two elements of each block but the last, the later one first."""
        n, k, scan = self._blocks - 1, self._k, self.scan
        d = self._dtypes[0]
        pair = (d, d)
        w1, w2 = scan.weights[0], scan.second[0]
        assert w1 is not None and w2 is not None

        def of(g: Func, at: Expr) -> tuple[Expr, Expr]:
            return Load(g, self._with_axis(at), d, 0), Load(g, self._with_axis(at), d, 1)

        (start,) = self._elements.at(k * self._size)
        total = self._new("total", self._axis_vars(k), (start, typed_const(0, d)), pair)
        (i,) = RDom("elements", i=(1, self._size)).vars
        (element,) = self._elements.at(k * self._size + i)
        one, two = of(total, k)
        recurrence = Binary("add", Binary("mul", w1, one, d), Binary("mul", w2, two, d), d)
        later = select((k == 0) & (i == 1), element, Binary("add", recurrence, element, d))  # given in block 0
        self._update(total, self._with_axis(k), (i,), (later, one))
        if n == 1:
            return total
        if self.blocking.doubled:
            return self._doubled_pairs(total, n, (w1, w2))
        carry = self._new("carry", self._axis_vars(k), of(total, k), pair)
        (r,) = RDom("blocks", k=(1, n)).vars
        moved = times_matrix_power((w1, w2), of(carry, r - 1), self._size)
        values = tuple(Binary("add", a, b, d) for a, b in zip(moved, of(carry, r), strict=True))
        self._update(carry, self._with_axis(r), (r,), values)
        return carry

    def _doubled_pairs(self, g: Func, count: int, weights: tuple[Expr, Expr]) -> Func:
        """Return the scan of ``count`` pairs of last elements of blocks by doubling."""
        k, n, d = self._k, 1, self._dtypes[0]

        def of(at: Expr) -> tuple[Expr, Expr]:
            return Load(g, self._with_axis(at), d, 0), Load(g, self._with_axis(at), d, 1)

        while n < count:
            values: Values = of(k)
            for m in (m for m in range(1, RADIX) if m * n < count):
                moved = times_matrix_power(weights, of(larger(k - m * n, 0)), m * n * self._size)
                more = (Binary("add", a, b, d) for a, b in zip(moved, values, strict=True))
                values = tuple(Select(k >= m * n, a, b, d) for a, b in zip(more, values, strict=True))
            g = self._new(f"carry{n}", self._axis_vars(k), values, (d, d))
            n *= RADIX
        return g

    def _second_order_block(self, carry: Func | None) -> Func:
        """Return the scan of each block, which the last two elements before it enter."""
        k, i, d = self._k, self._i, self._dtypes[0]
        w1, w2 = self.scan.weights[0], self.scan.second[0]
        assert w1 is not None and w2 is not None
        (value,) = self._elements.at(self._position(k, i))
        if carry is not None:
            one, two = (Load(carry, self._with_axis(larger(k - 1, 0)), d, c) for c in range(2))
            first = Binary("add", Binary("add", Binary("mul", w1, one, d), Binary("mul", w2, two, d), d), value, d)
            second = Binary("add", Binary("mul", w2, one, d), value, d)
            value = select((i == 0) & (k > 0), first, select((i == 1) & (k > 0), second, value))
        block = self._new("block", self._axis_vars(k, i), (value,))
        (j,) = RDom("element", i=(1, self._size)).vars
        own, one, two = (Load(block, self._with_axis(k, at), d) for at in (j, j - 1, larger(j - 2, 0)))
        before = Binary("mul", w1, one, d)
        later = Binary("add", select(j > 1, Binary("add", before, Binary("mul", w2, two, d), d), before), own, d)
        self._update(block, self._with_axis(k, j), (j,), (select((k == 0) & (j == 1), own, later),))
        return block

    def _position(self, block: Expr, element: Expr) -> Expr:
        """Return the position of an element of a block; past the end, the last one."""
        q = block * self._size + element
        return smaller(q, self.scan.length - 1) if self._blocks * self._size > self.scan.length else q

    def _doubled(
        self, g: Func, count: int, name: str, elements: int, *, c: Var | None = None, row: int = 0
    ) -> Func:  # fmt: skip
        """Return the scan of ``count`` totals by doubling.

        Args:
            g: The totals.
            count: Their number, or that of a row.
            name: Prefix of the names of the new Funcs.
            elements: Elements of each total.
            c: Dimension of the totals, if they are parts of blocks.
            row: Totals that are scanned together; all by default.
        """
        outer, k, n = (() if c is None else (self._k,)), self._k if c is None else c, 1
        position = k % row if row else k
        while n < count:
            values = self._load(g, *outer, k)
            for m in range(1, RADIX):
                if m * n < count:
                    earlier = self._load(g, *outer, larger(k - m * n, 0))
                    more = self._joined(times_powers(self.scan.weights, earlier, m * n * elements), values)
                    values = tuple(
                        Select(position >= m * n, a, b, d) for a, b, d in zip(more, values, self._dtypes, strict=True)
                    )
            g = self._new(f"{name}{n}", self._axis_vars(*outer, k), values)
            n *= RADIX
        return g

    def _block(self, carry: Func | None) -> Func:
        """Return the scan of each block; with the carry, if that of a linear recurrence."""
        k, i, size = self._k, self._i, self._size
        values = self._elements.at(self._position(k, i))
        if carry is not None and self.scan.is_linear:
            start = self._joined(self._weighted(self._load(carry, larger(k - 1, 0)), self.scan.weights), values)
            values = tuple(select((i == 0) & (k > 0), a, b) for a, b in zip(start, values, strict=True))
        block = self._new("block", self._axis_vars(k, i), values)
        (j,) = RDom("element", i=(1, size)).vars
        previous = self._weighted(self._load(block, k, j - 1), self.scan.weights)
        self._update(block, self._with_axis(k, j), (j,), self._joined(previous, self._load(block, k, j)))
        return block

    def _chunks(self) -> Func:
        """Return the scan of each chunk of each block."""
        k, c, i, chunk = self._k, Var(self._fresh_dim("c")), self._i, self.blocking.chunk
        values = self._elements.at(self._position(k, c * chunk + i))
        scan = self._new("block", self._axis_vars(k, c, i), values)
        (j,) = RDom("element", i=(1, chunk)).vars
        own = self._load(scan, k, c, j)
        self._update(scan, self._with_axis(k, c, j), (j,), self._joined(self._load(scan, k, c, j - 1), own))
        return scan

    def _chunk_totals(self) -> list[tuple[int, Func]]:
        """Return the totals of each chunk and all earlier ones of its row, and of each row and all earlier ones.

        Each with the elements of a chunk or row. There is one row if a block has at most `ROW` chunks.

        They are sums of elements rather than last elements of scans, so that a thread can scan its chunk in registers
        where the result is computed.
        """
        block, c, chunk = self._k, Var(self._fresh_dim("c")), self.blocking.chunk
        starts: Values = tuple(identity(op, d) for op, d in zip(self.scan.operators, self._dtypes, strict=True))
        total = self._new("chunk", self._axis_vars(block, c), starts)
        (j,) = RDom("elements", i=(0, chunk)).vars
        elements = self._elements.at(self._position(block, c * chunk + j))
        self._update(total, self._with_axis(block, c), (j,), self._joined(self._load(total, block, c), elements))
        count = self._size // chunk
        chunks = self._doubled(total, min(count - 1, ROW), "chunk", chunk, c=c, row=ROW)
        if count <= ROW:
            return [(chunk, chunks)]
        rows = self._new("row", self._axis_vars(block, c), self._load(chunks, block, c * ROW + (ROW - 1)))
        rows = self._doubled(rows, -(-count // ROW) - 1, "row", ROW * chunk, c=c)
        return [(chunk, chunks), (ROW * chunk, rows)]

    def _result(self, block: Func, chunks: Sequence[tuple[int, Func]], carry: Func | None) -> Values:
        """Return the values of the Func at its Vars."""
        s, x = self.scan, self.func.vars[self.scan.axis]
        position: Expr = x
        ends, outside = s.ends, _exceeds(self.region, s.ends)
        if outside:
            position = smaller(larger(x, ends[0]), ends[1])
        q = (position - s.first) if s.step > 0 else (s.first - position)
        k, i = q // self._size, q % self._size
        if chunks:
            values = self._load(block, k, i // self.blocking.chunk, i % self.blocking.chunk)
        else:
            values = self._load(block, k, i)
        for elements, totals in chunks:
            c = i // elements
            number = c if totals is chunks[-1][1] else c % ROW
            values = self._after(number, self._load(totals, k, larger(c - 1, 0)), values)
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
