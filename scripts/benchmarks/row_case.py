"""A pipeline beside a library's function of the same results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from autosched import Pipeline

Arrays = dict[str, np.ndarray[Any, Any]]


@dataclass(frozen=True)
class RowCase:
    """A pipeline with its inputs, and a library's function of the same results.

    Attributes:
        name: Name in tables.
        pipeline: The pipeline.
        inputs: Returns its inputs.
        library: The library's name.
        call: The library's function.
        tolerance: Largest difference of the results, relative to the largest value.
    """

    name: str
    pipeline: Pipeline
    inputs: Callable[[], Arrays]
    library: str
    call: Callable[[], Any]
    tolerance: float = 1e-5
