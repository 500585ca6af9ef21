"""What one evaluation of a stage reads, inlined Funcs looked through, and how the addresses move with its loops."""

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
"""An inlined Func evaluated at more points than this by one stage ends the enumeration; searches prune such states."""


@dataclass(frozen=True, slots=True)
class AccessRow:
    """One index of an access as ``(sum(coefficients * loop) + constant) // quotient``.

    ``exact`` says whether that is the value at every interior point, and one that code for any block has; floors inside
    sums are taken together.
    """

    coefficients: tuple[tuple[str, int], ...]
    constant: int
    quotient: int
    exact: bool


@dataclass(frozen=True, slots=True)
class AccessGroup:
    """Accesses of one array whose addresses differ by constants only.

    Attributes:
        source: Name of the Func or input.
        component: Tuple component.
        rows: Coefficients and quotient for each dimension of the source; None where the index is not affine.
        offsets: The constants of every access, one tuple a distinct access.
        clamped: For each dimension of the source whether something falls out of the index in the middle of the loops'
            ranges, a clamp, say.
        by_data: Whether an index depends on what is loaded.
        moved_by: For each dimension of the source, the loops that its index is computed from, those around data that it
            depends on included; empty where they are not known.
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
        """Whether nothing falls out of any index."""
        return not any(self.clamped)

    @property
    def is_affine(self) -> bool:
        """Whether every index is affine."""
        return None not in self.rows

    @property
    def is_exact(self) -> bool:
        """Whether the form gives the address of every interior point."""
        return all(r is not None and r.exact for r in self.rows)

    def loops(self) -> frozenset[str]:
        """Names of the loops the address depends on, as far as it is affine."""
        return frozenset(name for r in self.rows if r is not None for name, _ in r.coefficients)


@dataclass(frozen=True)
class StageAccesses:
    """What one evaluation of a stage touches.

    Attributes:
        loads: Groups of loads, without those of inlined Funcs, which are looked through.
        stores: Groups of stores, one for each tuple component.
        calls: Distinct points at which each inlined Func is evaluated.
        overflow: Whether there were more than `MOST_POINTS` of them, so that the lists are cut short.
    """

    loads: tuple[AccessGroup, ...]
    stores: tuple[AccessGroup, ...]
    calls: Mapping[str, int]
    overflow: bool


Points = tuple[tuple[int, ...], ...]
"""Distinct points at which a Func is evaluated: for each dimension a number, the same for equal indices."""
_Kind = tuple[object, ...] | None
"""What a row has in common with those that differ by a constant; None where an index is not affine."""
_Way = tuple[tuple[bool, ...], tuple[frozenset[str], ...]]
"""``clamped`` and ``moved_by`` of a load."""
_Form = tuple[tuple[AccessRow | None, ...], tuple[int, ...], tuple[object, ...]]
"""Rows of a load, its constants, and what it has in common with others of its group."""


@dataclass(eq=False)
class _Load:
    """A load at symbolic indices; never changed, and not frozen only because searches make very many.

    ``sure`` says that no loop fell out of them in the middle of its range, ``clamped`` of which something did, and
    ``moved_by`` the loops that each is computed from. A load is of one stage only; once they are known, ``inside`` are
    the loads of the inlined Func that is loaded, and ``form`` is what groups loads.
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
        """Texts that are equal for equal indices."""
        return tuple(map(ix.key, self.index))


