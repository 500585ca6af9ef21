"""One training run from data to weights, figures and plots in a directory."""

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
    """What came of a run.

    Attributes:
        weights: The file of weights.
        provenance: Where they come from, with figures.
        summaries: Figures on the pipelines that were held out (on those of validation if none were), by model.
        predictions: What they follow from.
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
    """Train a network, judge it on pipelines it has not seen, and write everything into a directory.

    Args:
        dataset: The data.
        split: Which pipelines are for what.
        settings: Network, loss, optimiser.
        directory: Where weights, state, figures, curves and plots go.
        resume: Whether to go on from the state there, if there is one.
        curves: Whether to write curves for TensorBoard.
        plots: Whether to draw predictions beside labels.
        report: Told after each pass.

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
            tell = [report] if report is not None else []
            if curves:
                from autosched.model.train.tensorboard import TensorboardLog

                tell.append(stack.enter_context(TensorboardLog(_of(directory, k) / "curves")).write)
            members.append(training.run(partial(_told, tell)))
    network: Network = members[0] if len(members) == 1 else Ensemble.of(members, dataset.target)
    judged = split.held_out if len(split.held_out) else split.validation
    predictions = predict(network, dataset, judged, settings.model.trust)
    summaries = {
        "learned": predictions.summary(),
        "analytical": predict_analytically(dataset, judged).summary(),
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


def _told(tell: Sequence[Callable[[EpochReport], None]], found: EpochReport) -> None:
    for one in tell:
        one(found)


def _of(directory: Path, member: int) -> Path:
    """Return where the state of a network of several goes."""
    return directory if member == 0 else directory / f"member{member}"


def _of_member(settings: TrainSettings, number: int) -> TrainSettings:
    """Return the settings with which one network of several is trained: those of a network, with a seed of its own."""
    optimiser = replace(settings.optimiser, seed=settings.optimiser.seed + number)
    return replace(settings, model=replace(settings.model, members=1), optimiser=optimiser)


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
