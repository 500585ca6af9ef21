"""The entry point, from a results database to weights and figures."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from training import cost_model, judgement

from autosched.errors import AutoschedError
from autosched.host import read_host
from autosched.measure.job import Job, KernelRecord, Result, Status, Timing
from autosched.measure.problem import Problem
from autosched.measure.store.database import ResultsDatabase
from autosched.measure.store.parquet_export import export_parquet
from autosched.model.data.samples import Sample
from autosched.model.predict.checkpoint import load_checkpoint
from autosched.target import Target, cpu_target, get_target
from tests.model.labelled_samples import H200, samples
from tests.model.test_configs import composed
from tests.model.untrained_weights import untrained_weights


def write_database(path: Path, measured: Sequence[Sample], target: Target) -> None:
    with ResultsDatabase(path) as found:
        for number, s in enumerate(measured):
            assert isinstance(s.problem, Problem)
            timing = Timing(s.seconds, 0.01, s.kernel_seconds, s.registers, s.spill_bytes)
            kernels = tuple(KernelRecord(f"{number}-{k}", "text") for k in range(len(s.kernel_seconds)))
            job = Job(s.problem, s.schedule, target)
            found.record(Result(job, s.source, "generator", Status.OK, timing, "", kernels))


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("results") / "results.sqlite"
    write_database(path, samples(), H200)
    return path


def overrides(database: Path, output: Path) -> list[str]:
    return [
        f"data.path={database}", f"data.cache={output / 'features'}", f"output={output}", "data.workers=1",
        "optimiser.epochs=2", "curves=false", "plots=false",
    ]  # fmt: skip


def test_one_model(database: Path, tmp_path: Path) -> None:
    module, config = cost_model, composed(*overrides(database, tmp_path), "hold_out=[blur]")
    dataset = module.load_data(config)
    assert dataset.count == len(samples())
    outcome = module.run(config, dataset, ["blur"], tmp_path)
    assert load_checkpoint(outcome.weights).provenance.held_out == ("blur",)
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert figures["source"] == "simulated:formula"
    assert figures["learned"]["pipelines"] == 1


def test_a_model_for_each_app(database: Path, tmp_path: Path) -> None:
    module, config = cost_model, composed(*overrides(database, tmp_path))
    rows = module.each_app(config, module.load_data(config), tmp_path, [])
    assert list(rows) == ["blur, learned", "blur, analytical", "unsharp, learned", "unsharp, analytical"]
    assert load_checkpoint(tmp_path / "unsharp" / "model.safetensors").provenance.held_out == ("unsharp",)


def test_a_model_for_some_apps(database: Path, tmp_path: Path) -> None:
    module, config = cost_model, composed(*overrides(database, tmp_path))
    rows = module.each_app(config, module.load_data(config), tmp_path, ["unsharp"])
    assert list(rows) == ["unsharp, learned", "unsharp, analytical"]


def test_cross_validation_covers_every_pipeline(database: Path, tmp_path: Path) -> None:
    module, config = cost_model, composed(*overrides(database, tmp_path), "folds=2")
    dataset = module.load_data(config)
    found = module.cross_validated(config, dataset, tmp_path)
    assert {s.pipelines for s in found.values()} == {len(dataset.pipelines)}
    held_out = [load_checkpoint(tmp_path / f"fold{k}" / "model.safetensors").provenance.held_out for k in range(2)]
    assert sorted(held_out[0] + held_out[1]) == sorted(set(dataset.families))
    assert (tmp_path / "folds.md").read_text().startswith("Labels: simulated:formula")


def test_labels_of_one_thread_are_of_a_processor_with_one_core(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    measured = [replace(s, source="measured:cpu a processor x1") for s in samples(2, 4, "cpu")]
    write_database(path, measured, get_target("cpu"))
    dataset = cost_model.load_data(composed(*overrides(path, tmp_path), "target=cpu"))
    assert dataset.target == cpu_target(read_host(cores=1))


def test_labels_of_another_processor_extend_training(tmp_path: Path) -> None:
    here, there = tmp_path / "here.sqlite", tmp_path / "there.sqlite"
    described = "measured:cpu {} [Maker {}, 16 lanes, 2048 and 32768 KiB of cache] x1"
    for path, name, count in ((here, "1", 4), (there, "2", 3)):
        labels = [replace(s, source=described.format(name, name)) for s in samples(count, 6, "cpu")]
        write_database(path, labels, get_target("cpu"))
    module, config = cost_model, composed(*overrides(here, tmp_path), "target=cpu", f"data.beside=[{there}]", "folds=2")
    dataset = module.load_data(config)
    assert dataset.target.processor == "Maker 1"
    assert dataset.extra_sources == (described.format("2", "2"),)
    found = module.cross_validated(config, dataset, tmp_path)
    assert {s.pipelines for s in found.values()} == {len(dataset.own_pipelines)}
    one = module.load_data(composed(*overrides(here, tmp_path), "target=cpu", f"data.beside={there}"))
    assert one.summary() == dataset.summary(), "one file needs no brackets"
    assert load_checkpoint(tmp_path / "fold0" / "model.safetensors").provenance.source == described.format("1", "1")
    with pytest.raises(AutoschedError, match="model=paper learns from one device"):
        module.load_data(composed(*overrides(here, tmp_path), "target=cpu", f"data.beside=[{there}]", "model=paper"))


def test_labels_from_parquet_files(database: Path, tmp_path: Path) -> None:
    path = tmp_path / "labels.parquet"
    with ResultsDatabase(database) as results:
        export_parquet(results, path)
    module = cost_model
    from_database = module.load_data(composed(*overrides(database, tmp_path)))
    from_file = module.load_data(composed(*overrides(path, tmp_path), f"data.path=[{path},{path}]"))
    assert from_file.summary() == from_database.summary()
    assert (from_file.seconds == from_database.seconds).all()


def test_no_database(tmp_path: Path) -> None:
    with pytest.raises(AutoschedError, match=r"there is no file .*none.sqlite with labels; make one"):
        cost_model.load_data(composed(f"data.path={tmp_path / 'none.sqlite'}"))


def test_weights_are_judged_by_other_labels(database: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    weights, cache = untrained_weights(tmp_path / "w.safetensors"), str(tmp_path / "features")
    summaries, source = judgement.judge(str(weights), [str(database)], "h200", cache)
    assert source == "simulated:formula"
    assert summaries["learned"].schedules == summaries["analytical"].schedules == len(samples())
    assert summaries["learned"].off != pytest.approx(summaries["analytical"].off, rel=1e-3)
    assert judgement.main([str(weights), str(database), "--cache", cache]) == 0
    assert "| analytical |" in capsys.readouterr().out
    assert judgement.main([str(tmp_path / "none.safetensors"), str(database), "--cache", cache]) == 1
    assert "cannot read weights" in capsys.readouterr().err
