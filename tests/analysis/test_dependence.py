"""Claims about loops are checked against all pairs of iterations, and by running iterations in allowed orders."""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autosched import Func, Input, RDom, Var, argmax, cast, clamp, float32, int32, undef
from autosched import max as max_
from autosched import min as min_
from autosched.analysis.access.dependence import UpdateDependences, update_dependences
from autosched.errors import DSLError

NAMES = ("a", "b", "c")
Index = Callable[..., Sequence]


@dataclasses.dataclass(frozen=True)
class Case:
    """An update ``f[store(loops)] = g(f[read(loops)], ...)``; the functions take RVars or integers."""

    ranges: tuple[tuple[int, int], ...]
    """Half-open, outermost loop first."""
    store: Index
    reads: tuple[Index, ...] = ()

    @property
    def loops(self):
        return tuple(f"r.{n}" for n in NAMES[: len(self.ranges)])

    @property
    def points(self):
        """All iterations in order."""
        return list(itertools.product(*(range(*bounds) for bounds in self.ranges)))

    def analyse(self) -> UpdateDependences:
        loops = RDom("r", **dict(zip(NAMES, self.ranges, strict=False))).vars
        point = tuple(self.store(*loops))
        f = Func("f")
        f[tuple(Var(f"d{axis}") for axis in range(len(point)))] = 0
        value = sum((k + 2) * f[tuple(read(*loops))] for k, read in enumerate(self.reads))
        f[point] = value + sum(cast(int32, v) for v in loops)
        ranges = {n: (lo, hi - 1) for n, (lo, hi) in zip(self.loops, self.ranges, strict=True)}
        return update_dependences(f, f.definitions[-1], ranges)

    def conflicts(self) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
        """All conflicting pairs of different iterations, by the definition."""
        stores = [(p, tuple(self.store(*p))) for p in self.points]
        touched = [(p, at) for p, at in stores]
        touched += [(p, tuple(read(*p))) for p in self.points for read in self.reads]
        return [(p, q) for p, at in stores for q, other in touched if p != q and at == other]

    def run(self, order) -> dict:
        """Run the iterations in the given order on distinct initial values; each stores a value of its own."""
        number = {p: k for k, p in enumerate(self.points)}
        f: dict = {}
        for p in order:
            values = [f.get(point, hash(point)) for point in (tuple(read(*p)) for read in self.reads)]
            f[tuple(self.store(*p))] = (number[p] + sum((k + 2) * v for k, v in enumerate(values))) % 1_000_003
        return f


@dataclasses.dataclass(frozen=True)
class At:
    """An index with one function of the loops for each axis."""

    axes: tuple[Callable, ...]

    def __call__(self, *loops):
        return [axis(*loops) for axis in self.axes]


def at(*axes) -> Index:
    return At(axes)


@dataclasses.dataclass(frozen=True)
class Axis:
    """``sum(coefficients * loops) + constant``, perhaps under a floor or remainder, plus ``outer``."""

    coefficients: tuple[int, ...]
    constant: int
    outer: int = 0
    kind: str = "plain"
    divisor: int = 1

    def __call__(self, *loops):
        inner = sum((c * v for c, v in zip(self.coefficients, loops, strict=True)), self.constant)
        if self.kind != "plain":
            inner = inner // self.divisor if self.kind == "div" else inner % self.divisor
        return inner + self.outer


def interleaved(case: Case, points, parallel, rng) -> list:
    """Spread iterations over one thread for each value of the parallel loops, threads advancing at random."""
    threads: dict = {}
    for p in points:
        threads.setdefault(tuple(p[k] for k, n in enumerate(case.loops) if n in parallel), []).append(p)
    queues = [iter(t) for t in threads.values()]
    turns = [k for k, t in enumerate(threads.values()) for _ in t]
    rng.shuffle(turns)
    return [next(queues[k]) for k in turns]


