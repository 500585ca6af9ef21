"""The table of the modes."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "scripts" / "compare_modes.py"


def test_a_row_for_each_app(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    spec = importlib.util.spec_from_file_location("compare_modes", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    few = ["--samples", "2", "--iterations", "1", "--batch", "2"]
    assert module.main(["--apps", "blur", "--target", "h200", "--simulated", *few]) == 0
    printed = capsys.readouterr()
    assert "Times: simulated, target H200" in printed.out
    row, _, ratios = printed.out.splitlines()[-3:]
    assert row.startswith("| blur | ") and row.count("µs |") == 4
    assert ratios.startswith("blur: one-shot / roots 0.") or ratios.startswith("blur: one-shot is roots")
    assert "2 measured" in printed.err
    assert module.main(["--apps", "blurr"]) == 2
