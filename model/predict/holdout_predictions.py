"""Predictions of a network for held-out pipelines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from autosched.model.architecture.ensemble import Network
from autosched.model.architecture.loss import schedule_seconds
from autosched.model.architecture.network import Predicted
from autosched.model.data.batches import Batches
from autosched.model.data.dataset import Dataset
from autosched.model.data.ragged import KernelBatch
from autosched.model.evaluation import EvaluationSummary, PipelineScore, score_pipelines, summarise
from autosched.model.predict.analytical_prior import analytical_seconds
from autosched.model.predict.prediction_trust import blend_with_analytical

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

BATCH = 2048
"""Schedules of a batch."""


@dataclass(frozen=True)
class Predictions:
    """Predicted and measured values.

    Attributes:
        predicted: ``float64[N]``, seconds of schedules.
        measured: ``float64[N]``.
        pipeline: ``int64[N]``, number of the pipeline.
        kernel_predicted: ``float64[E]``, seconds of kernels with a measured time.
        kernel_measured: ``float64[E]``.
        registers_predicted: ``float64[G]``, registers of kernels with known registers.
        registers_measured: ``float64[G]``.
    """

    predicted: Floats
    measured: Floats
    pipeline: Ints
    kernel_predicted: Floats
    kernel_measured: Floats
    registers_predicted: Floats
    registers_measured: Floats

    def scores(self) -> list[PipelineScore]:
        """Return the score of each pipeline."""
        return score_pipelines(self.predicted, self.measured, self.pipeline)

    def summary(self) -> EvaluationSummary:
        """Return the means over pipelines."""
        off, registers = np.log(self.kernel_predicted / self.kernel_measured), self.registers_predicted
        return summarise(
            self.scores(),
            kernel_off=float(np.exp(np.sqrt((off**2).mean()))) if len(off) else float("nan"),
            registers_off=float(abs(registers - self.registers_measured).mean()) if len(registers) else float("nan"),
        )


@torch.no_grad()
def predict(network: Network, dataset: Dataset, pipelines: Ints, trust: float = 1.0) -> Predictions:
    """Return a network's predictions for all schedules of pipelines.

    Args:
        network: The network.
        dataset: The data.
        pipelines: ``int64[p]``, at least one.
        trust: Weight of the network (`ModelSettings.trust`).
    """

    def predicted(batch: KernelBatch) -> Predicted:
        result: Predicted = network(batch)
        return replace(result, seconds=blend_with_analytical(result.seconds, analytical_seconds(batch.parts), trust))

    return _collect(dataset, pipelines, predicted)


def predict_analytically(dataset: Dataset, pipelines: Ints) -> Predictions:
    """Return the times of the search's analytical model, for comparison; registers are unknown."""

    def analytical(batch: KernelBatch) -> Predicted:
        seconds = analytical_seconds(batch.parts)
        unknown = torch.full_like(seconds, torch.nan)
        return Predicted(seconds, unknown, unknown, seconds.new_zeros(()))

    return _collect(dataset, pipelines, analytical)


def _collect(dataset: Dataset, pipelines: Ints, predicted: Callable[[KernelBatch], Predicted]) -> Predictions:
    batches = Batches(dataset)
    samples = dataset.samples_of(pipelines)
    columns: list[list[Floats]] = [[] for _ in range(6)]
    for start in range(0, len(samples), BATCH):
        kernels, labels = batches.batch(torch.from_numpy(samples[start : start + BATCH]))
        result = predicted(kernels)
        of_entry, registers = result.seconds[labels.entry_kernel], result.registers[labels.entry_kernel]
        timed = labels.entry_seconds > 0
        measured = torch.isfinite(labels.registers) & torch.isfinite(registers)
        values = (
            schedule_seconds(result.seconds, labels), labels.seconds, of_entry[timed], labels.entry_seconds[timed],
            registers[measured], labels.registers[measured],
        )  # fmt: skip
        for column, value in zip(columns, values, strict=True):
            column.append(value.double().numpy())
    values_of = [np.concatenate(column) for column in columns]
    return Predictions(values_of[0], values_of[1], dataset.pipeline[samples], *values_of[2:])
