"""The ablation script: a row of it for a small search, and the arithmetic of its table."""

from __future__ import annotations

from types import ModuleType

import pytest
from experiments import search_method_ablation

from autosched.target import get_target

ROWS = [
    {
        "app": "one", "seconds": {"roots": 8e-3, "a": 2e-3, "b": 1e-3},
        "predicted": {"a": 1e-3, "b": 3e-3}, "search": {"a": 1.0, "b": 4.0},
    },
    {
        "app": "two", "seconds": {"roots": 8e-3, "a": 2e-3, "b": 8e-3},
        "predicted": {"a": 1e-3, "b": 3e-3}, "search": {"a": 1.0, "b": 9.0},
    },
]  # fmt: skip


@pytest.fixture
def script() -> ModuleType:
    return search_method_ablation


def test_table_compares_with_the_first_variant(script: ModuleType) -> None:
    lines = script.table(ROWS, ("a", "b"), "measured: here").splitlines()
    assert lines[0].startswith("Labels: measured: here")
    assert "| one | 8 | 2 (1) | 1 (3) |" in lines
    assert lines[-2:] == ["| over a | | 1.00 (1.00) | 1.41 (3.00) |", "| search, over a | | 1.00 | 6.00 |"]


def test_a_row_has_times_of_all_variants_and_of_the_baseline(script: ModuleType) -> None:
    row = script.row_of("blur", get_target("cpu"), ("greedy", "1 pass"), 1, 0)
    assert set(row["seconds"]) == {"roots", "greedy", "1 pass"}
    assert all(s > 0 for s in (*row["seconds"].values(), *row["predicted"].values(), *row["search"].values()))


def test_an_unknown_variant_is_refused(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["ablation.py", "--variants", "sampling,none"])
    with pytest.raises(SystemExit):
        script.main()
