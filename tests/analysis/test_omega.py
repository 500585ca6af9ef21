from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autosched.analysis.access.omega import System


def system_of(bounds, equalities, inequalities):
    system = System()
    variables = [system.variable(lo, hi) for lo, hi in bounds]
    for add, rows in ((system.require_zero, equalities), (system.require_not_negative, inequalities)):
        for *coefficients, constant in rows:
            add(dict(zip(variables, coefficients, strict=True)), constant)
    return system


def holds(row, point):
    *coefficients, constant = row
    return sum(c * v for c, v in zip(coefficients, point, strict=True)) + constant


@st.composite
def systems(draw):
    n = draw(st.integers(1, 4))
    lows = draw(st.lists(st.integers(-4, 4), min_size=n, max_size=n))
    bounds = [(lo, lo + draw(st.integers(-1, 6))) for lo in lows]
    row = st.lists(st.integers(-9, 9), min_size=n + 1, max_size=n + 1)
    return bounds, draw(st.lists(row, max_size=2)), draw(st.lists(row, max_size=3))


@settings(max_examples=400, deadline=None)
@given(systems())
def test_agrees_with_enumeration(case):
    bounds, equalities, inequalities = case
    points = itertools.product(*(range(lo, hi + 1) for lo, hi in bounds))
    expected = any(
        all(holds(r, p) == 0 for r in equalities) and all(holds(r, p) >= 0 for r in inequalities) for p in points
    )
    assert system_of(*case).is_feasible() is expected


@settings(max_examples=200, deadline=None)
@given(systems())
def test_unbounded_variables_have_every_solution_bounded_ones_have(case):
    bounds, equalities, inequalities = case
    unbounded = system_of([(None, None)] * len(bounds), equalities, inequalities)
    assert unbounded.is_feasible() or not system_of(*case).is_feasible()


def test_real_solutions_without_an_integer_one():
    # Pugh's example: the real polygon is 2.6 wide and holds no integer point
    rows = [(11, 13, -27), (-11, -13, 45), (7, -9, 10), (-7, 9, 4)]
    assert system_of([(None, None)] * 2, [], rows).is_feasible() is False
    assert system_of([(None, None)] * 2, [], [(11, 13, -27), (-11, -13, 50), *rows[2:]]).is_feasible() is True


def test_an_integer_solution_outside_the_dark_shadow():
    rows = [(1, -4, 9), (-1, 4, -3), (-4, 1, -8), (4, -1, 9)]
    assert [p for p in itertools.product(range(-9, 9), repeat=2) if all(holds(r, p) >= 0 for r in rows)] == [(-2, 1)]
    assert system_of([(None, None)] * 2, [], rows).is_feasible() is True


@pytest.mark.parametrize(("constant", "expected"), [(1, False), (2, True)])
def test_parity_over_huge_ranges(constant, expected):
    huge = (-(1 << 60), 1 << 60)
    assert system_of([huge] * 3, [(2, 4, -6, constant)], []).is_feasible() is expected


def test_touching_inequalities_are_an_equality():
    # 3x <= y <= 3x and y == 1 (mod 3), over ranges too large to enumerate
    huge = (-(1 << 60), 1 << 60)
    assert system_of([huge] * 3, [(0, 1, -3, -1)], [(-3, 1, 0, 0), (3, -1, 0, 0)]).is_feasible() is False


def test_gives_up_within_its_budget():
    rows = [(-3001, 2003, 1701, 5), (3001, -2003, -1701, 40), (1709, 2011, -3011, 7), (-1709, -2011, 3011, 30)]
    system = system_of([(-9999, 9999)] * 3, [], rows)
    assert system.is_feasible(budget=20) is None
