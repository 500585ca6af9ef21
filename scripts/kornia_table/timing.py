"""Time functions of kornia: eager, compiled by inductor, by the backend ``autosched``, and by ``eager``."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import torch

from kornia_table.functions import KorniaFunction

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
    functions = compiled_sides(case, inductor)
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


def compiled_sides(case: KorniaFunction, inductor: bool) -> dict[str, Callable[..., Any]]:
    """Return a function as it is, and compiled by each backend."""
    timed_function = case.timed or case.function
    functions: dict[str, Callable[..., Any]] = {"eager": timed_function}
    names = {"inductor": "inductor", "autosched": "autosched", "compiled eager": "eager"}
    for side, backend in names.items():
        if side != "inductor" or inductor:
            functions[side] = torch.compile(_copy(timed_function), backend=backend, dynamic=False)
    return functions


def _copy(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return another function with the same results, as Dynamo caches code by function."""
    return lambda *inputs: function(*inputs)


def print_report(rows: dict[str, dict[str, float]]) -> None:
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
