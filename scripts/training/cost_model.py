"""Training of cost models, configured by `configs/train.yaml`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from omegaconf import DictConfig, OmegaConf
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from autosched.atomic_files import replace_file
from autosched.errors import InputError
from autosched.measure.simulated.version import other_simulation
from autosched.measure.store.cpu_labels import target_of_labels
from autosched.measure.store.labels import open_labels
from autosched.model.data.dataset import Dataset, build_dataset
from autosched.model.data.feature_store import FeatureStore
from autosched.model.data.holdout import split
from autosched.model.data.pipeline_kinds import all_kinds
from autosched.model.data.samples import one_source
from autosched.model.data.samples_from_measurements import samples_from
from autosched.model.evaluation import EvaluationSummary, PipelineScore, summarise, table
from autosched.model.predict.holdout_predictions import predict_analytically
from autosched.model.settings import LossSettings, ModelSettings, OptimiserSettings, TrainSettings
from autosched.model.train.train_run import TrainOutcome, train
from autosched.model.train.training import RANDOM, EpochReport
from autosched.schedule.io.typed_json import read_settings
from autosched.target import get_target

CONSOLE = Console(stderr=True)
EACH = "each"
FOLDS_FILE = "folds.md"


def settings_of(config: DictConfig) -> TrainSettings:
    """Return the settings of network, loss and optimiser."""
    plain: Any = OmegaConf.to_container(config, resolve=False)
    return TrainSettings(
        read_settings(plain["model"], "model", ModelSettings),
        read_settings(plain["loss"], "loss", LossSettings),
        read_settings(plain["optimiser"], "optimiser", OptimiserSettings),
    )


def bar(unit: str) -> Progress:
    return Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn(unit), TimeElapsedColumn(),
        TextColumn("{task.fields[note]}"), console=CONSOLE,
    )  # fmt: skip


def load_data(config: DictConfig) -> Dataset:
    """Return the data set of the configuration."""
    data = config.data
    if data.beside and config.model.form == "paper":  # its components depend on one device's number of multiprocessors
        raise InputError("model=paper learns from one device: leave out data.beside, or take model=timed")
    dataset = load_labels(config, listed(data.path), data.source, data.generator)
    for path in listed(data.beside):
        dataset = dataset.joined(load_labels(config, [path]))
    return dataset


def listed(paths: Any) -> list[str]:
    """Return the files of a setting with one or several paths."""
    return [paths] if isinstance(paths, str) else list(paths)


def load_labels(
    config: DictConfig, paths: list[str], source: str | None = None, generator: str | None = None
) -> Dataset:
    """Return the data of one source."""
    data, target = config.data, get_target(config.target)
    with closing(open_labels(paths)) as labels:
        samples = samples_from(labels, target.name, source=source, generator=generator)
    target = target_of_labels(target, one_source(samples))
    with bar("pipelines") as progress:
        task = progress.add_task("features", note="")
        return build_dataset(
            samples, target, FeatureStore(data.cache, target), workers=data.workers,
            progress=lambda done, total: progress.update(task, completed=done, total=total),
        )  # fmt: skip


def run(
    config: DictConfig, dataset: Dataset, held_out: list[str], directory: Path, kinds: Sequence[str] = ()
) -> TrainOutcome:
    """Train one model without some families and kinds of pipelines, and show the progress."""
    data, settings = config.data, settings_of(config)
    unseen = [*held_out, *kinds]
    parts = split(
        dataset, held_out, kinds=kinds, validation=data.validation, test=data.test if not unseen else 0.0,
        seed=settings.optimiser.seed,
    )  # fmt: skip
    with bar("passes") as progress:
        without = unseen[0] if len(unseen) == 1 else f"{len(unseen)} families or kinds"
        name = f"without {without}" if unseen else "training"
        task = progress.add_task(name, total=settings.optimiser.epochs, note="")

        def report(epoch: EpochReport) -> None:
            note = f"error {epoch.error:.4f}, best {epoch.best:.4f}"
            progress.update(task, completed=epoch.epoch, note=note)

        return train(
            dataset, parts, settings, directory, resume=config.resume, curves=config.curves, plots=config.plots,
            report=report,
        )  # fmt: skip


def each_app(config: DictConfig, dataset: Dataset, directory: Path, chosen: list[str]) -> dict[str, EvaluationSummary]:
    """Train a model for each held-out app; return the figures on the held-out apps, by app and model."""
    rows: dict[str, EvaluationSummary] = {}
    for app in chosen or [f for f in dataset.own_families if not f.startswith(RANDOM)]:
        outcome = run(config, dataset, [app], directory / app)
        rows |= {f"{app}, {name}": s for name, s in outcome.summaries.items()}
    return rows


def each_kind(config: DictConfig, dataset: Dataset, directory: Path, chosen: list[str]) -> dict[str, EvaluationSummary]:
    """Train a model without each kind of pipelines; return the figures on the kinds, by kind and model."""
    rows: dict[str, EvaluationSummary] = {}
    for kind in chosen or all_kinds(dataset.own_families):
        outcome = run(config, dataset, [], directory / kind, [kind])
        rows |= {f"{kind}, {name}": s for name, s in outcome.summaries.items()}
    return rows


def cross_validated(config: DictConfig, dataset: Dataset, directory: Path) -> dict[str, EvaluationSummary]:
    """Train a model for each fold of held-out pipelines; return the figures on all pipelines.

    With few pipelines, figures on a single held-out tenth depend strongly on the split.
    """
    families = dataset.own_families
    order = np.random.default_rng(config.optimiser.seed).permutation(len(families))
    scores: list[PipelineScore] = []
    for k in range(config.folds):
        group = [families[f] for f in order[k :: config.folds]]
        scores += run(config, dataset, group, directory / f"fold{k}").predictions.scores()
    summaries = {
        "learned": summarise(scores),
        "analytical": predict_analytically(dataset, dataset.own_pipelines).summary(),
    }
    text = table(summaries, dataset.source) + "\n"
    replace_file(directory / FOLDS_FILE, lambda beside: beside.write_text(text, encoding="utf-8"))
    return summaries


def train_and_print(config: DictConfig) -> None:
    """Train the models of a configuration and print figures on held-out pipelines."""
    dataset = load_data(config)
    print(dataset.summary())
    if note := other_simulation(dataset.source, dataset.target):
        print(f"note: {note}")
    for reason, count in dataset.left_out.items():
        print(f"left out: {count} schedules ({reason})")
    directory = Path(config.output)
    held_out: list[Any] = OmegaConf.to_container(config.hold_out)  # type: ignore[assignment]
    kinds: list[Any] = OmegaConf.to_container(config.hold_out_kinds)  # type: ignore[assignment]
    if EACH in held_out and kinds:
        raise InputError("hold_out=[each] trains without one app at a time: leave out hold_out_kinds, or run it alone")
    if held_out[:1] == [EACH]:
        print(table(each_app(config, dataset, directory, held_out[1:]), dataset.source))
    elif kinds[:1] == [EACH]:
        print(table(each_kind(config, dataset, directory, kinds[1:]), dataset.source))
    else:
        if config.folds:
            figures = cross_validated(config, dataset, directory)
            print(f"{config.folds}-fold cross-validation\n\n{table(figures, dataset.source)}\n")
        outcome = run(config, dataset, held_out, directory, kinds)
        print(outcome.table())
        print(f"weights in {outcome.weights}")
