"""Kinds of pipelines, and their exclusion from training."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from training import cost_model

from autosched.apps.registry import NAMES, get_app
from autosched.errors import InputError
from autosched.measure.problem import Problem
from autosched.model.data.dataset import Dataset, build_dataset
from autosched.model.data.feature_store import FeatureStore
from autosched.model.data.holdout import split
from autosched.model.data.pipeline_kinds import APP_KINDS, all_kinds, kinds_of
from autosched.model.data.samples_from_measurements import family_of
from autosched.model.predict.checkpoint import load_checkpoint
from autosched.random_pipelines.settings import FAMILY_WEIGHTS, USERS
from tests.model.labelled_samples import H200, samples
from tests.model.test_script import composed, overrides, write_database

FAMILIES = ("random attention 0", "random tables 1", "random double_precision tables 2", "random 3", "random 4")


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Labels of random pipelines and two apps; the pipelines' families are renamed."""
    store = FeatureStore(tmp_path_factory.mktemp("features"), H200)
    built = build_dataset(list(samples()), H200, store)
    renamed = [*FAMILIES, "random 5"]
    families = tuple(renamed[int(f.split(" ")[1])] if f.startswith("random") else f for f in built.families)
    return dataclasses.replace(built, families=families)


def test_kinds_exist() -> None:
    apps = {get_app(name).family for name in NAMES}
    assert set(APP_KINDS) <= set(FAMILY_WEIGHTS)
    assert frozenset().union(*APP_KINDS.values()) <= apps


def test_kinds_of_problems() -> None:
    drawn = {kind for seed in range(40) for kind in kinds_of(family_of(Problem.random(seed, USERS)))}
    assert drawn == set(FAMILY_WEIGHTS)
    assert kinds_of(family_of(Problem.random(3))) == frozenset()
    assert kinds_of(family_of(Problem.app("causal_attention"))) == {"attention"}


def test_a_kind_is_held_out_as_a_whole(dataset: Dataset) -> None:
    parts = split(dataset, kinds=["tables"])
    assert {dataset.families[p] for p in parts.held_out} == {"random tables 1", "random double_precision tables 2"}
    others = split(dataset, ["blur"], kinds=["double_precision"])
    assert {dataset.families[p] for p in others.held_out} == {"blur", "random double_precision tables 2"}
    assert all_kinds(dataset.families) == ["attention", "double_precision", "tables"]


def test_kinds_of_additional_sources_are_not_learned_from(dataset: Dataset) -> None:
    more = dataclasses.replace(dataset, families=tuple(f"{f}0" for f in dataset.families), source="simulated:other")
    both = dataset.joined(more)
    parts = split(both, kinds=["attention"])
    learned = {both.families[p] for p in (*parts.training, *parts.validation)}
    assert not {f for f in learned if "attention" in f}
    assert {both.families[p] for p in parts.held_out} == {"random attention 0"}


def test_an_absent_kind_is_refused(dataset: Dataset) -> None:
    with pytest.raises(InputError, match="no pipelines of the kind 'warps' to hold out; its kinds are attention, dou"):
        split(dataset, kinds=["warps"])
    without = dataclasses.replace(dataset, families=tuple("blur" for _ in dataset.families))
    with pytest.raises(InputError, match=r"its kinds are none \(random_pipelines=users has some\)"):
        split(without, kinds=["warps"])


def test_apps_and_kinds_one_at_a_time_are_refused(dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost_model, "load_data", lambda config: dataset)
    config = composed("hold_out=[each]", "hold_out_kinds=[tables]")
    with pytest.raises(
        InputError, match=r"hold_out=\[each\] trains without one app at a time: leave out hold_out_kinds"
    ):
        cost_model.train_and_print(config)


def test_a_model_without_each_kind(dataset: Dataset, tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    write_database(path, samples(), H200)
    config = composed(*overrides(path, tmp_path))
    rows = cost_model.each_kind(config, dataset, tmp_path, ["tables"])
    assert list(rows) == ["tables, learned", "tables, analytical"]
    held_out = load_checkpoint(tmp_path / "tables" / "model.safetensors").provenance.held_out
    assert held_out == ("random double_precision tables 2", "random tables 1")
