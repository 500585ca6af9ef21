"""Parameters of an emulated kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np


@dataclass(frozen=True, slots=True)
class ParamSpec:
    """One parameter of a kernel, in the order of the generated text.

    Args:
        kind: "in" for GLOBAL_IN, "out" for GLOBAL_OUT (which the kernel may also read), "scalar" for SCALAR.
        dtype: Element type.
        name: Name in the generated text.
        count: Number of elements; 1 for a scalar.
    """

    kind: Literal["in", "out", "scalar"]
    dtype: np.dtype[Any]
    name: str
    count: int = 1
