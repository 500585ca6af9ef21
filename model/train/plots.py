"""Plots of predicted and measured times (extra ``report``)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from autosched.atomic_files import replace_file
from autosched.errors import InputError
from autosched.model.evaluation import PipelineScore
from autosched.model.predict.holdout_predictions import Predictions

BINS = 30


def save_plots(path: Path, predictions: Predictions, title: str) -> None:
    """Plot times, rank correlations of pipelines, and regret by the number of tried schedules.

    Args:
        path: The image file; its suffix determines the format.
        predictions: Predicted and measured times.
        title: Title; it should name the source of the labels.

    Raises:
        InputError: matplotlib is missing.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as e:
        raise InputError(f"plots need matplotlib ({e}); install autosched[report]") from e
    figure = Figure(figsize=(13, 4), layout="constrained")
    figure.suptitle(title)
    times, order, tried = figure.subplots(1, 3)
    _draw_times(times, predictions)
    _draw_order(order, predictions.scores())
    _draw_regret(tried, predictions)
    replace_file(path, lambda beside: figure.savefig(beside, format=path.suffix.lstrip(".") or "png", dpi=120))


def _draw_times(axes: Any, p: Predictions) -> None:
    low, high = min(p.measured.min(), p.predicted.min()), max(p.measured.max(), p.predicted.max())
    axes.loglog(p.measured, p.predicted, ".", markersize=2, alpha=0.4)
    axes.plot([low, high], [low, high], "k-", linewidth=0.8)
    axes.set(title="time of schedules", xlabel="label, s", ylabel="predicted, s")


def _draw_order(axes: Any, scores: list[PipelineScore]) -> None:
    correlations = [s.spearman for s in scores if np.isfinite(s.spearman)]
    axes.hist(correlations, bins=BINS)
    axes.set(title="order within a pipeline", xlabel="Spearman's rank correlation", ylabel="pipelines")


def _draw_regret(axes: Any, p: Predictions) -> None:
    most = 20
    curves = []
    for number in np.unique(p.pipeline):
        of_pipeline = p.pipeline == number
        measured = p.measured[of_pipeline][np.argsort(p.predicted[of_pipeline], kind="stable")]
        best = np.minimum.accumulate(measured)[:most] / measured.min() - 1
        curves.append(np.pad(best, (0, most - len(best))))
    mean = 100 * np.mean(curves, axis=0)
    axes.plot(range(1, most + 1), mean, ".-")
    axes.set(title="regret", xlabel="best predicted schedules tried", ylabel="mean loss, %")
    axes.set_ylim(bottom=0)
