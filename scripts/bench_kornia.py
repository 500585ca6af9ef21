"""Time functions and pipelines of kornia: eager, compiled by inductor, by the backend ``autosched``, and by ``eager``.

All sides run in turns in one process. Prints milliseconds, ours over inductor's, and the geometric mean. With
``--json FILE`` the run can be interrupted and continued.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import time
import warnings
from collections.abc import Callable
from itertools import chain, islice
from pathlib import Path
from typing import Any

import torch
from kornia_table.functions import KorniaFunction, kornia_functions
from kornia_table.pipelines import kornia_pipelines

from autosched.atomic_files import replace_file

SHAPES = ((4, 3, 512, 512), (1, 3, 1080, 1920))
TIMED = (
    "blur_pool2d", "box_blur", "filter2d", "gaussian_blur2d", "laplacian", "median_blur", "sobel", "spatial_gradient",
    "unsharp_mask", "hls_to_rgb", "hsv_to_rgb", "lab_to_rgb", "rgb_to_grayscale", "rgb_to_hls", "rgb_to_hsv",
    "rgb_to_lab", "rgb_to_ycbcr", "rgb_to_yuv", "adjust_contrast", "adjust_gamma", "adjust_hue", "sharpness",
    "dilation", "opening", "pyrdown", "warp_affine", "remap", "harris_response", "ssim_loss", "total_variation",
)  # fmt: skip
SIDES = ("eager", "inductor", "autosched", "compiled eager")


def timed(case: KorniaFunction, shape: tuple[int, ...], seconds: float, inductor: bool) -> dict[str, float]:
    """Return the least seconds of each side, and of the first calls."""
    torch.manual_seed(0)
    torch._dynamo.reset()
    inputs = case.draw(shape)
    functions: dict[str, Callable[..., Any]] = {"eager": case.function}
    names = {"inductor": "inductor", "autosched": "autosched", "compiled eager": "eager"}
    for side, backend in names.items():
        if side != "inductor" or inductor:
            functions[side] = torch.compile(_copy(case.function), backend=backend, dynamic=False)
    row: dict[str, float] = {}
    with torch.no_grad():
        for side, function in functions.items():
            start = time.perf_counter()
            function(*inputs)
            row[f"first {side}"] = time.perf_counter() - start
        least = dict.fromkeys(functions, math.inf)
        end = time.perf_counter() + seconds
        turns = 0
        while turns < 3 or (time.perf_counter() < end and turns < 50):
            for side, function in functions.items():
                start = time.perf_counter()
                function(*inputs)
                least[side] = min(least[side], time.perf_counter() - start)
            turns += 1
    return row | least


def _copy(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return another function with the same results, as Dynamo caches code by function."""
    return lambda *inputs: function(*inputs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="seconds of timing for each function and shape")
    parser.add_argument("--only", help="a regular expression of names")
    parser.add_argument("--most", type=int, help="most functions")
    parser.add_argument("--json", type=Path, help="file with the rows, which is continued")
    parser.add_argument("--no-inductor", action="store_true", help="leave inductor out")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = json.loads(arguments.json.read_text()) if arguments.json and arguments.json.exists() else {}
    functions = (f for f in kornia_functions() if f.name.rpartition(".")[2] in TIMED)
    cases = (f for f in chain(functions, kornia_pipelines()) if not arguments.only or re.search(arguments.only, f.name))
    for case in islice(cases, arguments.most):
        for shape in SHAPES:
            key = f"{case.name} {'x'.join(map(str, shape))}"
            if key not in rows:
                rows[key] = row = timed(case, shape, arguments.seconds, not arguments.no_inductor)
                print(key, *(f"{side} {row[side] * 1e3:.2f} ms" for side in SIDES if side in row), sep="  ", flush=True)
                if arguments.json:
                    replace_file(arguments.json, lambda path: path.write_text(json.dumps(rows, indent=1)))
    report(rows)


def report(rows: dict[str, dict[str, float]]) -> None:
    """Print a table and the geometric means."""
    print("\n| function, shape | eager, ms | inductor | autosched | over inductor | over compiled eager |")
    print("|---|---|---|---|---|---|")
    gains: list[float] = []
    slower: list[str] = []
    for name, row in rows.items():
        own = row["autosched"]
        over = row["inductor"] / own if "inductor" in row else math.nan
        gains.append(over)
        eager = row["compiled eager"] / own
        if eager < 1 / 1.05:
            slower.append(name)
        print(
            f"| {name} | {row['eager'] * 1e3:.2f} | {row.get('inductor', math.nan) * 1e3:.2f} | {own * 1e3:.2f} "
            f"| {over:.2f} | {eager:.2f} |"
        )
    mean = math.exp(sum(map(math.log, gains)) / len(gains)) if gains else math.nan
    print(
        f"\nover inductor: {mean:.2f} in geometric mean of {len(gains)}; slower than compiled eager by over 5 %: ",
        end="",
    )
    print(", ".join(slower) or "none")


if __name__ == "__main__":
    main()
