"""One training run from data to weights, figures and plots in a directory."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from autosched.model.checkpoint import Provenance, save_checkpoint
from autosched.model.dataset import Dataset
from autosched.model.evaluation import Summary, table
from autosched.model.files import replace_file
from autosched.model.holdout import Split
from autosched.model.judging import Predictions, predict, predict_analytically
from autosched.model.settings import TrainSettings
from autosched.model.training import EpochReport, Training

WEIGHTS_FILE = "model.safetensors"
FIGURES_FILE = "figures.json"
TABLE_FILE = "figures.md"
PLOTS_FILE = "figures.png"


@dataclass(frozen=True)
class Outcome:
    """What came of a run.

    Attributes:
        weights: The file of weights.
        provenance: Where they come from, with figures.
        summaries: Figures on the pipelines that were held out (on those of validation if none were), by model.
        predictions: What they follow from.
    """

    weights: Path
    provenance: Provenance
    summaries: Mapping[str, Summary]
    predictions: Predictions

    def table(self) -> str:
        """Return the figures as a Markdown table."""
        return table(self.summaries, self.provenance.source)


def train(
    dataset: Dataset, split: Split, settings: TrainSettings, directory: Path, *, resume: bool = False,
    curves: bool = False, plots: bool = False, report: Callable[[EpochReport], None] | None = None,
) -> Outcome:  # fmt: skip
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
    training = Training(dataset, split, settings, directory=directory, resume=resume)
    with ExitStack() as stack:
        tell = [report] if report is not None else []
        if curves:
            from autosched.model.logbook import TensorboardLog

            tell.append(stack.enter_context(TensorboardLog(directory / "curves")).write)

        def each(found: EpochReport) -> None:
            for one in tell:
                one(found)

        network = training.run(each)
    judged = split.held_out if len(split.held_out) else split.validation
    predictions = predict(network, dataset, judged)
    summaries = {
        "learned": predictions.summary(),
        "analytical": predict_analytically(dataset, judged).summary(),
    }
    provenance = replace(training.provenance, metrics=summaries["learned"].metrics())
    weights = directory / WEIGHTS_FILE
    save_checkpoint(weights, network, settings.model, provenance)
    outcome = Outcome(weights, provenance, summaries, predictions)
    figures = {
        "source": provenance.source,
        "data": provenance.data,
        "held_out": len(split.held_out) > 0,
        **{name: s.metrics() for name, s in summaries.items()},
    }
    replace_file(directory / FIGURES_FILE, lambda beside: _write(beside, json.dumps(figures, indent=1)))
    replace_file(directory / TABLE_FILE, lambda beside: _write(beside, outcome.table() + "\n"))
    if plots:
        from autosched.model.plots import save_plots

        save_plots(directory / PLOTS_FILE, predictions, f"{settings.model.form}: labels {provenance.source}")
    return outcome


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
