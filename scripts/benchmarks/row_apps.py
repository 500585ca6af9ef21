"""The suite's apps of rows (softmax, norms, attention) beside PyTorch, at rows of 64 to 50,257 elements."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from typing import Any

import torch
from torch.nn import functional

from autosched.apps import get_app
from benchmarks.row_case import Arrays, RowCase

ELEMENTS = 1 << 22
"""Of all rows together."""
ROWS = (64, 771, 8192, 50_257)
GROUPS: Mapping[int, tuple[int, int]] = {64: (4, 16), 771: (3, 257), 8192: (8, 1024), 50_257: (29, 1733)}
"""Channels and pixels of a group with so many elements."""
ATTENTION = tuple(
    {"B": b, "H": 4, "Q": keys, "K": keys, "D": size} for b, keys in ((2, 257), (1, 2048)) for size in (32, 64)
)
Tensors = dict[str, torch.Tensor]


def _cross_entropy(t: Tensors) -> torch.Tensor:
    return functional.cross_entropy(t["input"], t["target"], reduction="none")


def _rms_norm(t: Tensors) -> list[torch.Tensor]:
    hidden = t["input"] + t["residual"]
    return [functional.rms_norm(hidden, hidden.shape[1:], t["weight"], 1e-6), hidden]


def _layer_norm(t: Tensors) -> torch.Tensor:
    return functional.layer_norm(t["input"], t["input"].shape[1:], t["gain"], t["bias"])


def _group_norm(t: Tensors) -> torch.Tensor:
    images, groups, channels, pixels = t["input"].shape
    values = t["input"].view(images, groups * channels, pixels)
    result = functional.group_norm(values, groups, t["gain"].view(-1), t["bias"].view(-1))
    return result.view(images, groups, channels, pixels)


def _attention(t: Tensors, causal: bool = False) -> torch.Tensor:
    mask = t["mask"][:, None] if "mask" in t else None
    return functional.scaled_dot_product_attention(t["query"], t["key"], t["value"], attn_mask=mask, is_causal=causal)


PEERS: Mapping[str, Callable[[Tensors], Any]] = {
    "softmax": lambda t: functional.softmax(t["input"], -1),
    "cross_entropy": _cross_entropy,
    "rms_norm": _rms_norm,
    "layer_norm": _layer_norm,
    "layer_norm_softmax": lambda t: functional.softmax(_layer_norm(t), -1),
    "group_norm": _group_norm,
    "attention": _attention,
    "masked_attention": _attention,
    "causal_attention": partial(_attention, causal=True),
}
"""PyTorch's functions by app, of tensors by input."""


def row_apps() -> Iterator[RowCase]:
    """Yield every app of rows at every length, and attention with few and with many keys."""
    for name in PEERS:
        for sizes in ATTENTION if name.endswith("attention") else map(partial(_sizes, name), ROWS):
            given = tuple(sizes.items())
            yield RowCase(
                f"{name} {_size_text(sizes)}", get_app(name).build(), partial(_inputs, name, given), "PyTorch",
                partial(_call_peer, name, given),
            )  # fmt: skip


def _sizes(name: str, columns: int) -> dict[str, int]:
    """Return the sizes of an app with rows of so many elements."""
    rows = ELEMENTS // columns
    if name != "group_norm":
        return {"R": 4095 if name == "layer_norm_softmax" and columns == 771 else rows, "C": columns}
    channels, pixels = GROUPS[columns]
    groups = math.gcd(rows, 32) if math.gcd(rows, 32) > 1 else 1
    return {"N": rows // groups, "G": groups, "C": channels, "P": pixels}


def _size_text(sizes: Mapping[str, int]) -> str:
    return " x ".join(str(n) for key, n in sizes.items() if key != "Q")


@lru_cache(maxsize=1)
def _inputs(name: str, sizes: tuple[tuple[str, int], ...]) -> Arrays:
    return get_app(name).make_inputs(dict(sizes))


@lru_cache(maxsize=1)
def _tensors(name: str, sizes: tuple[tuple[str, int], ...]) -> Tensors:
    return {key: torch.from_numpy(array) for key, array in _inputs(name, sizes).items()}


def _call_peer(name: str, sizes: tuple[tuple[str, int], ...]) -> Any:
    result = PEERS[name](_tensors(name, sizes))
    return [t.numpy() for t in result] if isinstance(result, list) else result.numpy()
