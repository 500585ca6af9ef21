from __future__ import annotations

import torch

from autosched.model.data.ragged import concatenated, segment_max, segment_mean, segment_sum

VALUES = torch.tensor([[1.0, -2.0], [3.0, -4.0], [5.0, 6.0]])
OWNER = torch.tensor([0, 0, 2])


def test_sums_means_and_maxima() -> None:
    assert segment_sum(VALUES, OWNER, 3).tolist() == [[4.0, -6.0], [0.0, 0.0], [5.0, 6.0]]
    assert segment_mean(VALUES, OWNER, 3).tolist() == [[2.0, -3.0], [0.0, 0.0], [5.0, 6.0]]
    assert segment_max(VALUES, OWNER, 3).tolist() == [[3.0, 0.0], [0.0, 0.0], [5.0, 6.0]]


def test_sum_of_vectors() -> None:
    assert segment_sum(torch.tensor([1.0, 2.0, 4.0]), torch.tensor([1, 0, 1]), 2).tolist() == [2.0, 5.0]


def test_concatenated_runs() -> None:
    assert concatenated(torch.tensor([7, 0, 3]), torch.tensor([2, 0, 3])).tolist() == [7, 8, 3, 4, 5]


def test_sums_have_derivatives() -> None:
    values = VALUES.clone().requires_grad_()
    segment_sum(values, OWNER, 3)[2].sum().backward()
    assert values.grad is not None
    assert values.grad.tolist() == [[0.0, 0.0], [0.0, 0.0], [1.0, 1.0]]
