"""Symbolic indices against direct evaluation of the formula they were built from."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autosched.analysis.indices import index as ix

RANGES = {"p": (0, 3), "q": (-4, 1), "r": (5, 7), "one": (2, 2)}
POINTS = [dict(zip(RANGES, v, strict=True)) for v in itertools.product(*(range(a, b + 1) for a, b in RANGES.values()))]
BINARY: Mapping[str, tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]] = {
    "add": (ix.add, lambda a, b: a + b),
    "sub": (ix.sub, lambda a, b: a - b),
    "min": (ix.minimum, np.minimum),
    "max": (ix.maximum, np.maximum),
    "mul": (ix.multiply, lambda a, b: a * b),
}
BY_CONSTANT: Mapping[str, tuple[Callable[[Any, int], Any], Callable[[Any, int], Any]]] = {
    "scale": (ix.scale, lambda a, c: a * c),
    "floordiv": (ix.floordiv, lambda a, c: a // c),
    "mod": (ix.mod, lambda a, c: a % c),
}
Tree = Any


def trees(depth: int = 4) -> st.SearchStrategy[Tree]:
    leaf = st.one_of(st.sampled_from(sorted(RANGES)), st.integers(-6, 6))
    if depth == 0:
        return leaf
    inner = trees(depth - 1)
    return st.one_of(
        leaf,
        st.tuples(st.sampled_from(sorted(BINARY)), inner, inner),
        st.tuples(st.sampled_from(["floordiv", "mod"]), inner, st.integers(1, 7)),
        st.tuples(st.just("scale"), inner, st.integers(-3, 3)),
    )


def built(tree: Tree) -> ix.Index:
    """Return a tree as a symbolic index, simplified on the way."""
    if isinstance(tree, str):
        return ix.var(tree, *RANGES[tree])
    if isinstance(tree, int):
        return tree
    op, a, b = tree
    return BINARY[op][0](built(a), built(b)) if op in BINARY else BY_CONSTANT[op][0](built(a), b)  # type: ignore[no-any-return]


def evaluated(tree: Tree, env: Mapping[str, Any]) -> Any:
    if isinstance(tree, str):
        return env[tree]
    if isinstance(tree, int):
        return tree
    op, a, b = tree
    if op in BINARY:
        return BINARY[op][1](evaluated(a, env), evaluated(b, env))
    return BY_CONSTANT[op][1](evaluated(a, env), b)


def columns(points: list[dict[str, int]] = POINTS) -> dict[str, np.ndarray[Any, Any]]:
    return {name: np.array([p[name] for p in points]) for name in RANGES}


@settings(max_examples=300, deadline=None)
@given(trees())
def test_simplification_keeps_the_value(tree: Tree) -> None:
    e, env = built(tree), columns()
    expected = np.broadcast_to(evaluated(tree, env), len(POINTS))
    found = np.broadcast_to(ix.evaluate(e, env), len(POINTS))
    assert (found == expected).all()
    lo, hi = ix.interval(e)
    assert lo <= expected.min() and expected.max() <= hi


@settings(max_examples=100, deadline=None)
@given(trees())
def test_arrays_and_scalars_agree(tree: Tree) -> None:
    e = built(tree)
    found = np.broadcast_to(ix.evaluate(e, columns()), len(POINTS))
    for k in range(0, len(POINTS), 17):
        value = ix.evaluate(e, POINTS[k])
        assert not isinstance(value, ix.Affine) and value == found[k]


@settings(max_examples=200, deadline=None)
@given(trees(3), trees(2), trees(2))
def test_substitution(tree: Tree, for_p: Tree, for_q: Tree) -> None:
    into = {n: ix.minimum(ix.maximum(built(t), RANGES[n][0]), RANGES[n][1]) for n, t in (("p", for_p), ("q", for_q))}
    replaced = ix.substitute(built(tree), into)
    env = columns()
    inner = {
        **env,
        "p": np.clip(evaluated(for_p, env), *RANGES["p"]),
        "q": np.clip(evaluated(for_q, env), *RANGES["q"]),
    }
    expected = np.broadcast_to(evaluated(tree, inner), len(POINTS))
    assert (np.broadcast_to(ix.evaluate(replaced, env), len(POINTS)) == expected).all()


boxes = st.fixed_dictionaries(
    {name: st.lists(st.integers(a, b), min_size=2, max_size=2).map(sorted) for name, (a, b) in RANGES.items()}
)


def inside(box: Mapping[str, list[int]]) -> list[dict[str, int]]:
    return [p for p in POINTS if all(lo <= p[n] <= hi for n, (lo, hi) in box.items())]


@settings(max_examples=300, deadline=None)
@given(trees(), boxes)
def test_bounds_hold_everything(tree: Tree, box: dict[str, list[int]]) -> None:
    lo, hi = ix.bounds(built(tree), {n: (a, b) for n, (a, b) in box.items()})
    values = np.broadcast_to(evaluated(tree, columns(inside(box))), len(inside(box)))
    assert lo <= values.min() and values.max() <= hi


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(sorted(RANGES)), st.integers(-3, 3)), max_size=4), st.integers(-5, 5), boxes,
    st.integers(1, 5),
)  # fmt: skip
def test_bounds_of_affine_indices_and_their_quotients_are_exact(
    terms: list[tuple[str, int]], const: int, box: dict[str, list[int]], divisor: int
) -> None:
    e: ix.Index = const
    for name, c in terms:
        e = ix.add(e, ix.scale(ix.var(name, *RANGES[name]), c))
    env = {n: (a, b) for n, (a, b) in box.items()}
    values = ix.evaluate(e, columns(inside(box))) if isinstance(e, ix.Affine) else np.array([e])
    assert ix.bounds(e, env) == (values.min(), values.max())
    assert ix.bounds(ix.floordiv(e, divisor), env) == (values.min() // divisor, values.max() // divisor)


@settings(max_examples=100, deadline=None)
@given(trees(), st.lists(boxes, min_size=1, max_size=6))
def test_bounds_of_many_boxes_at_once(tree: Tree, many: list[dict[str, list[int]]]) -> None:
    e = built(tree)
    ends = {n: tuple(np.array([box[n][side] for box in many]) for side in (0, 1)) for n in RANGES}
    found = [np.broadcast_to(v, len(many)).tolist() for v in ix.bounds(e, ends)]
    expected = [ix.bounds(e, {n: (a, b) for n, (a, b) in box.items()}) for box in many]
    assert list(zip(*found, strict=True)) == expected


@settings(max_examples=200, deadline=None)
@given(trees(3), st.integers(0, 2), st.integers(0, 3))
def test_symbolic_bounds_hold_at_every_value_of_the_outer_loop(tree: Tree, before: int, width: int) -> None:
    """As in a tile: p and q follow an outer loop t."""
    t = ix.var("t", 0, 1)
    env = {
        "p": (ix.add(t, 1), ix.add(t, 1 + width % 2)),
        "q": (ix.sub(ix.scale(t, -2), before), ix.sub(width, 2)) if before + 2 <= 4 else (-4, 1),
    }
    lo, hi = ix.bounds(built(tree), env)
    for at in (0, 1):
        ends = {
            n: tuple(ix.evaluate(e, {"t": at}) if isinstance(e, ix.Affine) else e for e in r) for n, r in env.items()
        }
        points = [p for p in POINTS if all(a <= p[n] <= b for n, (a, b) in ends.items())]
        if not points:
            continue
        values = np.broadcast_to(evaluated(tree, columns(points)), len(points))
        low, high = (ix.evaluate(e, {"t": at}) if isinstance(e, ix.Affine) else e for e in (lo, hi))
        assert low <= values.min() and values.max() <= high


@settings(max_examples=200, deadline=None)
@given(trees(3), trees(3))
def test_extent_is_exact(low: Tree, high: Tree) -> None:
    lo, hi = built(low), built(high)
    env = columns()
    difference = np.broadcast_to(evaluated(high, env) - evaluated(low, env) + 1, len(POINTS))
    assert ix.extent(lo, hi) == max(int(difference.max()), 0)


def test_extent_without_enumeration_is_an_upper_bound() -> None:
    many = [ix.var(f"v{k}", 0, 99) for k in range(4)]
    hi = ix.add(ix.add(many[0], many[1]), ix.minimum(many[2], many[3]))
    assert ix.extent(0, hi) == 99 * 3 + 1
    assert ix.extent(0, ix.data(None, -3, 8, "d")) == 9
    assert ix.extent(5, 2) == 0
    assert ix.extent(0, ix.Affine(((ix.LoopVar("empty", 0, -1), 1),), 7)) == 0


@settings(max_examples=200, deadline=None)
@given(trees(3), trees(3))
def test_equal_texts_mean_equal_values(first: Tree, second: Tree) -> None:
    a, b = built(first), built(second)
    if ix.key(a) == ix.key(b):
        env = columns()
        assert (np.asarray(evaluated(first, env)) == evaluated(second, env)).all()
        assert a == b and hash(a) == hash(b)
    difference = ix.sub(a, b)
    if isinstance(difference, int):
        env = columns()
        assert (np.asarray(evaluated(first, env) - evaluated(second, env)) == difference).all()


def p(name: str = "p", lo: int = 0, hi: int = 9) -> ix.Index:
    return ix.var(name, lo, hi)


@pytest.mark.parametrize(
    ("e", "text"),
    [
        (ix.floordiv(ix.add(ix.scale(p(), 4), p("q", 0, 3)), 4), "(p)"),
        (ix.mod(ix.add(ix.scale(p(), 4), p("q", 0, 3)), 4), "(q)"),
        (ix.floordiv(ix.floordiv(p(), 2), 3), "((p)//6)"),
        (ix.minimum(p(), ix.add(p(), 1)), "(p)"),
        (ix.maximum(p(), 9), "9"),
        (ix.maximum(p(), -1), "(p)"),
        (ix.minimum(p(), 20), "(p)"),
        (ix.mod(p(), 10), "(p)"),
        (ix.mod(ix.add(p(), 10), 10), "(p)"),
        (ix.floordiv(p(), 10), "0"),
        (ix.sub(p(), p()), "0"),
        (ix.add(ix.scale(p(), 2), ix.scale(p("q"), -1)), "(2*p+-1*q)"),
        (ix.multiply(p("q"), p()), "((p)*(q))"),
        (p("only", 3, 3), "3"),
        (ix.select(True, p(), 1, "c"), "(p)"),
        (ix.select("open", p(), p(), "c"), "(p)"),
    ],
)
def test_simplified_forms(e: ix.Index, text: str) -> None:
    assert ix.key(e) == text


CLAMPED = ix.minimum(ix.maximum(p(lo=-5, hi=30), 0), 9)


@pytest.mark.parametrize(
    ("e", "text"),
    [
        (ix.minimum(CLAMPED, ix.minimum(ix.maximum(ix.add(p(lo=-5, hi=30), 1), 0), 9)), ix.key(CLAMPED)),
        (ix.maximum(ix.add(ix.maximum(p(), 3), -1), 3), "(max((p+-1),3))"),
        (ix.minimum(3, ix.minimum(p(), 4)), "(min((p),3))"),
        (ix.maximum(ix.minimum(p(), 7), 3), "(min((max((p),3)),7))"),
        (ix.minimum(ix.add(ix.maximum(p(), 3), p("q")), p("q")), "(q)"),
        (ix.maximum(ix.scale(ix.minimum(p(), 7), -1), -8), "(-1*min((p),7))"),
    ],
)
def test_superfluous_minima_and_maxima_are_dropped(e: ix.Index, text: str) -> None:
    assert ix.key(e) == text


def test_a_chain_of_clamps_is_as_short_as_one() -> None:
    i = np.arange(-5, 31)
    e, values = p(lo=-5, hi=30), i
    for shift in (1, -1, -1, 2, -3, 1, 1, 0, -2, 4):
        e = ix.minimum(ix.maximum(ix.add(e, shift), 0), 9)
        values = np.clip(values + shift, 0, 9)
    assert (ix.evaluate(e, {"p": i}) == values).all()
    assert len([t for t in ix.atoms(e) if isinstance(t, ix.Atom)]) == 2


def test_mirrored_indices_have_tight_intervals() -> None:
    """min(i, 2n - 1 - i) with i in [0, 2n) lies in [0, n)."""
    i = p("i", 0, 13)
    assert ix.interval(ix.minimum(i, ix.sub(13, i))) == (0, 6)
    assert ix.interval(ix.maximum(i, ix.sub(13, i))) == (7, 13)
    assert ix.bounds(ix.minimum(i, ix.sub(13, i)), {"i": (4, 10)}) == (3, 6)


def test_data_stays_until_it_is_given() -> None:
    d = ix.data("payload", 0, 9, "d")
    e = ix.minimum(ix.add(d, p()), 12)
    assert ix.key(ix.substitute(e, {"p": 1})) == "(min((data<d>+1),12))" or ix.interval(ix.substitute(e, {"p": 1})) == (
        1,
        10,
    )
    assert ix.substitute(e, {"p": 1}, lambda atom: 4) == 5
    with pytest.raises(TypeError, match="depends on data"):
        ix.evaluate(e, {"p": 1})
    with pytest.raises(KeyError, match="p"):
        ix.evaluate(e, {})


def test_selects_are_decided_by_their_condition() -> None:
    e = ix.select("condition", p(), ix.add(p(), 20), "c", bounds=(0, 25))
    assert ix.interval(e) == (0, 25)
    assert ix.bounds(e, {"p": (2, 3)}) == (2, 23)
    assert ix.substitute(e, {"p": 2}, lambda atom: (atom.payload != "condition", "t")) == 22
    assert ix.loop_vars(e).keys() == {"p"}


def test_terms_at_any_depth() -> None:
    inner = ix.minimum(p(), ix.floordiv(p("q"), 2))
    e = ix.add(ix.mod(inner, 3), p("r"))
    found = {t.kind if isinstance(t, ix.Atom) else t.name for t in ix.atoms(ix.add(e, ix.scale(inner, 5)))}
    assert found == {"mod", "min", "div", "p", "q", "r"}
    assert len(list(ix.atoms(ix.add(e, ix.scale(inner, 5))))) == 6, "each only once"
    order = [a.kind for a in ix.postorder(e)]
    assert order.index("div") < order.index("min") < order.index("mod")
    assert list(ix.atoms(7)) == [] and list(ix.postorder(7)) == []


def test_texts_of_nested_indices_stay_short() -> None:
    e: ix.Index = p()
    for k in range(500):
        e = ix.minimum(ix.add(e, p("q")), ix.add(ix.scale(p("r"), 2), k))
    assert len(ix.key(e)) < 1000
    assert ix.key(e) != ix.key(ix.add(e, 1))


def test_a_quotient_drops_what_cannot_change_it() -> None:
    t, s = ix.var("t", 0, 255), ix.var("s", 0, 11)
    assert ix.key(ix.floordiv(ix.add(ix.scale(t, 12), s), 192)) == ix.key(ix.floordiv(t, 16))
    assert ix.key(ix.floordiv(ix.add(ix.scale(t, 12), 5), 192)) == ix.key(ix.floordiv(t, 16))
    assert ix.key(ix.floordiv(ix.add(ix.scale(t, 8), s), 32)) != ix.key(ix.floordiv(t, 4))  # s exceeds 7


def test_the_end_of_a_tile_is_in_the_period_of_its_start() -> None:
    """The last point of a tile of 12 is the minimum of its own and the array's."""
    b, t = ix.var("b", 0, 9), ix.var("t", 0, 31)
    x = ix.var("x", 0, 3800)
    start = ix.add(ix.scale(b, 384), ix.scale(t, 12))
    env = {"x": (start, ix.minimum(ix.add(start, 11), 3800))}
    block, chunk = ix.floordiv(x, 384), ix.floordiv(ix.mod(x, 384), 12)
    assert [ix.key(ix.bounds(i, env)[0]) for i in (block, chunk)] == [ix.key(b), ix.key(t)]
    assert [ix.extent(*ix.bounds(i, env)) for i in (block, chunk)] == [1, 1]
    assert ix.extent(*ix.bounds(ix.mod(ix.mod(x, 384), 12), env)) == 12


def test_a_tile_beyond_the_end_has_no_quotients() -> None:
    """Threads beyond the last point compare the ends of their ranges, which must stay in the wrong order."""
    b, x = ix.var("b", 0, 9), ix.var("x", 0, 100)
    env = {"x": (ix.scale(b, 4), ix.minimum(ix.add(ix.scale(b, 4), 3), 16))}
    low, high = ix.bounds(ix.floordiv(x, 4), env)
    ends = [(ix.evaluate(low, {"b": n}), ix.evaluate(high, {"b": n})) for n in range(10)]
    assert ends[:5] == [(n, n) for n in range(5)]
    assert all(last < first for first, last in ends[5:])
