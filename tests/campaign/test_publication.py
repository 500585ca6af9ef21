"""One command brings tables, labels, weights and figures of a checkout up to date."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from campaign.files import write_json
from campaign.headlines import BLOCKS, means, readme
from campaign.paths import ROOT
from campaign.publication import PublicationError, publish, slug_of

DEVICE = "NVIDIA H100 80GB HBM3"
WARM = {"graph": {"seconds": 4e-6, "lower": 3.9e-6, "upper": 4.25e-6}}


def timed(seconds: float, **more: Any) -> dict[str, Any]:
    return {"cold": {"seconds": seconds, "spread": 0.01}, "kernel_s": [seconds], "registers": [32], "spill_bytes": [0],
            **more}  # fmt: skip


RESULTS: dict[str, Any] = {
    "tests": {"a::b": {"outcome": "passed"}, "run": {"outcome": "0"}},
    "kernels": {"blur": {"wrong": {"blur/1": None}}},
    "suite": {"blur/small": {"wrong": {"roots": None, "sioutas": "run 0: 1 of 9 differ"}}},
    "sanitizer": {"sample": {"kinds": {"scan": 2}}, "memcheck/0": {"cases": ["a"], "ended": True, "findings": []}},
    "timing": {
        "blur/roots/0": timed(12e-6), "blur/sioutas/0": timed(16e-6), "blur/one-shot/0": timed(8e-6, **WARM),
        "blur/top5/0": timed(8e-6), "blur/top5/1": timed(4e-6), "blur/learned/0": timed(6e-6, **WARM),
        "blur/learned-top5/0": timed(6e-6), "blur/learned-top5/1": timed(3e-6),
        "hist/roots/0": timed(30e-6), "hist/sioutas/0": timed(10e-6), "hist/one-shot/0": timed(20e-6),
        "hist/top5/0": timed(20e-6), "hist/learned/0": timed(5e-6), "hist/learned-top5/0": timed(5e-6),
        "floor/blur": {"seconds": {"bytes": 2e-6, "instructions": 3e-6}}, "ceilings": {"bytes_per_s": 4.2e12},
    },
    "tune": {"blur": {"best": 2e-6, "baseline": 12e-6, "batches": 20, "measured": 1600, "seconds": 61.0}},
    "torch": {
        "filters.sobel 1x3x8x8": {"eager": 9e-5, "inductor": 4e-5, "autosched": 2e-5, "inductor graph": 3e-5,
                                  "autosched graph": 1e-5, "right autosched": True},
        "filters.laplacian 1x3x8x8": {"inductor": 4e-5, "autosched": 4e-5, "right autosched": False},
    },
    "peers": {
        "halide/blur3x3": {"rows": [
            {"app": "blur3x3", "scheduler": "anderson2021", "ms": 0.02, "graph_ms": 0.012, "ok": True},
            {"app": "blur3x3", "scheduler": "li2018", "ms": 0.05, "graph_ms": 0.001, "ok": False},
        ]},
        "torch/blur3x3": {"rows": [
            {"app": "blur3x3", "scheduler": "torch_eager", "graph_ms": 0.1},
            {"app": "blur3x3", "scheduler": "torch_compiled", "graph_ms": 0.016},
        ]},
    },
    "collect": {"run 1": {"source": f"measured:{DEVICE}", "counts": {"ok": 5, "wrong_result": 1}, "seconds": 2.0,
                          "errors": {}}},
}  # fmt: skip
"""Made-up results of two apps."""
PAGE = "# H100\n\nA copy moves 4.2 TB/s.\n\n" + "\n\n".join(
    f"<!-- campaign: {name} of h100 -->\nold {name}\n<!-- end of campaign: {name} -->" for name in BLOCKS
)
README = (
    "# autosched\n\n<!-- campaign: readme of h200 -->\n| of another device |\n<!-- end of campaign: readme -->\n\n"
    "<!-- campaign: readme of h100 -->\nold\n<!-- end of campaign: readme -->\n\nProse stays.\n"
)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "docs/results").mkdir(parents=True)
    (tmp_path / "docs/results/h100.md").write_text(PAGE + "\n")
    (tmp_path / "README.md").write_text(README)
    return tmp_path


@pytest.fixture
def out(tmp_path: Path) -> Path:
    directory = tmp_path / "out"
    write_json(directory / "results.json", RESULTS)
    write_json(directory / "state.json", {"version": 1, "device": DEVICE, "calls": [], "steps": {}})
    write_json(directory / "schedules.json", {"H100 132": {}})
    (directory / "weights.safetensors").write_bytes(b"weights")
    return directory


def with_samples(out: Path, source: str) -> None:
    pa, pq = (pytest.importorskip(f"pyarrow{module}") for module in ("", ".parquet"))
    for number in range(2):
        table = pa.table({"source": [source] * 3, "status": ["ok"] * 3, "seconds": [1e-6 * number] * 3})
        pq.write_table(table, out / f"samples{'-2' * number}.parquet")


def test_everything_is_brought_up_to_date(checkout: Path, out: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    with_samples(out, f"measured:{DEVICE}")
    said = publish(out, checkout)
    page, front = (checkout / "docs/results/h100.md").read_text(), (checkout / "README.md").read_text()
    assert "old" not in page.split()
    for line in (
        "| tests marked `gpu` | 1 of 1 pass |",
        "| schedules of apps against the interpreter, C or the app's reference, outputs overwritten before | 1 of 2 |",
        "| measured schedules compared with the baseline | 5, 1 off |",
        "| blur | 12 (1.0) | 16 (1.0) | 8 (1.0) | 4 (1.0) | 6 (1.0) | 3 (1.0) | 3 | 1.00 |",
        "| blur | 12 | 6 | 2 | 6.00 | 20 | 1600 | 61 |",
        "| filters.sobel 1x3x8x8 | 90 | 40 | 20 | - | 30 | 10 | 2.00 | 3.00 |",
        "| filters.laplacian 1x3x8x8 | - | 40 | 40 (wrong) | - | - | - | 1.00 | - |",
        "Times as fast as inductor, geometric mean: 2.00 by calls (1), 3.00 by graphs (1).",
    ):
        assert line in page.splitlines(), line
    assert "| over the best of Halide's GPU autoschedulers | 3.0 (3.0 to 3.0) | 1 |" in front
    assert "one-shot schedules on an H100, learned model" in front
    assert "| of another device |" in front
    assert "Prose stays." in front
    assert (checkout / "model/weights/h100-measured.safetensors").read_bytes() == b"weights"
    assert pq.read_table(checkout / "docs/results/data/h100-labels.parquet").num_rows == 6
    assert (checkout / "docs/results/h100/speedups.png").read_bytes().startswith(b"\x89PNG")
    assert "| blur | 12 (1.0)" in (checkout / "docs/results/h100/summary.md").read_text()
    assert json.loads((checkout / "docs/results/h100/results.json").read_text()) == RESULTS
    assert "read again: h100.md, line 3: A copy moves 4.2 TB/s." in said
    assert publish(out, checkout) == said
    assert (checkout / "docs/results/h100.md").read_text() == page, "the same results give the same page"


def test_means_over_the_simple_strategies() -> None:
    lines = means(RESULTS)
    assert "| one-shot, learned | 2.00 | 2.31 | 3.46 | 2 |" in lines
    assert "| best of five, analytical | 1.22 | 1.41 | 2.12 | 2 |" in lines
    front = readme(RESULTS)
    assert "| over the better of two simple strategies here, `roots` and Sioutas' | 2.0 (2.0 to 2.0) | 2 |" in front
    assert "| over `torch.compile` | 4.0 (4.0 to 4.0) | 1 |" in front


def test_results_of_other_devices_are_refused(checkout: Path, out: Path) -> None:
    with_samples(out, "measured:NVIDIA H200")
    with pytest.raises(PublicationError, match="the samples are of measured:NVIDIA H200, and the results of NVIDIA H1"):
        publish(out, checkout)
    assert (checkout / "README.md").read_text() == README, "pages come last"
    assert slug_of("NVIDIA H200") == "h200"
    for device in ("", "simulated", "cpu AMD EPYC"):
        with pytest.raises(PublicationError, match="publish those of a GPU"):
            slug_of(device)


def test_pages_without_blocks_are_refused(checkout: Path, out: Path) -> None:
    (checkout / "docs/results/h100.md").write_text("# H100\n")
    with pytest.raises(PublicationError, match="has no block: there is correctness, times"):
        publish(out, checkout)
    (checkout / "docs/results/h100.md").write_text(PAGE.replace("times", "speeds"))
    with pytest.raises(PublicationError, match="has unknown blocks speeds"):
        publish(out, checkout)
    (checkout / "docs/results/h100.md").unlink()
    with pytest.raises(PublicationError, match=r"there is no .*h100\.md: write the page"):
        publish(out, checkout)


def test_the_command(checkout: Path, out: Path) -> None:
    command = [sys.executable, str(ROOT / "scripts/publish_campaign.py"), str(out), "--root", str(checkout)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "h100.md: correctness, times, means, peers, tuning, torch, readme" in done.stdout
    (out / "results.json").unlink()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {out} has no results.json")


def test_blocks_of_this_checkout_are_known() -> None:
    for page in ("README.md", "docs/results/h200.md"):
        text = (ROOT / page).read_text(encoding="utf-8")
        names = [line.split()[2] for line in text.splitlines() if line.startswith("<!-- campaign:")]
        assert names
        assert set(names) <= set(BLOCKS)
        assert text.count("<!-- end of campaign:") == len(names)
