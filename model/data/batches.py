"""Batches of a data set as tensors: the distinct kernels of schedules, and their labels."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from autosched.model.architecture.loss import LossLabels
from autosched.model.data.dataset import Dataset
from autosched.model.data.ragged import KernelBatch, concatenated

Ints = NDArray[np.int64]


class Batches:
    """Batches from a data set's arrays as tensors.

    Args:
        dataset: The data.
    """

    def __init__(self, dataset: Dataset) -> None:
        self.schedule = torch.from_numpy(dataset.schedule)
        self.algorithm = torch.from_numpy(dataset.algorithm)
        self.stage = torch.from_numpy(dataset.stage)
        self.row_start = torch.from_numpy(dataset.row_start)
        self.parts = torch.from_numpy(dataset.parts)
        self.entry_kernel = torch.from_numpy(dataset.entry_kernel)
        self.entry_seconds = torch.from_numpy(dataset.entry_seconds)
        self.registers = torch.from_numpy(dataset.registers)
        self.spill_bytes = torch.from_numpy(dataset.spill_bytes)
        self.sample_start = torch.from_numpy(dataset.sample_start)
        self.seconds = torch.from_numpy(dataset.seconds).float()
        self.pipeline = torch.from_numpy(dataset.pipeline)

    def kernels(self, numbers: Tensor) -> KernelBatch:
        """Return distinct kernels, given as ``int64[K]``, as input of a network."""
        starts = self.row_start[numbers]
        lengths = self.row_start[numbers + 1] - starts
        rows = concatenated(starts, lengths)
        used, stage = torch.unique(self.stage[rows], return_inverse=True)
        owner = torch.repeat_interleave(torch.arange(len(numbers)), lengths)
        return KernelBatch(
            self.schedule[rows], self.algorithm[used], stage, owner, torch.cumsum(lengths, 0) - lengths,
            self.parts[numbers],
        )  # fmt: skip

    def batch(self, samples: Tensor) -> tuple[KernelBatch, LossLabels]:
        """Return the distinct kernels of schedules, given as ``int64[N]``, and the labels."""
        starts = self.sample_start[samples]
        lengths = self.sample_start[samples + 1] - starts
        entries = concatenated(starts, lengths)
        numbers, entry_kernel = torch.unique(self.entry_kernel[entries], return_inverse=True)
        pipelines, pipeline = torch.unique(self.pipeline[samples], return_inverse=True)
        owner = torch.repeat_interleave(torch.arange(len(samples)), lengths)
        labels = LossLabels(
            self.seconds[samples], pipeline, len(pipelines), owner, entry_kernel,
            self.entry_seconds[entries], self.registers[entries], self.spill_bytes[entries],
        )  # fmt: skip
        return self.kernels(numbers), labels


def steps(dataset: Dataset, pipelines: Ints, schedules: int, per_step: int, rng: np.random.Generator) -> list[Ints]:
    """Return the schedules of each step of one pass, with pipelines and their schedules in random order.

    As in the paper's code, a pipeline's schedules are split into groups for comparison; a step has several groups.

    Args:
        dataset: The data.
        pipelines: Pipelines of the pass, ``int64[p]``.
        schedules: Most schedules of a group.
        per_step: Groups of a step.
        rng: Source of randomness.
    """
    groups: list[Ints] = []
    for p in pipelines:
        of_pipeline = rng.permutation(np.flatnonzero(dataset.pipeline == p))
        groups += [g for g in np.array_split(of_pipeline, -(-len(of_pipeline) // schedules)) if len(g) > 1]
    order = rng.permutation(len(groups))
    return [
        np.concatenate([groups[k] for k in order[start : start + per_step]]) for start in range(0, len(order), per_step)
    ]
