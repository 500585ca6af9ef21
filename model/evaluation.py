"""How well predicted times serve a search: order within a pipeline, regret of the best predicted, calibration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class PipelineScore:
    """What predictions are worth for one pipeline.

    Attributes:
        pipeline: Its number in the data set.
        schedules: How many of its schedules were compared.
        spearman: Rank correlation of predicted and measured times; NaN for fewer than 3 schedules or equal times.
        regret1: What the schedule predicted to be the fastest takes, over the fastest one's time, minus 1.
        regret5: The same for the fastest of the 5 that are predicted to be.
        ratio: Geometric mean of predicted over measured time.
        spread: Geometric deviation of predicted over measured time from that mean; 1 is none.
    """

    pipeline: int
    schedules: int
    spearman: float
    regret1: float
    regret5: float
    ratio: float
    spread: float


@dataclass(frozen=True)
class EvaluationSummary:
    """Means over pipelines, each counting the same.

    Attributes:
        pipelines: How many there are.
        schedules: Schedules of all of them.
        spearman: Mean rank correlation within a pipeline.
        spearman_p10: Tenth percentile of it.
        regret1: Mean regret of the best predicted schedule.
        regret5: Mean regret of the five best predicted ones.
        ratio: Geometric mean of predicted over measured time.
        off: Geometric mean of the factor by which a time is wrong, either way.
        kernel_off: The same for the times of single kernels; NaN where none is known.
        registers_off: Mean error of registers of a thread; NaN where none is known.
    """

    pipelines: int
    schedules: int
    spearman: float
    spearman_p10: float
    regret1: float
    regret5: float
    ratio: float
    off: float
    kernel_off: float = float("nan")
    registers_off: float = float("nan")

    def metrics(self) -> dict[str, float]:
        """Return all figures by name, without those that are not known."""
        return {name: float(value) for name, value in asdict(self).items() if np.isfinite(value)}


def ranks(values: Floats) -> Floats:
    """Return the rank of each value from 0, equal ones sharing the mean of theirs."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    group = np.concatenate([[0], np.cumsum(ordered[1:] != ordered[:-1])])
    first = np.searchsorted(group, np.arange(group[-1] + 1))
    last = np.concatenate([first[1:], [len(values)]])
    found = np.empty(len(values))
    found[order] = ((first + last - 1) / 2)[group]
    return found


def spearman(a: Floats, b: Floats) -> float:
    """Return Spearman's rank correlation; NaN for fewer than 3 values or where all of one side are equal."""
    if len(a) < 3:
        return float("nan")
    x, y = ranks(a), ranks(b)
    x, y = x - x.mean(), y - y.mean()
    scale = np.sqrt((x**2).sum() * (y**2).sum())
    return float((x * y).sum() / scale) if scale > 0 else float("nan")


def regret(predicted: Floats, measured: Floats, count: int) -> float:
    """Return how much longer than the fastest schedule the best of the ``count`` best predicted ones takes.

    Args:
        predicted: ``float64[n]``, equal values in the order in which they stand.
        measured: ``float64[n]``.
        count: Schedules that are tried.
    """
    tried = np.argsort(predicted, kind="stable")[:count]
    return float(measured[tried].min() / measured.min() - 1)


def score_pipelines(predicted: Floats, measured: Floats, pipeline: Ints) -> list[PipelineScore]:
    """Return the score of each pipeline.

    Args:
        predicted: ``float64[N]``, predicted seconds of schedules.
        measured: ``float64[N]``, measured ones.
        pipeline: ``int64[N]``, whose they are.
    """
    found = []
    for number in np.unique(pipeline):
        own = pipeline == number
        p, m = predicted[own], measured[own]
        off = np.log(p / m)
        found.append(
            PipelineScore(
                int(number), int(own.sum()), spearman(p, m), regret(p, m, 1), regret(p, m, 5),
                float(np.exp(off.mean())), float(np.exp(off.std())),
            )
        )  # fmt: skip
    return found


def summarise(
    scores: list[PipelineScore], *, kernel_off: float = np.nan, registers_off: float = np.nan
) -> EvaluationSummary:
    """Return means over pipelines.

    Args:
        scores: One for each pipeline; at least one.
        kernel_off: Factor by which single kernels are off.
        registers_off: Registers by which predictions are off.
    """
    ranked = np.array([s.spearman for s in scores if np.isfinite(s.spearman)] or [np.nan])
    ratio = np.log([s.ratio for s in scores])
    off = np.hypot(ratio, np.log([s.spread for s in scores]))
    return EvaluationSummary(
        len(scores), sum(s.schedules for s in scores),
        float(ranked.mean()), float(np.percentile(ranked, 10)),
        float(np.mean([s.regret1 for s in scores])), float(np.mean([s.regret5 for s in scores])),
        float(np.exp(ratio.mean())), float(np.exp(off.mean())), kernel_off, registers_off,
    )  # fmt: skip


def table(rows: Mapping[str, EvaluationSummary], source: str) -> str:
    """Return a Markdown table of summaries by name, headed by where the labels come from."""
    lines = [
        f"Labels: {source}", "",
        "| | pipelines | schedules | Spearman | 10th perc. | top-1 regret | top-5 regret | ratio | off by |",
        "|---|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for name, s in rows.items():
        lines.append(
            f"| {name} | {s.pipelines} | {s.schedules} | {s.spearman:.3f} | {s.spearman_p10:.3f} "
            f"| {100 * s.regret1:.1f} % | {100 * s.regret5:.1f} % | {s.ratio:.2f} | {s.off:.2f}x |"
        )
    return "\n".join(lines)
