"""Step: weights of the cost model from the samples, and figures on held-out pipelines."""

from __future__ import annotations

import os
import pickle
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from autosched.errors import InputError
from autosched.measure.store.cpu_labels import target_of_labels
from autosched.model.data.dataset import Dataset, build_dataset
from autosched.model.data.feature_store import FeatureStore
from autosched.model.data.holdout import split
from autosched.model.data.samples import one_source
from autosched.model.settings import OptimiserSettings, TrainSettings
from autosched.model.train.train_run import train
from campaign.context import Context, Outcome
from campaign.problems import target_of
from campaign.results import TOO_LITTLE, Part
from campaign.sample_files import read_samples
from campaign.worker_pool import Lost, do_parts

WEIGHTS_FILE = "weights.safetensors"
FINAL = "final"
HELD_OUT_SHARE = 0.1
"""Share of pipelines held out to evaluate the shipped weights."""
_WITHOUT = "without "
_RANDOM = "random "


@dataclass(frozen=True)
class Trainer:
    """Trains in a worker process.

    Attributes:
        data: File of the data set.
        directory: Directory of the weights.
        epochs: Most epochs.
    """

    data: str
    directory: str
    epochs: int

    def train(self, held_out: str) -> Part:
        """Train with an app held out, or a share of all pipelines for the empty name; return the figures.

        Too few pipelines for a held-out app are not a failure: a later call has more.
        """
        dataset = _dataset(self.data)
        where = Path(self.directory) / (held_out or FINAL)
        settings = TrainSettings(optimiser=OptimiserSettings(epochs=self.epochs))
        try:
            parts = split(dataset, [held_out] if held_out else (), test=0.0 if held_out else HELD_OUT_SHARE)
        except InputError as error:
            return {"data": dataset.summary(), TOO_LITTLE if held_out else "error": str(error)}
        outcome = train(dataset, parts, settings, where, resume=False)
        figures = {name: summary.metrics() for name, summary in outcome.summaries.items()}
        return {
            "weights": str(outcome.weights),
            "source": dataset.source,
            "data": dataset.summary(),
            "figures": figures,
        }


@lru_cache(maxsize=1)
def _dataset(path: str) -> Dataset:
    with open(path, "rb") as file:
        found: Dataset = pickle.load(file)  # a trusted file, written by `run` in the campaign's directory
    return found


def run(context: Context) -> Outcome:
    """Train the weights to ship, then a model for each held-out app."""
    options = context.options
    target = target_of(options)
    samples = read_samples(options.out_path, target.name)
    if not samples:
        return Outcome(False, f"there are no samples for {target.name}: run the step collect first")
    target = target_of_labels(target, one_source(samples))
    store = FeatureStore(options.work_path / "features", target)
    dataset = build_dataset(samples, target, store, workers=options.processes)
    apps = options.hold_out or tuple(sorted({f for f in dataset.families if not f.startswith(_RANDOM)}))
    names = {FINAL: "", **{f"{_WITHOUT}{app}": app for app in apps}}
    # Figures on an older data set are dropped.
    done = {
        n
        for n, part in context.parts.items()
        if part.get("data") == dataset.summary() and ("figures" in part or TOO_LITTLE in part)
    }
    file = options.work_path / "dataset.pickle"
    with file.open("wb") as out:
        pickle.dump(dataset, out)
    trainer = Trainer(str(file), str(options.work_path / "train"), options.epochs)
    for name, part in do_parts(
        trainer, "train", [(n, app) for n, app in names.items() if n not in done],
        processes=options.processes, limit_s=float("inf"), deadline=context.deadline,
        environment={"OMP_NUM_THREADS": "1"},
    ):  # fmt: skip
        found: dict[str, Any] = {"error": part.message} if isinstance(part, Lost) else part
        if name == FINAL and "weights" in found:
            _keep(Path(found["weights"]), options.out_path / WEIGHTS_FILE)
        context.record(name, {k: v for k, v in found.items() if k != "weights"})
        done.add(name)
    failed = sum("error" in context.parts[n] for n in names if n in context.parts)
    return Outcome(done >= set(names), f"{len(done & set(names))} of {len(names)} models; {dataset.summary()}", failed)


def _keep(weights: Path, place: Path) -> None:
    beside = place.with_name(f".{place.name}")
    beside.write_bytes(weights.read_bytes())
    os.replace(beside, place)
