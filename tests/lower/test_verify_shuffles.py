"""Invariants of shuffles in kernel IR; each violation is an internal error that names the array."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from autosched.analysis.indices import index as ix
from autosched.errors import CompileError
from autosched.lang.dtypes import bool_
from autosched.lower.ir import Body, CompareIndex, For, If, KernelIR, LoopRole, ShuffleRead, Stmt, Value
from autosched.lower.ir_visitor import map_parts, map_statements, map_values
from autosched.lower.program import lower
from autosched.lower.verify import verify
from tests.lower.hybrid_cases import rows, rows_kernel
from tests.schedule.building import schedule

Change = Callable[[ShuffleRead], ShuffleRead]


def lowered() -> KernelIR:
    bound = rows()
    return lower(bound, schedule(bound, rows_kernel(bound, 2, 4))).kernels[0]


def with_shuffles(ir: KernelIR, change: Change) -> KernelIR:
    """Return a kernel with changed shuffles."""

    def value(v: Value) -> Value:
        return change(v) if isinstance(v, ShuffleRead) else v

    def statement(s: Stmt) -> Stmt:
        return map_parts(s, values=lambda v: map_values(v, value))

    return replace(ir, body=map_statements(ir.body, statement))


def under_condition(ir: KernelIR) -> KernelIR:
    """Return a kernel in which some lanes alone execute the body of each nest."""

    def statement(s: Stmt) -> Stmt:
        if not isinstance(s, For) or s.role is not LoopRole.THREAD:
            return s
        test = CompareIndex("le", ix.var(s.name, 0, s.extent - 1), 15, bool_)
        body: Body = (If(test, s.body),)
        return replace(s, body=body)

    return replace(ir, body=map_statements(ir.body, statement))


WRONG: dict[str, tuple[Change, str]] = {
    "another element": (
        lambda v: replace(v, given=v.given[::-1]) if len(v.given) > 1 else v, "lane .* gives element 1 of blurx_r",
    ),
    "another lane": (
        lambda v: replace(v, lane=ix.add(v.lane, 1)), "shuffle of blurx_r reads lane 32, which does not take part",
    ),
    "fewer lanes": (lambda v: replace(v, lanes=0xFFFF), "shuffle of blurx_r is executed by lanes 0xffff, but"),
    "a limit further": (
        lambda v: replace(v, given_tests=tuple(replace(t, b=ix.sub(t.b, 1)) for t in v.given_tests)),
        "lane .* gives element 0 of blurx_r, and element 1 is read",
    ),
    "beyond the array": (
        lambda v: replace(v, index=ix.add(v.index, 2)), "register array blurx_r",
    ),
}  # fmt: skip


def test_lowered_kernels_pass() -> None:
    verify(lowered())


@pytest.mark.parametrize("name", WRONG)
def test_violations_are_named(name: str) -> None:
    change, reason = WRONG[name]
    with pytest.raises(CompileError, match=f"internal error in the lowering of .*{reason}"):
        verify(with_shuffles(lowered(), change))


def test_all_lanes_execute_a_shuffle() -> None:
    with pytest.raises(CompileError, match="shuffle of blurx_r is not executed by all threads of the block"):
        verify(under_condition(lowered()))
