"""Check the samples of an operator for one element type."""

from __future__ import annotations

import logging
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from opinfo.execution import Backend, Coverage, results_and_gradients, translated
from opinfo.samples import Sample, Tolerance, belongs_to_tenth, operators, samples, tolerance


@dataclass(frozen=True)
class Row:
    """Outcome of the samples of an operator for one element type.

    Attributes:
        operator: Full name of the OpInfo.
        dtype: Element type.
        interpreted: Samples whose regions were right in the interpreter.
        compiled: Samples whose regions were right in C.
        translated: ATen operators of the regions.
        left: ATen operators that stayed PyTorch's, with the reason.
        rounded: Right samples that differ from eager PyTorch by more than the tolerance, but from float64 no more.
        decomposed: Right samples that differ from eager PyTorch as PyTorch's decompositions do, which draw random
            numbers and round in another order.
        skipped: Reasons of samples that were not checked, with their number.
        failures: Sample, backend and message of each failure.
        seconds: Time.
        emulated: Samples whose regions were right in the emulator of a GPU.
    """

    operator: str
    dtype: str
    interpreted: int
    compiled: int
    rounded: int
    decomposed: int
    translated: tuple[str, ...]
    left: dict[str, str]
    skipped: dict[str, int]
    failures: tuple[str, ...]
    seconds: float
    emulated: int = 0


def check_operator(
    name: str, dtype: torch.dtype, most: int | None = None, *, further: Sequence[Backend] = ("cpu",)
) -> Row:
    """Compare samples, forward and backward, with eager PyTorch.

    Args:
        name: Full name of the OpInfo.
        dtype: Element type.
        most: Most samples.
        further: Backends beside the interpreter, for a tenth of the samples.
    """
    start = time.perf_counter()
    op = operators()[name]
    coverage = Coverage()
    counts: Counter[Backend] = Counter()
    skipped: dict[str, int] = {}
    failures: list[str] = []
    rounded = decomposed = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        drawn = _drawn(op, dtype, most, skipped)
        for k, sample in enumerate(drawn):
            chosen = belongs_to_tenth(op, dtype, k, len(drawn))
            backends: tuple[Backend, ...] = ("interpreter", *further) if chosen else ("interpreter",)
            try:
                expected = results_and_gradients(sample.function, sample.tensors)
            except Exception as error:
                _count(skipped, f"eager: {_short(error)}")
                continue
            for backend in backends:
                reason, failure = _checked(sample, backend, expected, tolerance(op, dtype), coverage)
                if failure and is_decomposition(sample, backend, tolerance(op, dtype)):
                    failure = ""
                    decomposed += 1
                elif failure and is_rounding(sample, backend, expected):
                    failure = ""
                    rounded += 1
                if failure:
                    failures.append(f"sample {sample.number}, {backend}: {failure}")
                elif reason:
                    _count(skipped, reason)
                    break
                else:
                    counts[backend] += 1
        logging.disable(logging.NOTSET)
    return Row(
        name, str(dtype).removeprefix("torch."), counts["interpreter"], counts["cpu"], rounded, decomposed,
        tuple(sorted(coverage.translated)), coverage.left, skipped, tuple(failures),
        round(time.perf_counter() - start, 2), counts["emulator"],
    )  # fmt: skip


def _drawn(op: Any, dtype: torch.dtype, most: int | None, skipped: dict[str, int]) -> list[Sample]:
    try:
        return list(samples(op, dtype, most))
    except Exception as error:
        _count(skipped, f"samples: {_short(error)}")
        return []


