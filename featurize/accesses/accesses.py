"""Accesses of one evaluation of a stage, through inlined Funcs, and the change of addresses with its loops."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from autosched.analysis.access.affine import form_of_index
from autosched.analysis.bound_pipeline import BoundPipeline, BoundStage
from autosched.analysis.indices import index as ix
from autosched.featurize.accesses.select_loads import loads_never_taken
from autosched.featurize.regions.stage_interior import interior, same_loops
from autosched.lang.expr import Expr, RVar, Var, walk

MOST_POINTS = 4096
"""Most points at which one stage evaluates inlined Funcs; enumeration ends there, and searches prune such states."""

LONG_PERIOD = 64
"""Least period of a remainder for which the points of a thread are assumed to be in one period."""


@dataclass(frozen=True, slots=True)
class AccessRow:
    """One index of an access as ``(sum(coefficients * loop) + constant) // quotient``.

    ``exact``: whether that is the value at every interior point and in every block. Several floor divisions of a sum
    are approximated by one.
    """

    coefficients: tuple[tuple[str, int], ...]
    constant: int
    quotient: int
    exact: bool


@dataclass(frozen=True, slots=True)
class AccessGroup:
    """Accesses of one array whose addresses differ only by constants.

    Attributes:
        source: Name of the Func or input.
        component: Tuple component.
        rows: Coefficients and quotient for each dimension of the source; None where the index is not affine.
        offsets: The constants of every distinct access, one tuple each.
        clamped: For each dimension of the source, whether a term of the index, such as a clamp, vanishes in the middle
            of the loops' ranges.
        by_data: Whether an index depends on loaded data.
        moved_by: For each dimension of the source, the loops in its index, those in indices of loaded data included;
            empty if unknown.
    """

    source: str
    component: int
    rows: tuple[AccessRow | None, ...]
    offsets: tuple[tuple[int, ...], ...]
    clamped: tuple[bool, ...] = ()
    by_data: bool = False
    moved_by: tuple[frozenset[str], ...] = ()

    @property
    def everywhere(self) -> bool:
        """Whether no term of an index vanishes in the middle of the loops' ranges."""
        return not any(self.clamped)

    @property
    def is_affine(self) -> bool:
        """Whether every index is affine."""
        return None not in self.rows

    @property
    def is_exact(self) -> bool:
        """Whether the affine form gives the address of every interior point."""
        return all(r is not None and r.exact for r in self.rows)

    def loops(self) -> frozenset[str]:
        """Names of the loops in affine indices of the address."""
        return frozenset(name for r in self.rows if r is not None for name, _ in r.coefficients)


@dataclass(frozen=True)
class StageAccesses:
    """Accesses of one evaluation of a stage.

    Attributes:
        loads: Groups of loads; a load of an inlined Func is replaced by that Func's own loads.
        stores: Groups of stores, one for each tuple component.
        calls: Number of distinct points at which each inlined Func is evaluated.
        overflow: Whether there are more than `MOST_POINTS` such points, so that the lists are incomplete.
    """

    loads: tuple[AccessGroup, ...]
    stores: tuple[AccessGroup, ...]
    calls: Mapping[str, int]
    overflow: bool


Points = tuple[tuple[int, ...], ...]
"""Distinct points at which a Func is evaluated: a number for each dimension, the same for equal indices."""
_Kind = tuple[object, ...] | None
"""Key of the rows that differ only by a constant; None where an index is not affine."""
_Dependence = tuple[tuple[bool, ...], tuple[frozenset[str], ...]]
"""``clamped`` and ``moved_by`` of a load."""
_Form = tuple[tuple[AccessRow | None, ...], tuple[int, ...], tuple[object, ...]]
"""Rows of a load, its constants, and the key of its group."""


@dataclass(eq=False)
class _Load:
    """A load at symbolic indices of one stage; mutable only for speed, and for the two cached fields.

    Attributes:
        source: Name of the Func or input.
        component: Tuple component.
        index: The indices.
        sure: Whether every index depends on the same loops in the middle of their ranges, and no select skips the load.
        clamped: Whether a term of each index vanishes there.
        moved_by: The loops in each index.
        inside: Cached loads of the inlined Func that is loaded.
        form: Cached form, which groups loads.
    """

    source: str
    component: int
    index: tuple[ix.Index, ...]
    sure: bool = True
    clamped: tuple[bool, ...] = ()
    moved_by: tuple[frozenset[str], ...] = ()
    inside: tuple[_Load, ...] | None = None
    form: _Form | None = None

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """Keys of the indices, equal for equal indices."""
        return tuple(map(ix.key, self.index))

    def without_results(self) -> _Load:
        """Return a load without cached loads and form, which belong to one pipeline."""
        load = _Load(self.source, self.component, self.index, self.sure, self.clamped, self.moved_by)
        vars(load)["keys"] = self.keys
        return load


