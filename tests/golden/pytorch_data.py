"""Golden data of the apps of rows and attention, computed by PyTorch in double precision.

    python -m tests.golden.pytorch_data [--apps softmax,attention]

Writes ``tests/data/golden/APP.npz``. The first set of each app has short rows, some with NaN, infinities, equal or very
large elements; the second, whose name ends with its length, has longer ones.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from autosched.apps import get_app
from autosched.apps.cross_entropy import IGNORED

GOLDEN = Path(__file__).parents[1] / "data" / "golden"
SEED = 60
INF, NAN, LARGE = float("inf"), float("nan"), 3e38
Arrays = dict[str, NDArray[Any]]
Tensors = Mapping[str, torch.Tensor]
Outputs = dict[str, torch.Tensor]


def _normalised(t: Tensors) -> torch.Tensor:
    return functional.layer_norm(t["input"], t["input"].shape[1:], t["gain"], t["bias"], 1e-5)


def _rms_norm(t: Tensors) -> Outputs:
    hidden = (t["input"].float() + t["residual"].float()).double()
    return {"output": functional.rms_norm(hidden, hidden.shape[1:], t["weight"], 1e-6), "hidden": hidden}


def _group_norm(t: Tensors) -> Outputs:
    values = t["input"].flatten(1, 2)
    output = functional.group_norm(values, t["gain"].shape[0], t["gain"].flatten(), t["bias"].flatten(), 1e-5)
    return {"output": output.view(t["input"].shape)}


def _attention(t: Tensors, causal: bool = False) -> Outputs:
    mask = t["mask"][:, None] if "mask" in t else None
    output = functional.scaled_dot_product_attention(t["query"], t["key"], t["value"], attn_mask=mask, is_causal=causal)
    return {"output": output}


FUNCTIONS: Mapping[str, Callable[[Tensors], Outputs]] = {
    "softmax": lambda t: {"output": functional.softmax(t["input"], -1)},
    "cross_entropy": lambda t: {"output": functional.cross_entropy(t["input"], t["target"], reduction="none")},
    "rms_norm": _rms_norm,
    "layer_norm_softmax": lambda t: {"output": functional.softmax(_normalised(t), -1)},
    "group_norm": _group_norm,
    "attention": _attention,
    "masked_attention": _attention,
    "causal_attention": lambda t: _attention(t, causal=True),
}


def _sizes(name: str) -> dict[str, dict[str, int]]:
    """Return the sizes of an app's sets by suffix."""
    if name.endswith("attention"):
        return {"": {"B": 2, "H": 2, "Q": 9, "K": 17, "D": 8}, "_257": {"B": 1, "H": 1, "Q": 7, "K": 257, "D": 32}}
    if name == "group_norm":
        return {"": {"N": 2, "G": 3, "C": 4, "P": 16}, "_771": {"N": 1, "G": 2, "C": 3, "P": 257}}
    return {"": {"R": 13, "C": 64}, "_771": {"R": 3, "C": 771}}


def _add_special_rows(name: str, arrays: Arrays) -> None:
    """Write NaN, infinities, equal and very large elements into some rows."""
    if name.endswith("attention"):
        query, key = arrays["query"], arrays["key"]
        query[0, 0, 1, 3] = NAN
        query[0, 0, 2] *= 100  # one weight is nearly 1, others vanish
        key[1, 1, -1, 0] = NAN  # of the last key, which few queries of a causal attention see
        return
    values = arrays["input"].reshape(-1, 64)
    values[1, 5] = NAN
    values[2, 7] = INF
    values[3] = 0.5
    if name not in ("softmax", "cross_entropy"):
        return
    values[4] = -INF
    values[5, ::2] = -INF
    values[6] = LARGE
    values[7] = -LARGE
    values[7, 9] = LARGE
    values[8, :32], values[8, 32:] = 0.0, -0.0
    if name == "cross_entropy":
        arrays["target"][5], arrays["target"][9] = 0, IGNORED


def golden_data(name: str) -> Arrays:
    """Return inputs, outputs and description of an app, as `tests.apps.conftest.load_golden` reads them."""
    app, stored = get_app(name), {}
    for suffix, sizes in _sizes(name).items():
        inputs = app.make_inputs(sizes, SEED)
        if not suffix:
            _add_special_rows(name, inputs)
        tensors = {k: torch.from_numpy(a) for k, a in inputs.items()}
        outputs = FUNCTIONS[name]({k: t.double() if t.is_floating_point() else t for k, t in tensors.items()})
        stored |= {f"in_{k}{suffix}": a for k, a in inputs.items()}
        stored |= {f"out_{k}{suffix}": t.float().numpy() for k, t in outputs.items()}
    tolerance = {"rtol": app.tolerance.rtol, "atol": app.tolerance.atol}
    meta = {"tolerance": tolerance, "tolerance_outputs": {}, "params": {}, "source": f"PyTorch {torch.__version__}"}
    return {**stored, "meta": np.array(json.dumps(meta))}


def main() -> None:
    """Write the files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--apps", default=",".join(FUNCTIONS), help="names, separated by commas")
    for name in parser.parse_args().apps.split(","):
        np.savez_compressed(GOLDEN / f"{name}.npz", allow_pickle=False, **golden_data(name))


if __name__ == "__main__":
    main()
