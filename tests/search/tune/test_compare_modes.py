"""The table of the modes."""

from __future__ import annotations

import pytest
from experiments import modes


def test_a_row_for_each_app(capsys: pytest.CaptureFixture[str]) -> None:
    few = ["--samples", "2", "--iterations", "1", "--batch", "2"]
    assert modes.main(["--apps", "blur", "--target", "h200", "--simulated", *few]) == 0
    printed = capsys.readouterr()
    assert "Times: simulated, target H200" in printed.out
    row, _, ratios = printed.out.splitlines()[-3:]
    assert row.startswith("| blur | ") and row.count("µs |") == 4
    assert ratios.startswith("blur: one-shot / roots 0.") or ratios.startswith("blur: one-shot is roots")
    assert "2 measured" in printed.err
    assert modes.main(["--apps", "blurr"]) == 2
