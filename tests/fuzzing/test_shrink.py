"""Shrinking: failing programs become small and still fail in the same way."""

from __future__ import annotations

from fuzzing.program import Program, build
from fuzzing.shrink import Budget, shrink

from tests.fuzzing.small import small


def defines_a_third_of_x(program: Program) -> bool:
    try:
        built = build(program)
    except Exception:
        return False
    return len(built.pipeline.outputs) > 0 and "// 3" in program.text


def test_irrelevant_parts_are_removed() -> None:
    found = shrink(small(), defines_a_third_of_x)
    lines = found.text.splitlines()
    assert "f0[x] = x // 3" in lines
    assert "pipeline = Pipeline([f0.over(x=(0, 0))])" in lines
    assert not [line for line in lines if "f1" in line or "Input" in line]
    assert defines_a_third_of_x(found)
    assert found.values == "usual"


def test_a_minimal_program_is_unchanged() -> None:
    program = small()
    assert shrink(program, lambda p: p == program) is program


def test_the_budget_ends_shrinking() -> None:
    probes = []

    def fails(program: Program) -> bool:
        probes.append(program)
        return False

    shrink(small(), fails, Budget(probes=5))
    assert len(probes) == 5
