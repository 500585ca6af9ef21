"""Legality of private producers, and their JSON and text."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autosched import Func, Input, Pipeline, float32
from autosched.analysis.bind import bind
from autosched.schedule.io.serialise import from_json, to_json
from autosched.schedule.io.structural_hash import structural_hash
from autosched.schedule.io.text import canonical_text, schedule_text
from autosched.schedule.kernel.memory_layout import shared_layout
from autosched.schedule.legality.validate import kernel_violations
from autosched.schedule.planner import plan_kernel
from autosched.schedule.types import Schedule, TileAlignment
from autosched.target import get_target
from tests.schedule.building import block, kernel, member, root, x, y
from tests.schedule.row_kernel_cases import bound_rows, row_kernel

H200 = get_target("h200")
ROWS = bound_rows(13, 100)


def test_a_row_in_registers_is_legal() -> None:
    for private in ((), ("shifted",), ("a.staged",), ("a.staged", "shifted")):
        assert not kernel_violations(ROWS, row_kernel(ROWS, private=private), H200)


def test_neighbours_belong_to_other_threads() -> None:
    a, f, g = Input("a", float32, 2), Func("f"), Func("g")
    f[y, x] = a[y, x] * 2
    g[y, x] = f[y, x] + f[y, x + 1]
    bound = bind(Pipeline([g.over(y=(0, 8), x=(0, 64))]), {"a": (8, 65)})
    at = block("g", 2)
    near = replace(member(at, ("y", "x"), f="sx=3 tx=32 ty=4"), private=True)
    found = kernel(bound, [root("g", "by=2 bx=1 sx=2 tx=32 ty=4")], [near])
    (reason,) = kernel_violations(bound, found, H200)
    assert "g reads elements of f that other threads have computed" in reason


def test_a_statistic_of_one_thread_is_not_private() -> None:
    """Only thread 0 of a row computes the total, but all of them read it."""
    found = row_kernel(ROWS, rows=1)
    total = replace(member(block("out", 2), ("n",), total=""), private=True)
    order = ["a.staged", "m", "shifted", "s", "total"]
    members = tuple(sorted((*found.fused, total), key=lambda m: order.index(m.func)))
    inlined = tuple(i for i in found.inlined if i.func != "total")
    reasons = kernel_violations(ROWS, replace(found, fused=members, inlined=inlined), H200)
    assert reasons and all("reads elements of total that other threads have computed" in r for r in reasons)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"points": "tc=32 tn=4 sc=4"}, "its thread loop over c must be inside all its serial loops over c"),
        ({"points": "sc=7 tc=16 tn=4"}, "reads elements of shifted that other threads have computed"),
        ({"points": "tn=4 sc=4 tc=32"}, "reads elements of shifted that other threads have computed"),
        ({"points": "sc=4 sn=2 tc=32 tn=2"}, "reads elements of shifted that other threads have computed"),
    ],
)
def test_other_threads(change: dict[str, str], reason: str) -> None:
    found = row_kernel(ROWS, private=("shifted",), **change)  # type: ignore[arg-type]
    assert any(reason in r for r in kernel_violations(ROWS, found, H200))


def test_long_rows_do_not_fit_registers() -> None:
    bound = bound_rows(4, 32 * 65)
    (reason,) = kernel_violations(bound, row_kernel(bound, private=("shifted",)), H200)
    assert "up to 65 elements each; the limits are 256 and 64" in reason


def test_levels_and_options() -> None:
    good = row_kernel(ROWS)
    first, *others = good.fused
    for change, reason in (
        ({"aligned": TileAlignment(4)}, "its tile can be neither materialised nor aligned"),
        ({"materialised": True}, "cache read"),
    ):
        bad = replace(good, fused=(replace(first, **change), *others))  # type: ignore[arg-type]
        assert any(reason in r for r in kernel_violations(ROWS, bad, H200))
    sums = replace(good, fused=tuple(replace(m, private=m.func == "m") for m in good.fused))
    assert any("only a Func with one pure definition" in r for r in kernel_violations(ROWS, sums, H200))


def test_json_and_text() -> None:
    plain, private = (Schedule.for_pipeline(ROWS, [row_kernel(ROWS, private=p)]) for p in ((), ("a.staged", "shifted")))
    assert from_json(to_json(ROWS, private), ROWS) == private
    assert '"private": true' in to_json(ROWS, private) and "private" not in to_json(ROWS, plain)
    assert canonical_text(private) != canonical_text(plain)
    assert structural_hash(private, 9) != structural_hash(plain, 9)
    assert "shifted[n 1, c 4]: in registers, 16 bytes a thread" in schedule_text(ROWS, private)


def test_registers_take_no_shared_memory_and_no_barrier() -> None:
    both = ("a.staged", "shifted")
    plain, private = (shared_layout(plan_kernel(ROWS, row_kernel(ROWS, private=p))) for p in ((), both))
    assert set(plain.slots) - set(private.slots) == {("a.staged", 0), ("shifted", 0)}
    assert sum(private.barriers) < sum(plain.barriers)
