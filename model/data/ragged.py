"""Ragged tensors: concatenated rows with the number of each row's owner, such as stages of kernels."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class KernelBatch:
    """Input of a network: K kernels with R stages.

    Attributes:
        schedule: ``float[R, F]``, schedule features.
        algorithm: ``float[A, 280]``, algorithm features of the distinct stages.
        stage: ``int64[R]``, row of ``algorithm`` of each stage.
        kernel: ``int64[R]``, kernel of each stage, in ascending order.
        first: ``int64[K]``, first row of each kernel, that of its first root stage.
        parts: ``float[K, C]``, analytical seconds of each unit, and further inputs (`Prior.names`).
    """

    schedule: Tensor
    algorithm: Tensor
    stage: Tensor
    kernel: Tensor
    first: Tensor
    parts: Tensor

    @property
    def count(self) -> int:
        """Number of kernels."""
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
    """Return the maximum of the rows with the same owner and zero, ``float[count, H]``.

    Args:
        values: ``float[R, H]``.
        owner: ``int64[R]``, below ``count``.
        count: Number of owners.
    """
    index = owner.unsqueeze(1).expand_as(values)
    return values.new_zeros((count, values.shape[1])).scatter_reduce(0, index, values, "amax")


def concatenated(starts: Tensor, lengths: Tensor) -> Tensor:
    """Return the concatenated positions ``start, start + 1, ...`` of runs, ``int64[sum]``."""
    ends = torch.cumsum(lengths, 0)
    offset = torch.repeat_interleave(starts - (ends - lengths), lengths)
    return torch.arange(int(lengths.sum())) + offset
