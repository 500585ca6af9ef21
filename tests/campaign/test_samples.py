"""Samples from pipelines to weights on the simulated device, over several calls."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from campaign import sample_files
from campaign.files import read_json
from campaign.options import Options
from campaign.pipelines import problems_of, random_problem
from campaign.report import write_report

from autosched.measure.problem import Problem
from autosched.measure.simulated.version import simulated_source
from autosched.runtime.compile.nvrtc import have_nvrtc
from autosched.target import get_target
from tests.campaign.tiny_campaign import options, run

pa, pc, pq = (pytest.importorskip(f"pyarrow{module}") for module in ("", ".compute", ".parquet"))
pytestmark = pytest.mark.skipif(not have_nvrtc(), reason="NVRTC is not installed")

TINY = {"stages": [1, 3], "extents": [16, 64], "channels": [1, 4]}
SCHEDULES = {"beam": 0, "greedy": 0, "states": 2, "legal": 1, "mutations": 2}


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory) -> Options:
    """A campaign that collected samples in two calls, with a smaller goal in the first."""
    directory = tmp_path_factory.mktemp("campaign")
    chosen = options(
        directory, samples=24, pipelines=30, schedules=SCHEDULES, pipeline_settings=TINY, epochs=2, hold_out=("blur",)
    )
    first, _ = run("collect", replace(chosen, samples=8))
    assert first.finished
    assert first.failures == 0
    # A later call is on another machine with nothing but the results.
    second, step_context = run("collect", replace(chosen, work=str(directory / "other")))
    assert second.finished, second.message
    assert {"run 1", "run 2"} <= set(step_context.parts)
    assert run("collect", chosen)[0].message.endswith("as many as wanted")
    return chosen


def test_samples_of_several_calls_have_no_duplicates(collected: Options) -> None:
    (path,) = sample_files.sample_paths(collected.out_path)
    rows = pq.read_table(path).to_pylist()
    assert sample_files.count_samples(collected.out_path) == sum(r["status"] == "ok" for r in rows) >= 24
    assert len({(r["problem"], r["schedule"]) for r in rows}) == len(rows)
    assert {r["source"] for r in rows} == {simulated_source(get_target("h200"))}
    assert all(r["registers"] and r["kernel_seconds"] for r in rows if r["status"] == "ok")
    parts = read_json(collected.out_path / "results.json", {})["collect"]
    done = {name for name in parts if not name.startswith("run ")}
    assert done <= {r["problem"] for r in rows}


def test_schedules_of_other_labels_are_measured_first(collected: Options, tmp_path: Path) -> None:
    (path,) = sample_files.sample_paths(collected.out_path)
    table = pq.read_table(path)
    labels = tmp_path / "labels.parquet"  # the labels of one pipeline lack the trusted schedule
    lacking = table.column("problem")[0]
    kept = pc.or_(pc.not_equal(table.column("problem"), lacking), pc.not_equal(table.column("origin"), "roots"))
    pq.write_table(table.filter(kept), labels)
    known = [r for r in table.filter(kept).to_pylist() if r["status"] == "ok"]
    chosen = options(
        tmp_path,
        labels=(str(labels),),
        samples=len(known) + 4,
        pipelines=30,
        schedules=SCHEDULES,
        pipeline_settings=TINY,
    )
    outcome, _ = run("collect", chosen)
    assert outcome.finished, outcome.message
    (found,) = sample_files.sample_paths(chosen.out_path)
    rows = [(r["problem"], r["schedule"]) for r in pq.read_table(found).to_pylist()]
    assert {(r["problem"], r["schedule"]) for r in known} <= set(rows)
    assert len(set(rows)) == len(rows) >= len(known) + 4


def test_large_files_are_split(collected: Options, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (path,) = sample_files.sample_paths(collected.out_path)
    table = pq.read_table(path)
    monkeypatch.setattr(sample_files, "LARGEST_BYTES", 0.4 * path.stat().st_size)
    sample_files._write(tmp_path, table, pq)
    paths = sample_files.sample_paths(tmp_path)
    assert [p.name for p in paths] == ["samples-2.parquet", "samples-3.parquet", "samples.parquet"]
    assert sum(pq.read_table(p).num_rows for p in paths) == table.num_rows
    assert sample_files.count_samples(tmp_path) == sample_files.count_samples(collected.out_path)


def test_samples_train_weights(collected: Options, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("safetensors")
    chosen = replace(collected, work=str(tmp_path / "work"), processes=1)
    outcome, step_context = run("train", chosen)
    assert outcome.finished, outcome.message
    assert set(step_context.parts) == {"final", "without blur"}
    assert all(part["source"] == simulated_source(get_target("h200")) for part in step_context.parts.values())
    assert set(step_context.parts["without blur"]["figures"]) == {"learned", "analytical"}
    from autosched.model.predict.learned import load_model

    assert load_model(chosen.out_path / "weights.safetensors", get_target("h200"))
    left: list[object] = []
    monkeypatch.setattr("campaign.train.do_parts", lambda trainer, method, parts, **_: left.extend(parts) or iter(()))
    assert run("train", chosen)[0].finished
    assert left == [], "the same data need no other weights"
    summary = write_report(chosen.out_path).read_text()
    assert "| without blur | learned |" in summary
    assert "simulated:H200" in summary


def test_too_few_pipelines_for_a_held_out_app_are_no_failure(collected: Options, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("safetensors")
    (path,) = sample_files.sample_paths(collected.out_path)
    out = tmp_path / "out"
    out.mkdir()
    table = pq.read_table(path)
    titles = list(dict.fromkeys(table["problem"].to_pylist()))
    blur = next(t for t in titles if '"blur"' in t)
    few = {blur, next(t for t in titles if t != blur)}
    pq.write_table(table.filter(pc.is_in(table["problem"], pa.array(few))), out / path.name)
    outcome, step_context = run("train", replace(collected, out=str(out), work=str(tmp_path / "work"), processes=1))
    assert outcome.failures == 0, step_context.parts
    assert "too few to train with" in step_context.parts["without blur"]["too little"]
    assert "too few to train with" in write_report(out).read_text()


def test_training_without_samples_names_the_missing_step(tmp_path: Path) -> None:
    outcome, _ = run("train", options(tmp_path))
    assert not outcome.finished
    assert outcome.message == "there are no samples for H200: run the step collect first"


def test_apps_are_spread_evenly_among_random_pipelines(tmp_path: Path) -> None:
    chosen = options(tmp_path, apps=("blur", "harris"), pipelines=4, first=10, sizes=("paper",))
    found = [next(problems) for problems in [problems_of(chosen)] for _ in range(8)]
    assert [p.kind for p in found] == ["random", "app", "random", "random", "app", "random", "random", "random"]
    titles = [p.title for p in found if p.kind == "random"]
    assert [int(title.split()[-1]) for title in titles] == list(range(10, 16))
    assert len(titles[0].split()) > len(titles[1].split()), "seed 10 is of a family"
    assert {p.title.split()[0] for p in found if p.kind == "app"} == {"blur", "harris"}
    small = next(p for p in problems_of(replace(chosen, sizes=("small",))) if p.kind == "app")
    assert small == Problem.app(small.title.split()[0], small=True)


def test_random_pipelines_are_of_all_groups(tmp_path: Path) -> None:
    """Volumes, long windows, rows and time loops are among them, and the settings of options replace all groups."""
    chosen = options(tmp_path)
    problems = [random_problem(seed, chosen) for seed in range(60)]
    families = {p.title.removeprefix("random ").rpartition(" ")[0] for p in problems}
    assert families >= {"", "row_statistics", "wide_windows", "time_loops"}
    assert len({random_problem(seed, replace(chosen, pipeline_settings=TINY)).arguments for seed in range(3)}) == 3
    volumes = [random_problem(seed, chosen).bind() for seed in range(2, 20, 3)]
    extents = [sorted(max(f.extents[-3:] for f in b.funcs.values())) for b in volumes]
    assert sum(len(e) == 3 and e[0] > 32 for e in extents) >= 2
