from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from autosched.errors import CacheError, InputError
from autosched.featurize import schema
from autosched.featurize.featurizer import Featurizer
from autosched.featurize.sketch.sketch import ComputeLocation, KernelSketch
from autosched.featurize.sketch.sketch_from_kernel import describe_kernel, described_points
from autosched.measure.compile.content_keys import schedule_text
from autosched.measure.problem import Problem
from autosched.model.data import feature_store as store_module
from autosched.model.data.dataset import build_dataset
from autosched.model.data.feature_store import FeatureStore, read_features
from autosched.model.data.features import kernel_key
from autosched.model.data.holdout import split
from autosched.model.data.samples import Sample
from autosched.schedule.io.serialise import from_json
from autosched.schedule.types import Level, StageId, TileAlignment
from autosched.search.datasets.candidate_mix import CandidateGenerator, CandidateMix
from autosched.search.refine.mainloop.step_cost import evaluated
from autosched.target import get_target
from tests.model.labelled_samples import H200, SOURCE, samples


@pytest.fixture
def store(tmp_path: Path) -> FeatureStore:
    return FeatureStore(tmp_path / "features", H200)


def test_labels_match_features(store: FeatureStore) -> None:
    """Compares features and labels of every kernel, sample by sample."""
    given = list(samples())
    d = build_dataset(given, H200, store)
    assert (d.source, d.count, d.left_out) == (SOURCE, len(given), {})
    by_label = {(s.problem.text(), s.seconds): s for s in given}
    featurizers: dict[str, Featurizer] = {}
    for n in range(d.count):
        s = by_label[d.pipelines[d.pipeline[n]], d.seconds[n]]
        assert d.families[d.pipeline[n]] == s.family
        entries = slice(d.sample_start[n], d.sample_start[n + 1])
        np.testing.assert_allclose(d.entry_seconds[entries], s.kernel_seconds, rtol=1e-6)
        assert d.registers[entries].tolist() == list(s.registers)
        bound = s.problem.bind()
        f = featurizers.setdefault(s.problem.text(), Featurizer(bound, H200))
        for k, kernel in zip(d.entry_kernel[entries], from_json(s.schedule, bound).kernels, strict=True):
            sketch, params = describe_kernel(bound, kernel)
            params = (*params, *described_points(bound, kernel))
            model = f.model(sketch)
            expected = model.evaluate(np.array([params], np.int64)).features[0]
            rows = slice(d.row_start[k], d.row_start[k + 1])
            np.testing.assert_allclose(d.schedule[rows], expected, rtol=1e-6)


def test_samples_have_cache_reads_and_tile_alignments() -> None:
    found = [k for s in samples() for k in from_json(s.schedule, s.problem.bind()).kernels]
    assert any(k.cache_reads for k in found)
    assert any(m.aligned for k in found for m in k.fused)


def test_features_of_mainloops_count_all_steps(store: FeatureStore) -> None:
    problem = Problem.app("sgemm", small=True)
    bound = problem.bind()
    drawn = CandidateGenerator(bound, H200, 0).draw(
        CandidateMix(beam=0, greedy=0, states=1, legal=0, mutations=0, steps=3)
    )
    given = [
        Sample(problem, "sgemm", schedule_text(bound, s), SOURCE, 1.0 + n, tuple(1.0 for _ in s.kernels))
        for n, (_, s) in enumerate(drawn)
    ]
    d = build_dataset(given, H200, store)
    assert (d.count, d.left_out) == (len(given), {})
    seen = 0
    for n, sample in enumerate(given):
        entries = d.entry_kernel[d.sample_start[n] : d.sample_start[n + 1]]
        for k, kernel in zip(entries, from_json(sample.schedule, bound).kernels, strict=True):
            if kernel.mainloop_at is not None:
                expected = evaluated(Featurizer(bound, H200), kernel).batch_evaluation.features[0]
                rows = d.schedule[d.row_start[k] : d.row_start[k + 1]]
                np.testing.assert_allclose(rows, expected, rtol=1e-6)
                assert rows[:, schema.INDEX["streaming_steps"]].max() > 0
                seen += 1
    assert seen >= 3


def test_kernels_that_differ_in_a_tile_are_distinct() -> None:
    """An aligned tile is wider and loads other sectors; a materialised tile has more stores."""
    bound = samples()[0].problem.bind()
    func, root = next(iter(bound.funcs)), StageId(list(bound.funcs)[-1])
    plain = KernelSketch((root,), (ComputeLocation(func, Level.BLOCK, root),))
    aligned = KernelSketch((root,), (ComputeLocation(func, Level.BLOCK, root, aligned=TileAlignment(4, 1)),))
    stored = KernelSketch((root,), (ComputeLocation(func, Level.BLOCK, root, stored=True),))
    assert len({kernel_key(s, (1, 2)) for s in (plain, aligned, stored)}) == 3