@dataclass
class AccessTable:
    """Cache of the accesses of a pipeline's stages for any set of inlined Funcs."""

    bound: BoundPipeline
    _accesses: dict[tuple[str, int, frozenset[str]], StageAccesses] = field(default_factory=dict)
    _called: dict[tuple[str, int, frozenset[str]], list[_Load]] = field(default_factory=dict)
    _points: dict[tuple[str, int, frozenset[str]], dict[str, Points]] = field(default_factory=dict)
    _loads: dict[tuple[str, int], tuple[_Load, ...]] = field(default_factory=dict)
    _calls: dict[tuple[object, ...], tuple[_Load, ...]] = field(default_factory=dict)
    _dependences: dict[tuple[object, ...], tuple[_Dependence, ...]] = field(default_factory=dict)
    _rows: dict[tuple[str, int, str, bool], tuple[AccessRow | None, _Kind]] = field(default_factory=dict)

    def of(self, func: str, number: int, inlined: frozenset[str]) -> StageAccesses:
        """Return the accesses of a stage with some inlined Funcs."""
        reached = self._reached(func, number, inlined)
        key = func, number, reached
        if key not in self._accesses:
            self._accesses[key], self._called[key] = self._enumerate(self.bound.stage(func, number), reached)
        return self._accesses[key]

    def called_by(self, func: str, number: int, inlined: frozenset[str]) -> tuple[AccessGroup, ...]:
        """Return the points at which a stage evaluates inlined Funcs; the arguments are those of `of`."""
        self.of(func, number, inlined)
        called = self._called[func, number, self._reached(func, number, inlined)]
        return self._grouped(self.bound.stage(func, number), called)

    def distinct_calls(self, func: str, number: int, inlined: frozenset[str]) -> Mapping[str, Points]:
        """Return the distinct points at which a stage evaluates each inlined Func; the arguments are those of `of`."""
        self.of(func, number, inlined)
        key = func, number, self._reached(func, number, inlined)
        if key not in self._points:
            numbers: dict[tuple[str, int], dict[str, int]] = {}
            by_source: dict[str, list[tuple[int, ...]]] = {}
            for call in self._called[key]:
                by_dim = [numbers.setdefault((call.source, k), {}) for k in range(len(call.keys))]
                point = tuple([n.setdefault(text, len(n)) for n, text in zip(by_dim, call.keys, strict=True)])
                by_source.setdefault(call.source, []).append(point)
            self._points[key] = {source: tuple(points) for source, points in by_source.items()}
        return self._points[key]

    def _reached(self, func: str, number: int, inlined: frozenset[str]) -> frozenset[str]:
        """Return the inlined Funcs that a stage reads, directly or through others of them."""
        reached: set[str] = set()
        queue = list(self.bound.stage(func, number).sources)
        while queue:
            name = queue.pop()
            if name in inlined and name not in reached:
                reached.add(name)
                queue += self.bound.funcs[name].stages[0].sources
        return frozenset(reached)

    def _stage_loads(self, stage: BoundStage) -> tuple[_Load, ...]:
        key = stage.func, stage.number
        if key not in self._loads:
            self._loads[key] = tuple(load.without_results() for load in _interior_loads(self.bound, stage))
        return self._loads[key]

    def _enumerate(self, stage: BoundStage, inlined: frozenset[str]) -> tuple[StageAccesses, list[_Load]]:
        """Return the accesses of a stage, and the points at which it evaluates inlined Funcs."""
        seen: dict[tuple[object, ...], _Load] = {}
        points: dict[tuple[str, tuple[str, ...]], _Load] = {}
        queue = [self._stage_loads(stage)]
        overflow = False
        while queue:
            for load in queue.pop():
                if load.source not in inlined:
                    seen[load.source, load.component, load.keys] = load
                elif (load.source, load.keys) not in points:
                    points[load.source, load.keys] = load
                    if len(points) > MOST_POINTS:
                        overflow = True
                        break
                    if load.inside is None:
                        load.inside = self._inside(stage, load)
                    queue.append(load.inside)
        calls: dict[str, int] = {}
        for source, _ in points:
            calls[source] = calls.get(source, 0) + 1
        inside = interior(self.bound, stage)
        at = tuple(ix.substitute(i, inside) for i in stage.store)
        components = len(self.bound.funcs[stage.func].dtypes)
        stores = [_Load(stage.func, c, at) for c in range(components)]
        loads = self._grouped(stage, list(seen.values()))
        return StageAccesses(loads, self._grouped(stage, stores), calls, overflow), list(points.values())

    def _inside(self, stage: BoundStage, call: _Load) -> tuple[_Load, ...]:
        """Return the loads of an inlined Func at a point, cached for all sets of inlined Funcs."""
        key = stage.func, stage.number, call.source, call.keys, call.sure, call.clamped  # ranges are the stage's
        if key not in self._calls:
            self._calls[key] = self._loads_at(call)
        return self._calls[key]

    def _loads_at(self, call: _Load) -> tuple[_Load, ...]:
        func = self.bound.funcs[call.source]
        env = dict(zip(func.dims, call.index, strict=True))
        loads = []
        for p, (clamped, moved_by) in zip(self._stage_loads(func.stages[0]), self._dependence(call), strict=True):
            index = tuple([ix.substitute(i, env) for i in p.index])
            loads.append(_Load(p.source, p.component, index, p.sure and call.sure, clamped, moved_by))
        return tuple(loads)

    def _dependence(self, call: _Load) -> tuple[_Dependence, ...]:
        """Return ``clamped`` and ``moved_by`` of an inlined Func's loads, cached for calls with equal ones."""
        key = call.source, call.clamped, call.moved_by
        if key not in self._dependences:
            func = self.bound.funcs[call.source]
            called = dict(zip(func.dims, call.moved_by, strict=True))
            self._dependences[key] = tuple(
                (
                    _clamped_at(p, func.dims, call),
                    tuple(frozenset().union(*(called.get(n, {n}) for n in names)) for names in p.moved_by),
                )
                for p in self._stage_loads(func.stages[0])
            )
        return self._dependences[key]

    def _grouped(self, stage: BoundStage, accesses: list[_Load]) -> tuple[AccessGroup, ...]:
        groups: dict[tuple[object, ...], tuple[tuple[AccessRow | None, ...], dict[tuple[int, ...], None]]] = {}
        clamped: dict[tuple[object, ...], tuple[bool, ...]] = {}
        moved_by: dict[tuple[object, ...], tuple[frozenset[str], ...]] = {}
        for a in accesses:
            if a.form is None:
                a.form = self._form(stage, a)
            rows, offset, key = a.form
            _, offsets = groups.setdefault(key, (rows, {}))
            offsets[offset] = None
            moved_by.setdefault(key, a.moved_by)
            before = clamped.get(key, (False,) * len(a.index))
            current = a.clamped or before
            clamped[key] = tuple(b or o for b, o in zip(before, current, strict=True))
        return tuple(
            AccessGroup(str(key[0]), int(str(key[1])), rows, tuple(offsets), clamped[key], bool(key[4]), moved_by[key])
            for key, (rows, offsets) in groups.items()
        )

    def _form(self, stage: BoundStage, a: _Load) -> _Form:
        pairs = [self._row(stage, k, i, a.sure) for k, i in zip(a.keys, a.index, strict=True)]
        rows, kinds = tuple([row for row, _ in pairs]), tuple([kind for _, kind in pairs])
        offset = tuple([0 if r is None else r.constant for r in rows])
        unknown = tuple([k for k, r in zip(a.keys, rows, strict=True) if r is None])
        by_data = bool(unknown) and any(_depends_on_data(i) for i, r in zip(a.index, rows, strict=True) if r is None)
        return rows, offset, (a.source, a.component, kinds, unknown, by_data)

    def _row(self, stage: BoundStage, text: str, index: ix.Index, sure: bool) -> tuple[AccessRow | None, _Kind]:
        key = stage.func, stage.number, text, sure
        cached = self._rows.get(key)
        if cached is None:
            row = _row(index, sure)
            kind = None if row is None else (row.coefficients, row.quotient, row.exact)
            cached = self._rows[key] = row, kind
        return cached


