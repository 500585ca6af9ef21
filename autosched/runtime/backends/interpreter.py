"""Run a pipeline in the NumPy interpreter, which ignores the schedule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.reference import interpret

Array = np.ndarray[Any, Any]


class InterpretedExecutable:
    """A pipeline in the NumPy interpreter.

    Args:
        bound: The pipeline.
    """

    def __init__(self, bound: BoundPipeline) -> None:
        self._bound = bound

    def run(self, inputs: Mapping[str, Array], outputs: Mapping[str, Array], scalars: Mapping[str, Any]) -> None:
        """Compute the outputs into their arrays.

        Args:
            inputs: Arrays by name.
            outputs: Arrays by name, which are written.
            scalars: Run-time parameters by name.
        """
        computed = interpret(self._bound.pipeline, inputs, {**self._bound.specialised, **scalars})
        for name, array in outputs.items():
            array[...] = computed[name]
