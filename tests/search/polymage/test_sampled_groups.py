"""The script that fits weights to simulated times of groups."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from autosched.runtime.compile.nvrtc import have_nvrtc
from autosched.search.strategies.polymage.cost_weights import find_cost_weights


@pytest.mark.skipif(not have_nvrtc(), reason="simulated times need the registers of compiled kernels")
def test_weights_are_fitted_to_sampled_groups(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from calibration.polymage_weights import main, read_samples, timed_groups

    samples, weights = tmp_path / "samples.jsonl", tmp_path / "weights.json"
    given = ["harris_gray", "--sizes", "W=130,H=40", "--groups", "3", "--tiles", "4"]
    main([*given, "--samples", str(samples), "--out", str(weights)])
    printed = capsys.readouterr().out
    assert "rank correlation" in printed and "harris_gray" in printed
    kept = read_samples(samples)
    assert len(kept) >= 8
    assert any(len(s.group) > 1 for s in kept) and all(1e-16 < s.seconds < 1e-6 for s in kept)
    timed = timed_groups(kept)
    assert timed.terms.shape == (len(kept), 2, 7)
    assert (timed.terms[:, 0, 0] >= timed.terms[:, 1, 0]).all()  # transactions of 32 and 128 bytes
    assert np.isfinite(timed.terms).all()
    fitted = find_cost_weights(str(weights))
    assert fitted.transaction_bytes == (32, 128) and min(fitted.weights) >= 0 < max(fitted.weights)
    before = samples.read_text()
    main([*given, "--samples", str(samples)])
    assert samples.read_text() == before  # no program is sampled twice
    assert json.loads(weights.read_text())["kernels"] == len(kept)