@dataclass
class AccessTable:
    """Accesses of a pipeline's stages for any choice of inlined Funcs, worked out once each."""

    bound: BoundPipeline
    _found: dict[tuple[str, int, frozenset[str]], StageAccesses] = field(default_factory=dict)
    _called: dict[tuple[str, int, frozenset[str]], list[_Load]] = field(default_factory=dict)
    _points: dict[tuple[str, int, frozenset[str]], dict[str, Points]] = field(default_factory=dict)
    _loads: dict[tuple[str, int], tuple[_Load, ...]] = field(default_factory=dict)
    _calls: dict[tuple[object, ...], tuple[_Load, ...]] = field(default_factory=dict)
    _of_calls: dict[tuple[object, ...], tuple[_Way, ...]] = field(default_factory=dict)
    _rows: dict[tuple[str, int, str, bool], tuple[AccessRow | None, _Kind]] = field(default_factory=dict)

    def of(self, func: str, number: int, inlined: frozenset[str]) -> StageAccesses:
        """Return the accesses of a stage when these Funcs are inlined."""
        reached = self._reached(func, number, inlined)
        key = func, number, reached
        if key not in self._found:
            self._found[key], self._called[key] = self._enumerate(self.bound.stage(func, number), reached)
        return self._found[key]

    def called_by(self, func: str, number: int, inlined: frozenset[str]) -> tuple[AccessGroup, ...]:
        """Return the points at which a stage evaluates inlined Funcs; the arguments are those of `of`."""
        self.of(func, number, inlined)
        called = self._called[func, number, self._reached(func, number, inlined)]
        return self._grouped(self.bound.stage(func, number), called)

    def distinct_calls(self, func: str, number: int, inlined: frozenset[str]) -> Mapping[str, Points]:
        """Return where a stage evaluates each inlined Func; the arguments are those of `of`.

        Returns:
            For each Func one tuple a distinct point: for each dimension a number, the same for equal indices.
        """
        self.of(func, number, inlined)
        key = func, number, self._reached(func, number, inlined)
        if key not in self._points:
            numbers: dict[tuple[str, int], dict[str, int]] = {}
            found: dict[str, list[tuple[int, ...]]] = {}
            for call in self._called[key]:
                known = [numbers.setdefault((call.source, k), {}) for k in range(len(call.keys))]
                point = tuple([n.setdefault(text, len(n)) for n, text in zip(known, call.keys, strict=True)])
                found.setdefault(call.source, []).append(point)
            self._points[key] = {source: tuple(points) for source, points in found.items()}
        return self._points[key]

    def _reached(self, func: str, number: int, inlined: frozenset[str]) -> frozenset[str]:
        found: set[str] = set()
        queue = list(self.bound.stage(func, number).sources)
        while queue:
            name = queue.pop()
            if name in inlined and name not in found:
                found.add(name)
                queue += self.bound.funcs[name].stages[0].sources
        return frozenset(found)

    def _stage_loads(self, stage: BoundStage) -> tuple[_Load, ...]:
        key = stage.func, stage.number
        if key not in self._loads:
            inside = interior(self.bound, stage)
            found: dict[tuple[object, ...], _Load] = {}
            doubtful = loads_never_taken(stage, inside)
            for load, source in stage.loads:
                whole = [stage.index_of(i) for i in load.indices]
                index = tuple(ix.substitute(i, inside) for i in whole)
                sure = all(same_loops(i, j) for i, j in zip(whole, index, strict=True)) and id(load) not in doubtful
                clamped = tuple(ix.key(i) != ix.key(j) for i, j in zip(whole, index, strict=True))
                one = _Load(source, load.component, index, sure, clamped, tuple(map(_loops_of, load.indices)))
                found[source, load.component, one.keys] = one
            self._loads[key] = tuple(found.values())
        return self._loads[key]

    def _enumerate(self, stage: BoundStage, inlined: frozenset[str]) -> tuple[StageAccesses, list[_Load]]:
        """Return what a stage accesses, and the points at which it evaluates inlined Funcs."""
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
        """Return the loads of an inlined Func evaluated at a point; other choices of inlined Funcs meet it again."""
        key = stage.func, stage.number, call.source, call.keys, call.sure, call.clamped  # ranges are the stage's
        if key not in self._calls:
            self._calls[key] = self._loads_at(call)
        return self._calls[key]

    def _loads_at(self, call: _Load) -> tuple[_Load, ...]:
        func = self.bound.funcs[call.source]
        env = dict(zip(func.dims, call.index, strict=True))
        found = []
        for p, (clamped, moved_by) in zip(self._stage_loads(func.stages[0]), self._ways(call), strict=True):
            index = tuple([ix.substitute(i, env) for i in p.index])
            found.append(_Load(p.source, p.component, index, p.sure and call.sure, clamped, moved_by))
        return tuple(found)

    def _ways(self, call: _Load) -> tuple[_Way, ...]:
        """Return what loads of an inlined Func have in common with those of other calls at neighbouring points."""
        key = call.source, call.clamped, call.moved_by
        if key not in self._of_calls:
            func = self.bound.funcs[call.source]
            called = dict(zip(func.dims, call.moved_by, strict=True))
            self._of_calls[key] = tuple(
                (
                    _clamped_at(p, func.dims, call),
                    tuple(frozenset().union(*(called.get(n, {n}) for n in names)) for names in p.moved_by),
                )
                for p in self._stage_loads(func.stages[0])
            )
        return self._of_calls[key]

    def _grouped(self, stage: BoundStage, accesses: list[_Load]) -> tuple[AccessGroup, ...]:
        groups: dict[tuple[object, ...], tuple[tuple[AccessRow | None, ...], dict[tuple[int, ...], None]]] = {}
        clamped: dict[tuple[object, ...], tuple[bool, ...]] = {}
        moved_by: dict[tuple[object, ...], tuple[frozenset[str], ...]] = {}
        for a in accesses:
            if a.form is None:
                a.form = self._form(stage, a)
            rows, offset, key = a.form
            known = groups.setdefault(key, (rows, {}))
            known[1][offset] = None
            moved_by.setdefault(key, a.moved_by)
            before = clamped.get(key, (False,) * len(a.index))
            own = a.clamped or before
            clamped[key] = tuple(b or o for b, o in zip(before, own, strict=True))
        return tuple(
            AccessGroup(str(key[0]), int(str(key[1])), rows, tuple(offsets), clamped[key], bool(key[4]), moved_by[key])
            for key, (rows, offsets) in groups.items()
        )

    def _form(self, stage: BoundStage, a: _Load) -> _Form:
        found = [self._row(stage, k, i, a.sure) for k, i in zip(a.keys, a.index, strict=True)]
        rows, kinds = tuple([row for row, _ in found]), tuple([kind for _, kind in found])
        offset = tuple([0 if r is None else r.constant for r in rows])
        unknown = tuple([k for k, r in zip(a.keys, rows, strict=True) if r is None])
        by_data = bool(unknown) and any(_depends_on_data(i) for i, r in zip(a.index, rows, strict=True) if r is None)
        return rows, offset, (a.source, a.component, kinds, unknown, by_data)

    def _row(self, stage: BoundStage, text: str, index: ix.Index, sure: bool) -> tuple[AccessRow | None, _Kind]:
        key = stage.func, stage.number, text, sure
        found = self._rows.get(key)
        if found is None:
            row = _row(index, sure)
            kind = None if row is None else (row.coefficients, row.quotient, row.exact)
            found = self._rows[key] = row, kind
        return found


