"""Weights of PolyMage-GPU's cost function: those of the paper (Table 3), and files of fitted ones."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from autosched.atomic_files import replace_file
from autosched.errors import InputError

SHIPPED_SUFFIX = ".json"


class CostWeights(NamedTuple):
    """Weights of the seven terms of a group's cost (Algorithm 2, line 35).

    Attributes:
        transactions: w1, of the global memory transactions of a warp for a point of each lane.
        occupancy: w2, of the share of warps that a multiprocessor lacks.
        memory_time: w3, of the time of transactions over that of computing.
        shared_memory: w4, of the share of shared memory that is not allocated.
        registers: w5, of the share of registers that is not used.
        overlap: w6, of the points that several tiles compute, over those of one tile.
        extra_blocks: w7, of the blocks of a multiprocessor in its last wave.
    """

    transactions: float
    occupancy: float
    memory_time: float
    shared_memory: float
    registers: float
    overlap: float
    extra_blocks: float


class WeightedTransactions(NamedTuple):
    """Weights, and the sizes of transactions that they go with.

    Attributes:
        weights: The weights.
        transaction_bytes: Sizes of a global memory transaction, of which the cost is the least.
    """

    weights: CostWeights
    transaction_bytes: tuple[int, ...] = (32, 128)


V100_WEIGHTS = CostWeights(50, 0.5, 60, 10, 2, 100, 1)
GTX_1080_TI_WEIGHTS = CostWeights(50, 0.5, 45, 20, 2, 100, 1)
PAPER_WEIGHTS: Mapping[str, CostWeights] = {"v100": V100_WEIGHTS, "1080ti": GTX_1080_TI_WEIGHTS}
"""Weights of Table 3, by GPU."""


def shipped_names() -> tuple[str, ...]:
    """Return the names of the weights that come with the package: Table 3, then fitted ones."""
    folder = files("autosched.search.strategies.polymage") / "weights"
    fitted = sorted(f.name.removesuffix(SHIPPED_SUFFIX) for f in folder.iterdir() if f.name.endswith(SHIPPED_SUFFIX))
    return (*PAPER_WEIGHTS, *fitted)


def find_cost_weights(name: str) -> WeightedTransactions:
    """Return weights by their name (`shipped_names`), or from a file.

    Raises:
        InputError: If there are none, or the file has others than the seven.
    """
    if name in PAPER_WEIGHTS:
        return WeightedTransactions(PAPER_WEIGHTS[name])
    if name in shipped_names():
        folder = files("autosched.search.strategies.polymage") / "weights"
        return _parsed((folder / f"{name}{SHIPPED_SUFFIX}").read_text(encoding="utf-8"), name)
    path = Path(name)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{name} is neither a file of weights nor one of {', '.join(shipped_names())}: "
            "scripts/fit_polymage_weights.py writes such a file"
        ) from error
    return _parsed(text, name)


def save_weights(path: Path, given: WeightedTransactions, source: Mapping[str, object]) -> None:
    """Write weights to a file.

    Args:
        path: The file, JSON.
        given: The weights and sizes.
        source: What they were fitted to: further keys of the file.
    """
    rounded = {name: float(f"{value:.6g}") for name, value in given.weights._asdict().items()}
    text = json.dumps({"weights": rounded, "transaction_bytes": given.transaction_bytes, **source}, indent=2) + "\n"
    replace_file(path, lambda beside: beside.write_text(text, encoding="utf-8"))


def _parsed(text: str, name: str) -> WeightedTransactions:
    """Return the weights and sizes of a file's text.

    Raises:
        InputError: If it has other weights than the seven, they are no numbers from 0 on, or it has no sizes.
    """
    try:
        content = json.loads(text)
    except ValueError as error:
        raise InputError(f"{name} is no JSON ({error}): scripts/fit_polymage_weights.py writes such a file") from error
    weights = content.get("weights") if isinstance(content, dict) else None
    if not isinstance(weights, dict) or weights.keys() != set(CostWeights._fields):
        raise InputError(f'{name} has other weights than needed: give "weights" with {", ".join(CostWeights._fields)}')
    for key, value in weights.items():
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not is_number or not math.isfinite(value) or value < 0:
            raise InputError(f"{name} has {key} {value!r}: give a finite number, at least 0")
    sizes = content.get("transaction_bytes")
    if not isinstance(sizes, list) or not sizes or not all(type(n) is int and n > 0 for n in sizes):
        raise InputError(f"{name} has transaction_bytes {sizes!r}: give a list of sizes, such as [32, 128]")
    return WeightedTransactions(CostWeights(**{key: float(v) for key, v in weights.items()}), tuple(sizes))
