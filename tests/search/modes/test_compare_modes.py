"""The table of the modes."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "scripts" / "compare_modes.py"


def test_a_row_for_each_app(capsys: pytest.CaptureFixture[str]) -> None:
    spec = importlib.util.spec_from_file_location("compare_modes", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    few = ["--samples", "2", "--iterations", "1", "--batch", "2"]
    assert module.main(["--apps", "blur", "--target", "h200", "--simulated", *few]) == 0
    printed = capsys.readouterr()
    assert "Times: simulated, target H200" in printed.out
    row = printed.out.splitlines()[-1]
    assert row.startswith("| blur | ") and row.count("µs") == 4
    assert "2 measured" in printed.err
    assert module.main(["--apps", "blurr"]) == 2