def _interior_loads(bound: BoundPipeline, stage: BoundStage) -> tuple[_Load, ...]:
    """Return the distinct loads of a stage at the middle of its domain.

    They lie with the stage: rewrites share the stages that they do not change, and a search has many rewrites with
    cache reads. The middle follows from the region of the Func.
    """
    memo: dict[object, tuple[_Load, ...]] = vars(stage).setdefault("_interior_loads", {})
    region = bound.funcs[stage.func].region
    if region not in memo:
        inside = interior(bound, stage)
        loads: dict[tuple[object, ...], _Load] = {}
        doubtful = loads_never_taken(stage, inside)
        for load, source in stage.loads:
            whole = [stage.index_of(i) for i in load.indices]
            index = tuple(ix.substitute(i, inside) for i in whole)
            sure = all(same_loops(i, j) for i, j in zip(whole, index, strict=True)) and id(load) not in doubtful
            clamped = tuple(ix.key(i) != ix.key(j) for i, j in zip(whole, index, strict=True))
            one = _Load(source, load.component, index, sure, clamped, tuple(map(_loops_of, load.indices)))
            loads[source, load.component, one.keys] = one
        memo[region] = tuple(loads.values())
    return memo[region]


def _clamped_at(load: _Load, dims: Sequence[str], call: _Load) -> tuple[bool, ...]:
    """Return which indices of an inlined Func's load are clamped, in the Func or at the call."""
    moved = {d for d, c in zip(dims, call.clamped, strict=False) if c}
    in_func = load.clamped or (False,) * len(load.index)
    if not moved:
        return in_func
    return tuple(c or not moved.isdisjoint(ix.loop_vars(i)) for c, i in zip(in_func, load.index, strict=True))