def test_stages_of_rewrites_with_cache_reads_are_shared(store: FeatureStore) -> None:
    copies = next(s for s in samples() if any(k.cache_reads for k in from_json(s.schedule, s.problem.bind()).kernels))
    alike = [s for s in samples() if s.problem == copies.problem]
    found = store.features(copies.problem, texts(alike))
    assert len(np.unique(found.algorithm, axis=0)) == len(found.algorithm)
    once = store.features(copies.problem, texts([copies]))
    assert once.schedules == found.schedules


def test_algorithm_features_are_the_pipelines_own(store: FeatureStore) -> None:
    d = build_dataset(samples(), H200, store)
    owner = np.repeat(np.arange(d.kernels), np.diff(d.row_start))
    pipeline = np.empty(d.kernels, np.int64)
    pipeline[d.entry_kernel] = np.repeat(d.pipeline, np.diff(d.sample_start))
    for p in range(len(d.pipelines)):
        own = np.unique(d.stage[pipeline[owner] == p])
        assert own.max() - own.min() < len(d.algorithm) / 2
        if p:
            before = d.stage[pipeline[owner] == p - 1]
            assert before.max() < own.min()
    assert (d.algorithm.sum(axis=1) > 0).all()


def test_kernels_of_several_schedules_are_shared(store: FeatureStore) -> None:
    d = build_dataset(samples(), H200, store)
    assert d.kernels < len(d.entry_kernel)
    assert set(d.entry_kernel.tolist()) == set(range(d.kernels))


def test_skipped_samples(store: FeatureStore) -> None:
    given = list(samples()[:6])
    slower = dataclasses.replace(given[0], seconds=2 * given[0].seconds)
    wrong = [dataclasses.replace(given[1], seconds=x) for x in (float("nan"), 0.0, 1e9)]
    foreign = dataclasses.replace(given[2], schedule=given[2].schedule.replace('"pipeline":"', '"pipeline":"0'))
    lonely = next(s for s in samples() if s.family == "blur")
    d = build_dataset([*given, slower, *wrong, foreign, lonely], H200, store)
    assert d.left_out == {
        "no time that a schedule can take": 3,
        "same kernels as another one": 1,
        "cannot be featurized": 1,
        "the pipeline's only schedule": 1,
    }
    assert given[0].seconds in d.seconds
    assert slower.seconds not in d.seconds


def test_unknown_labels_are_not_numbers(store: FeatureStore) -> None:
    given = [dataclasses.replace(s, kernel_seconds=(), registers=()) for s in samples()[:6]]
    d = build_dataset(given, H200, store)
    assert np.isnan(d.entry_seconds).all()
    assert np.isnan(d.registers).all()
    assert not np.isnan(d.spill_bytes).any()


def test_sources_are_not_mixed(store: FeatureStore) -> None:
    given = list(samples()[:4])
    with pytest.raises(InputError, match="labels of measured:x and simulated:formula cannot be mixed"):
        build_dataset([*given, dataclasses.replace(given[0], source="measured:x")], H200, store)
    with pytest.raises(InputError, match="no samples"):
        build_dataset([], H200, store)


def texts(given: list[Sample]) -> dict[str, str]:
    return {s.schedule_key: s.schedule for s in given}


def test_features_come_back_from_the_file(store: FeatureStore) -> None:
    given = list(samples()[:5])
    fresh = store.features(given[0].problem, texts(given))
    again = read_features(store.path(given[0].problem))
    assert dict(again.schedules) == dict(fresh.schedules)
    np.testing.assert_array_equal(again.algorithm, fresh.algorithm)
    for key, kernel in fresh.kernels.items():
        for name in ("schedule", "stage", "parts"):
            np.testing.assert_array_equal(getattr(again.kernels[key], name), getattr(kernel, name))


def test_new_schedules_are_added_to_stored_features(store: FeatureStore, monkeypatch: pytest.MonkeyPatch) -> None:
    given = list(samples()[:6])
    problem = given[0].problem
    store.features(problem, texts(given[:3]))
    grown = store.features(problem, texts(given))
    assert set(grown.schedules) == set(texts(given))
    monkeypatch.setattr(store_module, "featurize_problem", None)  # would fail if it were called
    assert store.features(problem, texts(given[2:4])).schedules == grown.schedules


def test_other_versions_are_refused(store: FeatureStore, monkeypatch: pytest.MonkeyPatch) -> None:
    given = list(samples()[:3])
    store.features(given[0].problem, texts(given))
    path = store.path(given[0].problem)
    assert f'"versions": ["{schema.SCHEMA_VERSION}", '.encode() in pq.read_schema(path).metadata[b"autosched"]
    monkeypatch.setattr(schema, "SCHEMA_VERSION", schema.SCHEMA_VERSION + 1)
    assert store.path(given[0].problem) != path
    with pytest.raises(CacheError, match=rf"{path.name} has no usable features .* of version"):
        read_features(path)