def _clamped_at(load: _Load, dims: Sequence[str], call: _Load) -> tuple[bool, ...]:
    """Return which indices of a load of an inlined Func are clamped, by itself or where the Func is called."""
    moved = {d for d, c in zip(dims, call.clamped, strict=False) if c}
    own = load.clamped or (False,) * len(load.index)
    if not moved:
        return own
    return tuple(c or not moved.isdisjoint(ix.loop_vars(i)) for c, i in zip(own, load.index, strict=True))


def _row(index: ix.Index, sure: bool) -> AccessRow | None:
    if all(isinstance(t, ix.LoopVar) for t, _ in ix.terms_of(index)):  # most are, and fractions are slow
        constant = index.const if isinstance(index, ix.Affine) else index
        own = [(t.name, c) for t, c in ix.terms_of(index) if isinstance(t, ix.LoopVar)]
        return AccessRow(tuple(sorted(own)), constant, 1, exact=sure)
    form = form_of_index(_without_clamps(index))
    if form is None:
        return None
    q = math.lcm(form.constant.denominator, *(c.denominator for c in form.coefficients.values()))
    coefficients = tuple(sorted((name, int(c * q)) for name, c in form.coefficients.items()))
    floors = sum(isinstance(t, ix.Atom) for t in ix.atoms(index))
    alone = floors == 0 or (floors == 1 and len(ix.terms_of(index)) == 1 and ix.terms_of(index)[0][1] == 1)
    clamped = any(isinstance(t, ix.Atom) and t.kind in ("min", "max") for t in ix.atoms(index))
    return AccessRow(coefficients, int(form.constant * q), q, sure and not clamped and (form.exact or alone))


def _loops_of(index: Expr) -> frozenset[str]:
    """Return the loops that an index is computed from, those around data that it depends on included."""
    return frozenset(node.name for node in walk(index) if isinstance(node, Var | RVar))


def _depends_on_data(index: ix.Index) -> bool:
    return any(isinstance(t, ix.Atom) and t.kind in ("data", "select") for t in ix.atoms(index))


def _without_clamps(index: ix.Index) -> ix.Index:
    """Replace minima and maxima with constants by their other side: few threads are beyond the edge."""
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