def _row(index: ix.Index, sure: bool) -> AccessRow | None:
    if all(isinstance(t, ix.LoopVar) for t, _ in ix.terms_of(index)):  # the common case; fractions are slow
        constant = index.const if isinstance(index, ix.Affine) else index
        terms = [(t.name, c) for t, c in ix.terms_of(index) if isinstance(t, ix.LoopVar)]
        return AccessRow(tuple(sorted(terms)), constant, 1, exact=sure)
    form = form_of_index(_within_period(_without_clamps(index)))
    if form is None:
        return None
    q = math.lcm(form.constant.denominator, *(c.denominator for c in form.coefficients.values()))
    coefficients = tuple(sorted((name, int(c * q)) for name, c in form.coefficients.items()))
    floors = sum(isinstance(t, ix.Atom) for t in ix.atoms(index))
    # x + k//2 is the floor of the whole form, (2*x + k)//2
    alone = floors == 0 or (floors == 1 and all(c == 1 for t, c in ix.terms_of(index) if isinstance(t, ix.Atom)))
    clamped = any(isinstance(t, ix.Atom) and t.kind in ("min", "max", "mod") for t in ix.atoms(index))
    return AccessRow(coefficients, int(form.constant * q), q, sure and not clamped and (form.exact or alone))


def _within_period(index: ix.Index) -> ix.Index:
    """Replace remainders of long periods by their dividends, from which they differ by a constant in each period."""

    def dividend(atom: ix.Atom, args: Sequence[ix.Index]) -> ix.Index | None:
        return args[0] if atom.kind == "mod" and atom.payload >= LONG_PERIOD else None

    return ix.rewritten(index, dividend)


def _loops_of(index: Expr) -> frozenset[str]:
    """Return the loops in an index, those in indices of loaded data included."""
    return frozenset(node.name for node in walk(index) if isinstance(node, Var | RVar))


def _depends_on_data(index: ix.Index) -> bool:
    return any(isinstance(t, ix.Atom) and t.kind in ("data", "select") for t in ix.atoms(index))


def _without_clamps(index: ix.Index) -> ix.Index:
    """Replace minima and maxima with constants by their other argument, the value inside the bounds."""
    if not isinstance(index, ix.Affine):
        return index
    total: ix.Index = index.const
    for t, c in index.terms:
        part: ix.Index = ix.Affine(((t, 1),), 0)
        if isinstance(t, ix.Atom) and t.kind in ("min", "max"):
            moving = [a for a in t.args if isinstance(a, ix.Affine)]
            if len(moving) == 1:
                part = _without_clamps(moving[0])
        total = ix.add(total, ix.scale(part, c))
    return total
