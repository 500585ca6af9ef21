"""`autosched schedule --explain`, `--html` and `--json`: the course of a search as tables, as a page and as data."""

from __future__ import annotations

import json
import re
from pathlib import Path
from unittest.mock import Mock

import pytest
from click.testing import CliRunner

from autosched.analysis.rewrites.cache_read import cached_source
from autosched.apps import get_app
from autosched.cli import main
from autosched.commands.explain import _difference
from autosched.featurize.schema import NAMES
from autosched.runtime.compile.nvrtc import have_nvrtc
from autosched.search.cost.gpu_analytical import COMPONENTS


def run(*arguments: str, height: int = 70, width: int = 90) -> str:
    sizes = ["--size", f"H={height}", "--size", f"W={width}"]
    result = CliRunner().invoke(main, ["schedule", "unsharp", *sizes, *arguments])
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


def test_fusion_by_dynamic_programming(tmp_path: Path) -> None:
    text = run("--strategy", "dp", "--explain", height=32, width=48)
    assert re.search(r"\d+ kernels costed in \d+ batches", text) and "busiest units" in text
    file = tmp_path / "dp.json"
    found = json.loads(run("--strategy", "dp", "--json", "--out", str(file), height=32, width=48))
    assert found["strategy"] == "dp" and found["search"]["considered"]["tile"] > 0
    arguments = ["run", "unsharp", "--size", "H=32", "--size", "W=48", "--target", "cpu"]
    for choice in (["--strategy", "dp"], ["--schedule", str(file)]):
        result = CliRunner().invoke(main, [*arguments, *choice])
        assert result.exit_code == 0, result.output


def test_kernels_of_integers_have_no_intensity() -> None:
    arguments = ["schedule", "blur", "--size", "H=70", "--size", "W=90", "--strategy", "roots"]
    text = CliRunner().invoke(main, [*arguments, "--explain"]).output
    assert re.search(r"^blur_blur_x +[a-z0-9 -]+-bound.* no floating-point add or multiply", text, re.MULTILINE)
    for kernel in json.loads(CliRunner().invoke(main, [*arguments, "--explain", "--json"]).output)["bottlenecks"]:
        assert kernel["flops"] == 0 and kernel["intensity"] == kernel["balance"] == {}


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


def test_bottlenecks() -> None:
    text = run("--strategy", "roots", "--explain", height=1536, width=2560)
    assert re.search(r"^unsharp_gray +bandwidth-bound at DRAM +DRAM 0\.31\d \(", text, re.MULTILINE)
    assert re.search(r"^try for unsharp_output: fuse the kernels of its producers into it", text, re.MULTILINE)
    assert "bottlenecks" not in json.loads(run("--strategy", "roots", "--json"))
    kernels = json.loads(run("--strategy", "roots", "--explain", "--json"))["bottlenecks"]
    assert [k["kernel"] for k in kernels] == ["unsharp_gray", "unsharp_blur_y", "unsharp_blur_x", "unsharp_output"]
    for k in kernels:
        assert k["source"] == "features" and set(k["intensity"]) == {"DRAM", "L2", "L1"} == set(k["balance"])
        assert len(k["moves"]) >= len(k["hints"])
        assert (k["class"] == "latency-bound") == (k["moves"] == ["hide latency"])


def test_bottlenecks_of_a_processor() -> None:
    text = run("--strategy", "roots", "--explain", "--target", "cpu", height=1536, width=2560)
    assert re.search(r"^unsharp_output +bandwidth-bound at memory +memory 0\.\d+ \(", text, re.MULTILINE)


def test_hardware_counters_replace_features(tmp_path: Path) -> None:
    sample = (Path(__file__).parent / "search" / "bottleneck" / "ncu_sample.csv").read_text()
    file = tmp_path / "counters.csv"
    file.write_text(sample.replace("smoother7pt_sweep_1", "unsharp_gray"))
    kernels = json.loads(run("--strategy", "roots", "--json", "--counters", str(file)))["bottlenecks"]
    assert [k["source"] for k in kernels] == ["ncu", "features", "features", "features"]
    assert kernels[0]["class"] == "bandwidth-bound" and kernels[0]["level"] == "DRAM"
    result = CliRunner().invoke(main, ["schedule", "unsharp", "--counters", str(file)])
    assert result.exit_code == 2 and "--counters are for the bottlenecks of --explain or --json" in result.output


def test_tables_without_rows_are_left_out() -> None:
    text = run("--strategy", "polymage", "--explain")
    assert "considered" in text and "activity" in text
    assert "bucket size" not in text
    assert " in 0 batches" not in run("--strategy", "sioutas", "--explain")


def test_a_strategy_has_no_mode() -> None:
    assert json.loads(run("--strategy", "polymage", "--json"))["mode"] is None
    assert json.loads(run("--samples", "1", "--json", height=32, width=48))["mode"] == "one-shot"


@pytest.mark.skipif(not have_nvrtc(), reason="NVRTC is not installed")
def test_two_times_of_a_kernel_are_explained() -> None:
    """The best schedule keeps windows in registers, which limit the blocks in flight."""
    result = CliRunner().invoke(main, ["schedule", "harris", "--strategy", "dp", "--explain", "--no-reuse"])
    total, whole = re.search(  # type: ignore[union-attr]
        r"those of the model, together (.+); the schedule's, (.+), is predicted before the kernels were compiled",
        result.output,
    ).groups()
    assert total != whole and f"predicted {whole} by the analytical model" in result.output


def test_equal_times_have_no_explanation() -> None:
    assert "those of the model, together" not in run("--strategy", "polymage", "--explain")


def test_times_of_the_processor_at_hand_are_explained() -> None:
    result = explained("scaled by 2.00 (measured on this processor)", 2e-3)
    assert result == (
        "the kernels' times are those of the model, together 1 ms; the schedule's, 2 ms, is scaled by 2.00 (measured "
        "on this processor)"
    )
    assert not explained("scaled by 1.00 (measured on this processor)", 1e-3)


def explained(scale: str, predicted: float) -> str:
    """Return the explanation of a schedule whose only kernel takes a millisecond by the model."""
    origin = Mock(scale=scale, predicted_s=predicted, model="analytical model for cpu")
    return _difference(Mock(provenance=origin), [Mock(seconds=1e-3)], with_registers=False)
