"""Stages of many kernels, kernels of many schedules: rows one after the other, with the number of the owner of each."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class KernelBatch:
    """Everything a network reads about K kernels with R stages in all.

    Attributes:
        schedule: ``float[R, F]``, schedule features.
        algorithm: ``float[A, 280]``, algorithm features of the stages that occur.
        stage: ``int64[R]``, row of ``algorithm`` of each stage.
        kernel: ``int64[R]``, kernel of each stage, in ascending order.
        first: ``int64[K]``, first row of each kernel, that of its first root stage.
        parts: ``float[K, C]``, seconds each unit needs by the analytical model, and more to learn from (`Prior.names`).
    """

    schedule: Tensor
    algorithm: Tensor
    stage: Tensor
    kernel: Tensor
    first: Tensor
    parts: Tensor

    @property
    def count(self) -> int:
        """Kernels."""
        return int(self.first.shape[0])


def segment_sum(values: Tensor, owner: Tensor, count: int) -> Tensor:
    """Return the sums of rows with the same owner.

    Args:
        values: ``float[R, ...]``.
        owner: ``int64[R]``, below ``count``.
        count: Number of owners.

    Returns:
        ``float[count, ...]``, zeros for owners without rows.
    """
    return values.new_zeros((count, *values.shape[1:])).index_add(0, owner, values)


def segment_mean(values: Tensor, owner: Tensor, count: int) -> Tensor:
    """Return the means of rows with the same owner, as `segment_sum`."""
    rows = torch.bincount(owner, minlength=count).clamp(min=1).to(values.dtype)
    return segment_sum(values, owner, count) / rows.reshape(-1, *(1 for _ in values.shape[1:]))


def segment_max(values: Tensor, owner: Tensor, count: int) -> Tensor:
    """Return the largest of the rows with the same owner, ``float[count, H]``, zero where all are below.

    Args:
        values: ``float[R, H]``.
        owner: ``int64[R]``, below ``count``.
        count: Number of owners.
    """
    index = owner.unsqueeze(1).expand_as(values)
    return values.new_zeros((count, values.shape[1])).scatter_reduce(0, index, values, "amax")


def concatenated(starts: Tensor, lengths: Tensor) -> Tensor:
    """Return the positions ``start, start + 1, ...`` of all given runs one after the other, ``int64[sum]``."""
    ends = torch.cumsum(lengths, 0)
    offset = torch.repeat_interleave(starts - (ends - lengths), lengths)
    return torch.arange(int(lengths.sum())) + offset
