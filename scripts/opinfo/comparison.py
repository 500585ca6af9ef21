"""Comparison of results and gradients with eager PyTorch's."""

from __future__ import annotations

import torch

from opinfo.execution import Results
from opinfo.samples import Tolerance


def difference(found: Results, expected: Results, limits: Tolerance | None) -> str:
    """Return how results or gradients differ; an empty text if they agree.

    Args:
        found: Ours.
        expected: Those of eager PyTorch.
        limits: Absolute and relative tolerance of floating-point numbers; those of `torch.testing` if None.
    """
    atol, rtol = limits or (None, None)
    for what, ours, theirs in zip(("result", "gradient"), found, expected, strict=True):
        if len(ours) != len(theirs):
            return f"{len(ours)} {what}s instead of {len(theirs)}"
        for k, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            if b is None or a is None:
                if (a is None) != (b is None) and (a if b is None else b).any():  # type: ignore[union-attr]
                    return f"{what} {k}: {a} instead of {b}"
                continue
            if a.dtype == b.dtype and a.shape == b.shape and not a.is_complex() and torch.equal(a, b):
                continue
            default = b.is_floating_point() and atol is not None
            try:
                torch.testing.assert_close(
                    a, b, atol=atol if default else None, rtol=rtol if default else None, equal_nan=True
                )
            except AssertionError as error:
                return f"{what} {k} of shape {tuple(b.shape)}: {' '.join(str(error).split())}"
    return ""


def is_as_near_as_eager(found: Results, expected: Results, exact: Results, factor: float = 2.0) -> bool:
    """Whether results are as near to those of float64 as eager PyTorch's, within a factor.

    Args:
        found: Ours.
        expected: Those of eager PyTorch.
        exact: Those of eager PyTorch for operands of float64.
        factor: Largest quotient of the root mean squares of both errors.
    """
    for ours, theirs, right in zip(found, expected, exact, strict=True):
        for a, b, c in zip(ours, theirs, right, strict=True):
            if a is not None and b is not None and c is not None and not _is_as_near(a, b, c, factor):
                return False
    return True


def _is_as_near(ours: torch.Tensor, theirs: torch.Tensor, exact: torch.Tensor, factor: float) -> bool:
    """Whether finite numbers are as near to float64 as others, and the rest is equal."""
    if exact.dtype != torch.float64 or not theirs.is_floating_point():
        return torch.equal(ours, theirs)
    finite = exact.isfinite() & theirs.isfinite()
    if not torch.equal(ours[~finite].nan_to_num(nan=7.0), theirs[~finite].nan_to_num(nan=7.0)):
        return False
    if not finite.any():
        return True
    right = exact[finite]
    own, eager = ((v[finite].double() - right).square().mean().sqrt() for v in (ours, theirs))
    unit = torch.finfo(theirs.dtype).eps * right.square().mean().sqrt()
    return bool(own <= factor * eager + unit)
