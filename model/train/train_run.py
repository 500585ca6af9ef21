"""A training run, from data to a directory with weights, figures and plots."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from autosched.atomic_files import replace_file
from autosched.model.architecture.ensemble import Ensemble, Network
from autosched.model.data.dataset import Dataset
from autosched.model.data.holdout import HoldoutSplit
from autosched.model.evaluation import EvaluationSummary, table
from autosched.model.predict.checkpoint import WeightsProvenance, save_checkpoint
from autosched.model.predict.holdout_predictions import Predictions, predict, predict_analytically
from autosched.model.predict.prediction_trust import min_analytical_ratio
from autosched.model.settings import TrainSettings
from autosched.model.train.training import EpochReport, Training

WEIGHTS_FILE = "model.safetensors"
FIGURES_FILE = "figures.json"
TABLE_FILE = "figures.md"
PLOTS_FILE = "figures.png"


@dataclass(frozen=True)
class TrainOutcome:
    """Result of a training run.

    Attributes:
        weights: The file of weights.
        provenance: Provenance of the weights, with figures.
        summaries: Figures on held-out pipelines (without any, on those of validation), by model.
        predictions: Predictions that the figures follow from.
    """

    weights: Path
    provenance: WeightsProvenance
    summaries: Mapping[str, EvaluationSummary]
    predictions: Predictions

    def table(self) -> str:
        """Return the figures as a Markdown table."""
        return table(self.summaries, self.provenance.source)


def train(
    dataset: Dataset, split: HoldoutSplit, settings: TrainSettings, directory: Path, *, resume: bool = False,
    curves: bool = False, plots: bool = False, report: Callable[[EpochReport], None] | None = None,
) -> TrainOutcome:  # fmt: skip
    """Train a network, evaluate it on held-out pipelines, and write all results into a directory.

    Args:
        dataset: The data.
        split: Pipelines of training, validation and test.
        settings: Network, loss, optimiser.
        directory: Directory of weights, state, figures, curves and plots.
        resume: Whether to resume from the state in the directory, if there is one.
        curves: Whether to write curves for TensorBoard.
        plots: Whether to plot predictions and labels.
        report: Called after each pass.

    Raises:
        InputError: The state belongs to another run, a file cannot be written, or an extra is missing.
    """
    trainings = [
        Training(dataset, split, _of_member(settings, k), directory=_of(directory, k), resume=resume)
        for k in range(settings.model.members)
    ]
    members = []
    for k, training in enumerate(trainings):
        with ExitStack() as stack:
            callbacks = [report] if report is not None else []
            if curves:
                from autosched.model.train.tensorboard import TensorboardLog

                callbacks.append(stack.enter_context(TensorboardLog(_of(directory, k) / "curves")).write)
            members.append(training.run(partial(_report_to, callbacks)))
    network: Network = members[0] if len(members) == 1 else Ensemble.of(members, dataset.target)
    test = split.held_out if len(split.held_out) else split.validation
    predictions = predict(network, dataset, test, settings.model.trust)
    summaries = {
        "learned": predictions.summary(),
        "analytical": predict_analytically(dataset, test).summary(),
    }
    least = min_analytical_ratio(dataset, np.intersect1d(split.training, dataset.own_pipelines))
    provenance = replace(trainings[0].provenance, metrics=summaries["learned"].metrics(), least_share=least)
    weights = directory / WEIGHTS_FILE
    save_checkpoint(weights, network, settings.model, provenance)
    outcome = TrainOutcome(weights, provenance, summaries, predictions)
    figures = {
        "source": provenance.source,
        "data": provenance.data,
        "held_out": len(split.held_out) > 0,
        **{name: s.metrics() for name, s in summaries.items()},
    }
    replace_file(directory / FIGURES_FILE, lambda beside: _write(beside, json.dumps(figures, indent=1)))
    replace_file(directory / TABLE_FILE, lambda beside: _write(beside, outcome.table() + "\n"))
    if plots:
        from autosched.model.train.plots import save_plots

        save_plots(directory / PLOTS_FILE, predictions, f"{settings.model.form}: labels {provenance.source}")
    return outcome


def _report_to(callbacks: Sequence[Callable[[EpochReport], None]], report: EpochReport) -> None:
    for callback in callbacks:
        callback(report)


def _of(directory: Path, member: int) -> Path:
    """Return the directory of an ensemble member's state."""
    return directory if member == 0 else directory / f"member{member}"


def _of_member(settings: TrainSettings, number: int) -> TrainSettings:
    """Return the training settings of an ensemble member: one network with a seed of its own."""
    optimiser = replace(settings.optimiser, seed=settings.optimiser.seed + number)
    return replace(settings, model=replace(settings.model, members=1), optimiser=optimiser)


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
