"""Quality of predicted times for a search: rank correlation within a pipeline, regret, calibration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class PipelineScore:
    """Quality of predictions for one pipeline.

    Attributes:
        pipeline: Number of the pipeline in the data set.
        schedules: Number of compared schedules.
        spearman: Rank correlation of predicted and measured times; NaN for fewer than 3 schedules or equal times.
        regret1: Time of the best predicted schedule, relative to the fastest one, minus 1.
        regret5: The same for the fastest of the 5 best predicted schedules.
        ratio: Geometric mean of predicted over measured time.
        spread: Geometric standard deviation of predicted over measured time; 1 for a constant ratio.
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
    """Means over pipelines with equal weights.

    Attributes:
        pipelines: Number of pipelines.
        schedules: Number of their schedules.
        spearman: Mean rank correlation within a pipeline.
        spearman_p10: Tenth percentile of the rank correlation.
        regret1: Mean regret of the best predicted schedule.
        regret5: Mean regret of the five best predicted schedules.
        ratio: Geometric mean of predicted over measured time.
        off: Geometric mean of the error factor of a time.
        kernel_off: The same for times of kernels; NaN without labels.
        registers_off: Mean error of a thread's registers; NaN without labels.
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
        """Return all finite figures by name."""
        return {name: float(value) for name, value in asdict(self).items() if np.isfinite(value)}


def ranks(values: Floats) -> Floats:
    """Return the rank of each value from 0; equal values have their mean rank."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    group = np.concatenate([[0], np.cumsum(ordered[1:] != ordered[:-1])])
    first = np.searchsorted(group, np.arange(group[-1] + 1))
    last = np.concatenate([first[1:], [len(values)]])
    result = np.empty(len(values))
    result[order] = ((first + last - 1) / 2)[group]
    return result


def spearman(a: Floats, b: Floats) -> float:
    """Return Spearman's rank correlation; NaN for fewer than 3 values or a constant argument."""
    if len(a) < 3:
        return float("nan")
    x, y = ranks(a), ranks(b)
    x, y = x - x.mean(), y - y.mean()
    scale = np.sqrt((x**2).sum() * (y**2).sum())
    return float((x * y).sum() / scale) if scale > 0 else float("nan")


def regret(predicted: Floats, measured: Floats, count: int) -> float:
    """Return the time of the fastest of the ``count`` best predicted schedules, relative to the fastest one, minus 1.

    Args:
        predicted: ``float64[n]``; equal values keep their order.
        measured: ``float64[n]``.
        count: Number of tried schedules.
    """
    tried = np.argsort(predicted, kind="stable")[:count]
    return float(measured[tried].min() / measured.min() - 1)


def score_pipelines(predicted: Floats, measured: Floats, pipeline: Ints) -> list[PipelineScore]:
    """Return the score of each pipeline.

    Args:
        predicted: ``float64[N]``, predicted seconds of schedules.
        measured: ``float64[N]``, measured seconds.
        pipeline: ``int64[N]``, their pipelines.
    """
    scores = []
    for number in np.unique(pipeline):
        of_pipeline = pipeline == number
        p, m = predicted[of_pipeline], measured[of_pipeline]
        off = np.log(p / m)
        scores.append(
            PipelineScore(
                int(number), int(of_pipeline.sum()), spearman(p, m), regret(p, m, 1), regret(p, m, 5),
                float(np.exp(off.mean())), float(np.exp(off.std())),
            )
        )  # fmt: skip
    return scores


def summarise(
    scores: list[PipelineScore], *, kernel_off: float = np.nan, registers_off: float = np.nan
) -> EvaluationSummary:
    """Return means over pipelines.

    Args:
        scores: One for each pipeline; at least one.
        kernel_off: Mean error factor of kernel times.
        registers_off: Mean error of registers.
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
    """Return a Markdown table of summaries by name, with the source of the labels."""
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
