from __future__ import annotations

import ast
import re
from dataclasses import replace

import pytest

from autosched.measure.backends.simulated import SimulatedBackend
from autosched.measure.simulated import version
from autosched.measure.simulated.version import other_simulation, simulated_source, simulation_version
from autosched.target import get_target

H200 = get_target("h200")


def test_labels_name_the_version_of_the_simulation() -> None:
    source = SimulatedBackend(H200).source
    assert re.fullmatch(r"simulated:H200@[0-9a-f]{8}", source)
    assert source == simulated_source(H200)


def test_another_device_is_another_version() -> None:
    slower = replace(H200, dram_bytes_per_s=H200.dram_bytes_per_s / 2)
    assert simulation_version(slower) != simulation_version(H200)


@pytest.mark.parametrize(
    ("changed", "same"),
    [
        ("x = 1  # why\n", True),
        ('"""What it is."""\nx = 1\n', True),
        ("x = (1)\n", True),
        ("x = 2\n", False),
        ("y = 1\n", False),
        ("x = 'one'\n", False),
        ("x: int = 1\n", False),
    ],
)
def test_the_code_counts_and_comments_do_not(changed: str, same: bool) -> None:
    assert (version._code(ast.parse(changed)) == version._code(ast.parse("x = 1\n"))) is same


def test_zeros_and_empty_texts_are_told_apart() -> None:
    texts = {version._code(ast.parse(f"x = {value}\n")) for value in ("0", "None", "''", "[]", "False")}
    assert len(texts) == 5


def test_labels_of_an_equal_version_are_not_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(version, "EQUAL_TO", {simulation_version(H200): frozenset({"0123abcd"})})
    assert other_simulation("simulated:H200@0123abcd", H200) is None
    assert other_simulation("simulated:H200@89abcdef", H200) is not None
    assert other_simulation("simulated:A100@0123abcd", H200) is None  # of another device, whose version is not known


def test_what_is_said_of_labels_of_other_versions() -> None:
    present = simulation_version(H200)
    assert other_simulation(simulated_source(H200), H200) is None
    assert other_simulation("measured:H200", H200) is None
    assert other_simulation("simulated:H200", H200) == (
        f"labels simulated:H200 do not name the version of the simulated device; this release has version {present}"
    )
    assert "simulated:H200@00000000 are of another version" in str(other_simulation("simulated:H200@00000000", H200))
