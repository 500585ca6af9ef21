"""Plan of a region's calls on the CPU: addresses that the compiled entry gets, and results."""

from __future__ import annotations

import base64
import builtins
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

Kind = Literal["argument", "result", "constant", "check", "workspace"]

MOST_CONSTANT_BYTES = 1 << 20
"""Most bytes of constants in a serialised plan."""


@dataclass(frozen=True)
class ResultForm:
    """A tensor that a region makes.

    Attributes:
        shape: Extents.
        strides: Strides in elements.
        dtype: Element type.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype


@dataclass(frozen=True)
class HostPlan:
    """Calls of a compiled region.

    Attributes:
        entry: Name of the function of the library.
        library: The compiled library; None if there is nothing to compute.
        addresses: For each address of the entry its kind, and an argument's, a result's, a constant's or a check's
            number, or an offset in bytes in the workspace.
        alignments: Bytes of an element for each argument that is read, by its number.
        results: The region's results in order, tensors to be made or numbers.
        is_tuple: Whether the region returns a tuple, even of one result.
        constants: Tensors that depend on no argument.
        checks: The error of each check, raised where its result is not zero.
        workspace_bytes: Size of the workspace.
        elements: Elements of all arrays of a call, which decide whether it is worth several threads.
    """

    entry: str
    library: Path | None
    addresses: tuple[tuple[Kind, int], ...]
    alignments: Mapping[int, int]
    results: tuple[ResultForm | int | None, ...]
    is_tuple: bool
    constants: tuple[torch.Tensor, ...]
    checks: tuple[tuple[type[Exception], str], ...]
    workspace_bytes: int
    elements: int

    def to_json(self) -> str | None:
        """Return the plan as text without its library; None for large constants or errors of other packages."""
        if sum(t.nbytes for t in self.constants) > MOST_CONSTANT_BYTES:
            return None
        if any(getattr(builtins, error.__name__, None) is not error for error, _ in self.checks):
            return None
        return json.dumps({
            "entry": self.entry,
            "addresses": self.addresses,
            "alignments": list(self.alignments.items()),
            "results": [[r.shape, r.strides, _name(r.dtype)] if isinstance(r, ResultForm) else r for r in self.results],
            "is_tuple": self.is_tuple,
            "constants": [_constant_text(t) for t in self.constants],
            "checks": [(error.__name__, text) for error, text in self.checks],
            "workspace_bytes": self.workspace_bytes,
            "elements": self.elements,
        })  # fmt: skip

    @classmethod
    def from_json(cls, text: str, library: Path | None) -> HostPlan:
        """Return the plan of a text from `to_json`.

        Args:
            text: The text.
            library: The compiled library.
        """
        data = json.loads(text)
        return cls(
            entry=data["entry"],
            library=library,
            addresses=tuple((kind, number) for kind, number in data["addresses"]),
            alignments={k: size for k, size in data["alignments"]},
            results=tuple(ResultForm(tuple(r[0]), tuple(r[1]), getattr(torch, r[2])) if isinstance(r, list) else r
                          for r in data["results"]),
            is_tuple=data["is_tuple"],
            constants=tuple(_constant(*parts) for parts in data["constants"]),
            checks=tuple((getattr(builtins, name), message) for name, message in data["checks"]),
            workspace_bytes=data["workspace_bytes"],
            elements=data["elements"],
        )  # fmt: skip


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _constant_text(tensor: torch.Tensor) -> tuple[str, tuple[int, ...], str]:
    flat = tensor.contiguous().reshape(-1).view(torch.uint8)
    return base64.b64encode(flat.numpy().tobytes()).decode(), tuple(tensor.shape), _name(tensor.dtype)


def _constant(data: str, shape: list[int], dtype: str) -> torch.Tensor:
    content = bytearray(base64.b64decode(data))
    element: Any = getattr(torch, dtype)
    if not content:
        return torch.empty(shape, dtype=element)
    return torch.frombuffer(content, dtype=torch.uint8).clone().view(element).reshape(shape)