def check(case: Case) -> UpdateDependences:
    """Compare all claims with enumeration; they must be exact."""
    found = case.analyse()
    pairs = case.conflicts()

    def differing(pairs):
        return {n for p, q in pairs for k, n in enumerate(case.loops) if p[k] != q[k]}

    assert found.carried == differing(pairs)
    assert found.parallel == set(case.loops) - found.carried
    assert found.owns_point == all(case.store(*p) == read(*p) for p in case.points for read in case.reads)

    carried = [n for n in case.loops if n in found.carried]
    steps, gained = [], set()
    for count in range(1, len(carried)):
        fixed = [case.loops.index(n) for n in carried[:count]]
        gained = set(carried[count:]) - differing([(p, q) for p, q in pairs if all(p[k] == q[k] for k in fixed)])
        if gained:
            steps = carried[:count]
            break
    assert found.steps == tuple(steps)
    assert found.parallel_within_step == found.parallel | gained

    rng = random.Random(0)
    expected = case.run(case.points)
    assert case.run(interleaved(case, case.points, found.parallel, rng)) == expected
    if steps:
        key = [case.loops.index(n) for n in steps]
        groups: dict = {}
        for p in case.points:
            groups.setdefault(tuple(p[k] for k in key), []).append(p)
        order = [p for step in sorted(groups) for p in interleaved(case, groups[step], found.parallel_within_step, rng)]
        assert case.run(order) == expected
    return found


def two(*ranges):
    return ranges or ((0, 4), (0, 5))


