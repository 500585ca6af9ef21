"""`autosched schedule --explain`, `--html` and `--json`: the course of a search as tables, as a page and as data."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from autosched.analysis.rewrites.cache_read import cached_source
from autosched.apps import get_app
from autosched.cli import main
from autosched.featurize.schema import NAMES
from autosched.search.cost.gpu_analytical import COMPONENTS


def run(*arguments: str) -> str:
    result = CliRunner().invoke(main, ["schedule", "unsharp", "--size", "H=70", "--size", "W=90", *arguments])
    assert result.exit_code == 0, result.output
    return result.output


def test_tables() -> None:
    text = run("--strategy", "beam", "--explain")
    assert re.search(r"\d+ kernels costed in \d+ batches", text)
    for title in ("considered", "pruned because of", "bucket size", "activity", "predicted", "busiest units"):
        assert title in text
    assert re.search(r"^output .*(µs|us|ms)", text, re.MULTILINE)


def test_data() -> None:
    found = json.loads(run("--strategy", "beam", "--json"))["search"]
    assert found["kernels_costed"] > 10
    assert sum(found["considered"].values()) > found["kernels_costed"] / 2
    kernels = found["kernels"]
    assert kernels and found["predicted_seconds"][0] == pytest.approx(sum(k["seconds"] for k in kernels), rel=1e-4)
    for k in kernels:
        assert set(k["components"]) == set(COMPONENTS)
        assert all(set(row) == set(NAMES) for row in k["features"].values())
    computed = {k["func"] for k in kernels} | {f for k in kernels for f in k["inlined"]}
    computed |= {f for k in kernels for f, _ in k["members"] if cached_source(f) is None}
    assert computed == {f.name for f in get_app("unsharp").build().funcs}


def test_page(tmp_path: Path) -> None:
    pytest.importorskip("jinja2")
    file = tmp_path / "report.html"
    assert f"wrote {file}" in run("--strategy", "beam", "--html", str(file))
    page = file.read_text()
    assert page.startswith("<!doctype html>") and page.rstrip().endswith("</html>")
    assert "unsharp for H200" in page and "Loop nest" in page and "block y" in page
    assert "num_global_mem_loads_per_block" in page and "considered" in page and "pruned because of" in page


def test_the_baseline_has_nothing_to_explain() -> None:
    text = run("--strategy", "roots", "--explain")
    assert "kernels costed" not in text
    assert json.loads(run("--strategy", "roots", "--json"))["search"]["kernels"] == []


def test_time_budget() -> None:
    found = json.loads(run("--strategy", "beam", "--seconds", "0", "--json"))["search"]
    assert found["cut_short"] is True
