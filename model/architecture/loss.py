"""Loss of the training."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from autosched.model.architecture.network import REGISTERS, Predicted
from autosched.model.data.ragged import segment_sum
from autosched.model.settings import LossSettings

MOST_THROUGHPUT = 2.0
"""Predicted throughput, relative to the best, beyond which its logarithm counts, to limit the effect of outliers."""

NOISE = 0.03
"""Least difference of logarithmic measured times that determines an order."""
CERTAIN = 0.1
"""Scale of differences of logarithmic predicted times in the order loss."""


@dataclass(frozen=True)
class LossLabels:
    """Labels of a batch of schedules.

    Attributes:
        seconds: ``float[N]``, times of the schedules.
        pipeline: ``int64[N]``, numbers of their pipelines from 0.
        pipelines: Number of pipelines.
        entry_sample: ``int64[E]``, schedule of each kernel.
        entry_kernel: ``int64[E]``, kernel of the batch.
        entry_seconds: ``float[E]``, NaN if unknown.
        registers: ``float[E]``, NaN if unknown.
        spill_bytes: ``float[E]``, NaN if unknown.
    """

    seconds: Tensor
    pipeline: Tensor
    pipelines: int
    entry_sample: Tensor
    entry_kernel: Tensor
    entry_seconds: Tensor
    registers: Tensor
    spill_bytes: Tensor


def schedule_seconds(predicted: Tensor, labels: LossLabels) -> Tensor:
    """Return the predicted times of schedules, ``float[N]``: the sums over their kernels."""
    return segment_sum(predicted[labels.entry_kernel], labels.entry_sample, len(labels.seconds))


def throughput_loss(seconds: Tensor, labels: LossLabels) -> Tensor:
    """Return the mean squared error of throughputs relative to the best of the pipeline.

    The loss of Adams et al. and Anderson et al.; errors of slow schedules have little weight.

    Args:
        seconds: ``float[N]``, predicted times.
        labels: The labels.
    """
    fastest = torch.full((labels.pipelines,), torch.inf).scatter_reduce(0, labels.pipeline, labels.seconds, "amin")
    best = fastest[labels.pipeline]
    predicted = best / seconds.clamp(min=1e-12)
    beyond = MOST_THROUGHPUT * (1 + (predicted / MOST_THROUGHPUT).log())
    predicted = torch.where(predicted > MOST_THROUGHPUT, beyond, predicted)
    return ((predicted - best / labels.seconds) ** 2).mean()


def time_loss(seconds: Tensor, labels: LossLabels) -> Tensor:
    """Return the mean error of the logarithms of times, in which slow schedules have weight too."""
    return _robust(seconds.clamp(min=1e-12).log() - labels.seconds.log())


def order_loss(seconds: Tensor, labels: LossLabels) -> Tensor:
    """Return the pairwise ranking loss of each pipeline's schedules.

    The logistic loss of RankNet (Burges et al. 2005) on differences of logarithmic times; pairs within noise do not
    count.

    Args:
        seconds: ``float[N]``, predicted times.
        labels: The labels.
    """
    predicted, measured = seconds.clamp(min=1e-12).log(), labels.seconds.log()
    slower = measured[:, None] - measured[None, :] > NOISE
    pairs = slower & (labels.pipeline[:, None] == labels.pipeline[None, :])
    if not pairs.any():
        return seconds.new_zeros(())
    differences = (predicted[:, None] - predicted[None, :])[pairs]
    return functional.softplus(-differences / CERTAIN).mean()


def kernel_loss(seconds: Tensor, labels: LossLabels) -> Tensor:
    """Return the mean error of the logarithms of kernels' times, weighted by their share of the pipeline's time.

    Args:
        seconds: ``float[K]``, predicted times of kernels.
        labels: The labels.
    """
    timed = labels.entry_seconds > 0
    if not timed.any():
        return seconds.new_zeros(())
    measured = labels.entry_seconds[timed]
    share = measured / labels.seconds[labels.entry_sample[timed]]
    weight = share.clamp(max=1.0).sqrt()  # the root gives small kernels more weight
    error = functional.smooth_l1_loss(
        seconds[labels.entry_kernel[timed]].clamp(min=1e-12).log(), measured.log(), reduction="none", beta=0.5
    )
    return (error * weight).sum() / weight.sum()


def resource_loss(predicted: Predicted, labels: LossLabels) -> Tensor:
    """Return the mean error of registers (in units of 32) and of the logarithm of spilled bytes."""
    measured = torch.isfinite(labels.registers) & torch.isfinite(labels.spill_bytes)
    if not measured.any():
        return predicted.seconds.new_zeros(())
    kernel = labels.entry_kernel[measured]
    registers = _robust((predicted.registers[kernel] - labels.registers[measured]) / REGISTERS)
    return registers + _robust(predicted.log_spills[kernel] - torch.log1p(labels.spill_bytes[measured]))


def total_loss(predicted: Predicted, labels: LossLabels, settings: LossSettings) -> tuple[Tensor, dict[str, float]]:
    """Return the weighted sum of all terms, and the terms by name.

    Args:
        predicted: Predictions for the kernels.
        labels: The labels.
        settings: Weights of the terms.
    """
    seconds = schedule_seconds(predicted.seconds, labels)
    terms = {
        "throughput": (settings.throughput, throughput_loss(seconds, labels)),
        "time": (settings.time, time_loss(seconds, labels)),
        "order": (settings.order, order_loss(seconds, labels)),
        "kernel": (settings.kernel, kernel_loss(predicted.seconds, labels)),
        "resources": (settings.resources, resource_loss(predicted, labels)),
        "negative": (settings.negative, predicted.negative),
    }
    total = torch.stack([weight * term for weight, term in terms.values()]).sum()
    return total, {name: float(term.detach()) for name, (_, term) in terms.items()}


def _robust(error: Tensor) -> Tensor:
    return functional.smooth_l1_loss(error, torch.zeros_like(error), beta=0.5)