@pytest.mark.parametrize("damage", ["truncated", "garbage", "empty"])
def test_damaged_file_is_named(store: FeatureStore, damage: str) -> None:
    given = list(samples()[:3])
    store.features(given[0].problem, texts(given))
    path = store.path(given[0].problem)
    content = path.read_bytes()
    path.write_bytes({"truncated": content[: len(content) // 2], "garbage": b"PAR1" * 99, "empty": b""}[damage])
    with pytest.raises(CacheError, match=f"{path.name} has no usable features .*delete it"):
        store.features(given[0].problem, texts(given))


def test_directory_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    given = list(samples()[:2])
    with pytest.raises(CacheError, match=r"cannot write features to .*choose another directory"):
        FeatureStore(tmp_path / "file", H200).features(given[0].problem, texts(given))


def test_data_of_another_device_is_appended(store: FeatureStore) -> None:
    """Each schedule has equal kernels, features and times as in its own data set."""
    given = [dataclasses.replace(s, source="simulated:another") for s in samples()[::-1]]
    one, other = build_dataset(list(samples()), H200, store), build_dataset(given, H200, store)
    both = one.joined(other)
    assert both.summary().endswith("labels simulated:formula, simulated:another")
    assert (both.source, both.extra_sources) == (one.source, (other.source,))
    assert both.own_pipelines.tolist() == list(range(len(one.pipelines)))
    assert both.count == one.count + other.count
    for part, first in ((one, 0), (other, one.count)):
        for n in range(part.count):
            assert both.seconds[first + n] == part.seconds[n]
            assert both.pipelines[both.pipeline[first + n]] == part.pipelines[part.pipeline[n]]
            assert both.families[both.pipeline[first + n]] == part.families[part.pipeline[n]]
            ours, theirs = (slice(d.sample_start[k], d.sample_start[k + 1]) for d, k in ((both, first + n), (part, n)))
            np.testing.assert_array_equal(both.entry_seconds[ours], part.entry_seconds[theirs])
            np.testing.assert_array_equal(both.registers[ours], part.registers[theirs])
            np.testing.assert_array_equal(both.spill_bytes[ours], part.spill_bytes[theirs])
            for k, kernel in zip(both.entry_kernel[ours], part.entry_kernel[theirs], strict=True):
                np.testing.assert_array_equal(both.parts[k], part.parts[kernel])
                rows, own = (slice(d.row_start[m], d.row_start[m + 1]) for d, m in ((both, k), (part, kernel)))
                np.testing.assert_array_equal(both.schedule[rows], part.schedule[own])
                np.testing.assert_array_equal(both.algorithm[both.stage[rows]], part.algorithm[part.stage[own]])


def test_evaluation_excludes_another_device(store: FeatureStore) -> None:
    one = build_dataset(list(samples()), H200, store)
    both = one.joined(
        build_dataset([dataclasses.replace(s, source="simulated:another") for s in samples()], H200, store)
    )
    parts = split(both, ["blur"], validation=0.25)
    alone = split(one, ["blur"], validation=0.25)
    assert parts.held_out.tolist() == alone.held_out.tolist()
    assert parts.validation.tolist() == alone.validation.tolist()
    assert np.intersect1d(parts.training, both.own_pipelines).tolist() == alone.training.tolist()
    unseen = {both.families[p] for p in (*parts.held_out, *parts.validation)}
    assert unseen.isdisjoint(both.families[p] for p in parts.training)
    assert len(parts.training) == 2 * len(alone.training)


def test_families_of_other_sources_are_excluded(store: FeatureStore) -> None:
    one = build_dataset(list(samples()), H200, store)
    given = [dataclasses.replace(s, source="simulated:another", family=f"other {s.family}") for s in samples()]
    both = one.joined(build_dataset(given, H200, store))
    assert both.own_families == one.own_families == sorted(set(one.families))
    with pytest.raises(InputError, match="no pipelines of 'other blur' to hold out"):
        split(both, ["other blur"])


def test_data_of_another_kind_of_device_is_refused(store: FeatureStore) -> None:
    one = build_dataset(list(samples()), H200, store)
    other = dataclasses.replace(one, source="measured:cpu", target=get_target("cpu"))
    with pytest.raises(InputError, match=r"labels measured:cpu are of a cpu device, not cuda like H200"):
        one.joined(other)


def test_split_keeps_families_apart(store: FeatureStore) -> None:
    d = build_dataset(samples(), H200, store)
    parts = split(d, ["blur"], validation=0.2, test=0.2)
    together = np.concatenate([parts.training, parts.validation, parts.held_out])
    assert sorted(together.tolist()) == list(range(len(d.pipelines)))
    assert d.families.index("blur") in parts.held_out
    assert len(parts.held_out) == 2
    with pytest.raises(InputError, match="no pipelines of 'harris' to hold out"):
        split(d, ["harris"])
    with pytest.raises(InputError, match="too few to train with"):
        split(d, ["blur"], validation=0.9, test=0.5)