EXAMPLES = {
    "in place": (Case(two(), at(lambda y, x: y, lambda y, x: x), (at(lambda y, x: y, lambda y, x: x),)), "ab", "", ""),
    "prefix": (
        Case(two(), at(lambda y, x: y, lambda y, x: x), (at(lambda y, x: y, lambda y, x: x - 1),)), "a", "", "",
    ),
    "column maxima": (Case(two(), at(lambda y, x: x), (at(lambda y, x: x),)), "b", "", ""),
    "evens from odds": (Case(((0, 9),), at(lambda x: 2 * x), (at(lambda x: 2 * x + 1),)), "a", "", ""),
    "reversal": (Case(((0, 9),), at(lambda x: x), (at(lambda x: 8 - x),)), "", "", ""),
    "reversal of one": (Case(((0, 1),), at(lambda x: x), (at(lambda x: 0 - x),)), "a", "", ""),
    "upper half to lower": (Case(((0, 8),), at(lambda x: x), (at(lambda x: x + 8),)), "a", "", ""),
    "overlapping halves": (Case(((0, 8),), at(lambda x: x), (at(lambda x: x + 7),)), "", "", ""),
    "diagonals": (Case(two(), at(lambda y, x: y + x), (at(lambda y, x: y + x),)), "", "a", "b"),
    "flattened": (Case(two(), at(lambda y, x: 5 * y + x), (at(lambda y, x: 5 * y + x),)), "ab", "", ""),
    "flattened, rows overlap": (Case(two(), at(lambda y, x: 4 * y + x)), "", "a", "b"),
    "table of maxima": (
        Case(((1, 4), (0, 6)), at(lambda t, y: y, lambda t, y: t), (
            at(lambda t, y: y, lambda t, y: t - 1), at(lambda t, y: y + 2, lambda t, y: t - 1))), "", "a", "b",
    ),
    "table of maxima, level inside": (
        Case(((0, 6), (1, 4)), at(lambda y, t: y, lambda y, t: t), (at(lambda y, t: y + 2, lambda y, t: t - 1),)),
        "", "a", "b",
    ),
    "two buffers": (
        Case(((0, 4), (0, 6)), at(lambda t, x: t % 2, lambda t, x: x), (
            at(lambda t, x: (t + 1) % 2, lambda t, x: x - 1), at(lambda t, x: (t + 1) % 2, lambda t, x: x + 1))),
        "", "a", "b",
    ),
    "Gauss-Seidel": (
        Case(two(), at(lambda y, x: y, lambda y, x: x), (
            at(lambda y, x: y - 1, lambda y, x: x), at(lambda y, x: y, lambda y, x: x - 1))), "", "", "",
    ),
    "elimination": (
        Case(((0, 3),) * 3, at(lambda k, i, j: i, lambda k, i, j: j), (
            at(lambda k, i, j: i, lambda k, i, j: j), at(lambda k, i, j: i, lambda k, i, j: k),
            at(lambda k, i, j: k, lambda k, i, j: j))), "", "", "",
    ),
    "step in the middle": (
        Case(((0, 2), (0, 3), (0, 4)), at(lambda a, b, c: a, lambda a, b, c: c), (
            at(lambda a, b, c: a, lambda a, b, c: c + 1),)), "a", "", "",
    ),
    "pairs": (Case(((0, 8),), at(lambda x: x // 2)), "", "", ""),
    "halves apart": (Case(((0, 8),), at(lambda x: x), (at(lambda x: x // 2 + 8),)), "a", "", ""),
    "empty": (Case(((0, 0), (0, 5)), at(lambda y, x: y - y)), "ab", "", ""),
    "one iteration": (Case(((3, 4), (2, 3)), at(lambda y, x: y), (at(lambda y, x: x + 1),)), "ab", "", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples(name):
    case, parallel, steps, gained = EXAMPLES[name]
    found = check(case)
    assert found.parallel == {f"r.{n}" for n in parallel}
    assert found.steps == tuple(f"r.{n}" for n in steps)
    assert found.parallel_within_step - found.parallel == {f"r.{n}" for n in gained}


def axes(loops):
    return st.builds(
        Axis,
        coefficients=st.tuples(*[st.integers(-3, 3)] * loops),
        constant=st.integers(-6, 6),
        outer=st.integers(-1, 1),
        kind=st.sampled_from(["plain", "plain", "div", "mod"]),
        divisor=st.integers(2, 4),
    )


@st.composite
def cases(draw):
    loops, ndim = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    ranges = tuple((lo, lo + draw(st.integers(1, 4))) for lo in (draw(st.integers(-2, 3)) for _ in range(loops)))
    accesses = [at(*(draw(axes(loops)) for _ in range(ndim))) for _ in range(draw(st.integers(1, 3)))]
    return Case(ranges, accesses[0], tuple(accesses[1:]))


@settings(max_examples=250, deadline=None)
@given(cases())
def test_random_accesses_agree_with_enumeration(case):
    check(case)


@st.composite
def shifted_cases(draw):
    """Stencils in place: each loop at its own axis in any order, reads shifted; the usual sources of steps."""
    loops = draw(st.integers(2, 3))
    order = draw(st.permutations(range(loops)))
    shift = st.lists(st.integers(-1, 1), min_size=loops, max_size=loops)
    shifts = draw(st.lists(shift, min_size=1, max_size=3))

    def shifted(by):
        return at(*(Axis(tuple(int(k == j) for j in range(loops)), d) for k, d in zip(order, by, strict=True)))

    ranges = tuple((0, draw(st.integers(1, 4))) for _ in range(loops))
    return Case(ranges, shifted([0] * loops), tuple(shifted(s) for s in shifts))


@settings(max_examples=150, deadline=None)
@given(shifted_cases())
def test_random_stencils_in_place_agree_with_enumeration(case):
    check(case)


y, x = Var("y"), Var("x")
gray = Input("gray", "uint8", 2)
picture = Input("picture", float32, 2)


def analyse(f, **pure):
    d = f.definitions[-1]
    ranges = {r.name: (int(r.lower.value), int(r.upper.value) - 1) for r in d.rvars}
    return update_dependences(f, d, ranges | pure)


def table(ndim, dtype=float32):
    f = Func("f")
    f[(y, x)[2 - ndim :]] = cast(dtype, 0)
    return f


r = RDom("r", y=1500, x=2560)


def test_histogram():
    f = table(1, int32)
    f[gray[r.y, r.x]] += 1
    found = analyse(f)
    assert found.carried == {"r.y", "r.x"}
    assert found.associative and found.owns_point and found.scatter
    assert found.steps == ()


@pytest.mark.parametrize("flat", [False, True])
def test_histogram_rows_are_independent(flat):
    f = table(1 if flat else 2, int32)
    bin_ = cast(int32, gray[r.y, r.x])
    f[256 * r.y + bin_ if flat else (r.y, bin_)] += 1
    found = analyse(f)
    assert found.parallel == {"r.y"}
    assert found.associative and found.owns_point and found.scatter


def test_flat_histogram_with_rows_too_short():
    f = table(1, int32)
    f[255 * r.y + cast(int32, gray[r.y, r.x])] += 1
    assert analyse(f).carried == {"r.y", "r.x"}


def test_scatter_that_reads_a_neighbour():
    f = table(1, int32)
    f[gray[r.y, r.x]] = f[cast(int32, gray[r.y, r.x]) + 1]
    found = analyse(f)
    assert found.carried == {"r.y", "r.x"}
    assert not found.owns_point and not found.associative


def test_pure_loops_are_parallel_and_agree_between_conflicting_iterations():
    s = RDom("s", k=(1, 10))
    f = table(2)
    f[y, s.k] = f[y, s.k - 1 + 20 * y] + picture[y, s.k]  # reads points that its own row stores only for y == 0
    assert analyse(f).carried == {"s.k"}
    assert analyse(f).parallel == {"y"}
    assert analyse(f, y=(1, 99)).parallel == {"y", "s.k"}


def test_data_that_is_constant_within_a_step():
    order = Input("order", "uint16", 1)
    s = RDom("s", t=20, x=(1, 99))
    row = cast(int32, order[s.t])
    f = table(2)
    f[row, s.x] = f[row + 1, s.x - 1] + 1.0
    found = analyse(f)
    assert found.carried == {"s.t", "s.x"}
    assert (found.steps, found.parallel_within_step) == (("s.t",), {"s.x"})


def test_data_read_from_the_func_itself_is_not_constant():
    s = RDom("s", t=20, x=(1, 99))
    f = table(2, int32)
    f[f[0, s.t] % 8, s.x] = f[f[0, s.t] % 8 + 1, s.x - 1] + 1
    assert analyse(f).steps == ()


def test_clamped_reads_stay_within_their_bounds():
    s = RDom("s", x=8)
    f = table(1)
    f[s.x + 8] = f[max_(min_(s.x + 2, 7), 0)]
    assert analyse(f).parallel == {"s.x"}
    f[s.x + 7] = f[max_(min_(s.x + 2, 7), 0)]
    assert analyse(f).carried == {"s.x"}


def test_whole_images_are_decided_without_enumeration():
    f = table(1)
    f[2560 * r.y + r.x] = f[2560 * r.y + r.x + 2560 * 1500] * 2.0
    assert analyse(f).parallel == {"r.y", "r.x"}
    f[6 * r.y + 4 * r.x] = f[2 * r.x + 10 * r.y + 3]
    found = analyse(f)
    assert found.carried == {"r.y", "r.x"} and found.scatter


def test_scalar_sum():
    total = Func("total")
    total[()] = 0.0
    total[()] = total[()] + picture[r.y, r.x]
    found = analyse(total)
    assert found.carried == {"r.y", "r.x"}
    assert found.associative and found.owns_point and not found.scatter


def test_argmax_owns_its_point_but_is_not_associative():
    k = RDom("k", x=16)
    found = analyse(argmax(picture[y, k.x], over=k)[0].source)
    assert found.carried == {"k.x"} and found.parallel == {"y"}
    assert found.owns_point and not found.associative and not found.scatter


def test_pure_definitions_carry_nothing():
    f = Func("f")
    f[y, x] = picture[y, x]
    found = update_dependences(f, f.definitions[0], {})
    assert found.parallel == {"y", "x"} and not found.carried and found.owns_point and not found.associative
    g = Func("g")
    g[y, x] = undef(float32)
    assert update_dependences(g, g.definitions[0], {}).parallel == {"y", "x"}


COLUMNS = range(-9, 10)
"""Columns that include a conflicting pair for each of the offsets below."""

Row = tuple[int, int, int]
"""Coefficients of two reduction loops, and a constant."""


@st.composite
def scans(draw) -> tuple[tuple[int, int], Row, list[tuple[Row, tuple[int, int, int]]]]:
    """Extents of two loops, the row written, and rows read with ``sign * x + offset + slope * r.a`` as columns."""
    row = st.tuples(*[st.integers(-1, 2)] * 2, st.integers(-2, 2))
    column = st.tuples(st.sampled_from([1, -1]), st.integers(-2, 2), st.integers(-1, 1))
    reads = draw(st.lists(st.tuples(row, column), min_size=1, max_size=2))
    return draw(st.tuples(st.integers(1, 3), st.integers(1, 3))), draw(row), reads


def row_of(row: Row, loops):
    return row[0] * loops[0] + row[1] * loops[1] + row[2]


@settings(max_examples=150, deadline=None)
@given(scans())
def test_moved_columns_agree_with_enumeration(scan):
    extents, store, reads = scan
    s = RDom("s", a=extents[0], b=extents[1])
    loops = tuple(s.vars)
    f = table(2, int32)
    values = [f[row_of(row, loops), sign * x + offset + slope * s.a] for row, (sign, offset, slope) in reads]
    try:
        f[row_of(store, loops), x] = sum(values) + s.b
    except DSLError:  # that a row reads itself is plain
        assert any(row == store for row, _ in reads)
        return
    found = analyse(f)

    iterations = list(itertools.product(range(extents[0]), range(extents[1]), COLUMNS))
    stored = {(row_of(store, p), p[2]): [] for p in iterations}
    for p in iterations:
        stored[row_of(store, p), p[2]].append(p)
    touched = [(p, (row_of(store, p), p[2])) for p in iterations]
    touched += [
        (p, (row_of(row, p), sign * p[2] + offset + slope * p[0]))
        for p in iterations for row, (sign, offset, slope) in reads
    ]  # fmt: skip
    conflicts = [(p, q) for q, at in touched for p in stored.get(at, ()) if p != q]
    names = ("s.a", "s.b", "x")

    def differing(pairs):
        return {n for p, q in pairs for k, n in enumerate(names) if p[k] != q[k]}

    assert found.carried == differing(conflicts)
    same = [(p, q) for p, q in conflicts if p[:2] == q[:2]]
    assert found.unordered == differing(same)
    if "x" in found.carried and not found.unordered:
        carried = [n for n in names[:2] if n in found.carried]
        for count in range(1, len(carried) + 1):
            fixed = [names.index(n) for n in carried[:count]]
            left = differing([(p, q) for p, q in conflicts if all(p[k] == q[k] for k in fixed)])
            if "x" not in left:
                assert found.steps == tuple(carried[:count])
                assert found.parallel_within_step - found.parallel == found.carried - set(found.steps) - left
                break
        else:
            raise AssertionError("x conflicts within a step")


def test_data_dependent_reads_of_the_previous_row():
    s = RDom("s", y=(1, 99))
    f = table(2)
    f[s.y, x] = f[s.y - 1, clamp(x + cast(int32, gray[s.y, x]) - 3, 0, 99)] + 1.0
    found = analyse(f)
    assert (found.steps, found.carried, found.unordered) == (("s.y",), {"s.y", "x"}, frozenset())
    f[s.y, x] = f[s.y - cast(int32, gray[s.y, x]), clamp(x + 1, 0, 99)] + 1.0  # 0 rows back, perhaps
    assert analyse(f).unordered == {"x"}
    f[s.y, x] = f[s.y - 1 - cast(int32, gray[s.y, x]), clamp(x + 1, 0, 99)] + 1.0
    assert analyse(f).steps == ("s.y",)


def test_a_maximum_over_states_of_the_time_before():
    s = RDom("s", t=(1, 20), k=30)
    f = table(2)
    f[s.t, x] = max_(f[s.t, x], f[s.t - 1, s.k] + picture[s.k, x])
    found = analyse(f)
    assert found.steps == ("s.t",) and found.parallel_within_step == {"x"} and found.carried == {"s.t", "s.k", "x"}


def test_fixed_rows_elsewhere_leave_columns_parallel():
    f = table(2)
    f[0, x] = f[1, x + 1] + 1.0
    assert analyse(f).parallel == {"x"}