def _checked(
    sample: Sample, backend: Backend, expected: Any, limits: Tolerance | None, coverage: Coverage
) -> tuple[str, str]:
    """Return the reason why a sample is not checked, or what failed; empty texts where it is right."""
    own = Coverage()
    function = sample.function
    try:
        found = results_and_gradients(translated(function, backend, own), sample.tensors)
        if not own.translated and not own.left and not own.refused:  # views alone: an operator that computes reads them
            function = with_results_used(function)
            found = results_and_gradients(translated(function, backend, own), sample.tensors)
            expected = results_and_gradients(function, sample.tensors)
    except Exception as error:
        if own.translated and not _raises(sample, "pytorch"):
            return "", _short(error)
        return f"graph: {_short(error)}", ""
    finally:
        coverage.translated |= own.translated
        coverage.left |= own.left
    if own.refused:
        return f"refused: {'; '.join(sorted(own.refused))}", ""
    if not own.translated:
        return "no region: " + ("; ".join(sorted(set(own.left.values()))) or "no operator that computes"), ""
    return "", _difference(found, expected, limits)


def _raises(sample: Sample, backend: Backend) -> bool:
    try:
        results_and_gradients(translated(sample.function, backend, Coverage()), sample.tensors)
    except Exception:
        return True
    return False


def is_decomposition(sample: Sample, backend: Backend, limits: Tolerance | None) -> bool:
    """Whether results are those of the decomposed graphs under PyTorch, unlike those of eager PyTorch."""
    try:
        expected = results_and_gradients(translated(sample.function, "pytorch", Coverage()), sample.tensors)
        found = results_and_gradients(translated(sample.function, backend, Coverage()), sample.tensors)
    except Exception:
        return False
    return not _difference(found, expected, limits)


def is_rounding(sample: Sample, backend: Backend, expected: Any, factor: float = 2.0) -> bool:
    """Whether results are as near to those of float64 as eager PyTorch's, within a factor.

    Sums of a few numbers that cancel differ by their order from any tolerance.

    Args:
        sample: The sample.
        backend: Backend of the regions.
        expected: Results and gradients of eager PyTorch.
        factor: Largest quotient of the root mean squares of both errors.
    """
    if not any(t.is_floating_point() and t.dtype != torch.float64 for t in sample.tensors):
        return False
    wide = tuple(
        t.detach().double().requires_grad_(t.requires_grad) if t.is_floating_point() else t for t in sample.tensors
    )
    try:
        exact = results_and_gradients(sample.function, wide)
        found = results_and_gradients(translated(sample.function, backend, Coverage()), sample.tensors)
    except Exception:
        return False
    for ours, theirs, right in zip(found, expected, exact, strict=True):
        for a, b, c in zip(ours, theirs, right, strict=True):
            if a is None or b is None or c is None:
                continue
            if not _is_as_near(a, b, c, factor):
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


def with_results_used(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose results are those of another, each read by an operator that computes."""

    def used(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        return value | False if value.dtype == torch.bool else value * 1

    return lambda *tensors: pytree.tree_map(used, function(*tensors))


def _difference(found: Any, expected: Any, limits: Tolerance | None) -> str:
    atol, rtol = limits or (None, None)
    for what, ours, theirs in zip(("result", "gradient"), found, expected, strict=True):
        if len(ours) != len(theirs):
            return f"{len(ours)} {what}s instead of {len(theirs)}"
        for k, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            if b is None or a is None:
                if (a is None) != (b is None) and (a if b is None else b).any():
                    return f"{what} {k}: {a} instead of {b}"
                continue
            default = b.is_floating_point() and atol is not None
            try:
                torch.testing.assert_close(
                    a, b, atol=atol if default else None, rtol=rtol if default else None, equal_nan=True
                )
            except AssertionError as error:
                return f"{what} {k} of shape {tuple(b.shape)}: {' '.join(str(error).split())}"
    return ""


def _count(counts: dict[str, int], reason: str) -> None:
    counts[reason] = counts.get(reason, 0) + 1


def _short(error: BaseException, most: int = 160) -> str:
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return text if len(text) <= most else f"{text[:most]}..."


def failed(rows: Sequence[Row]) -> bool:
    """Whether a sample of some rows failed."""
    return any(row.failures for row in rows)
