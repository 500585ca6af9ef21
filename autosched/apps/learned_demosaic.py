"""Demosaicking by learned filters, those for green weighted by the flatness of the image in their direction."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from autosched.apps.app import App, Arrays
from autosched.apps.images import rgb_image
from autosched.apps.sizes import H, Size, W
from autosched.apps.tolerance import Tolerance
from autosched.lang.dtypes import float32
from autosched.lang.expr import Expr, Var
from autosched.lang.func import Func, Input
from autosched.lang.functions import abs as absolute
from autosched.lang.functions import exp, select
from autosched.lang.pipeline import Pipeline
from autosched.lang.rdom import RDom, minimum
from autosched.lang.rdom import sum as sum_over

K, FILTER_SIZE = Size("K"), Size("filter_size")


def build() -> Pipeline:
    """Return the pipeline: ``mosaick`` float32 [H, W] to ``output`` float32 [3, H, W].

    The mosaic has green pixels where row and column are both even or both odd. The other pixels are red in even rows
    and blue in odd rows. The filters have one size: ``selection_filters`` and ``green_filters`` are float32
    [K, size, size]; ``h_chroma``, ``v_chroma`` and ``q_chroma`` are float32 [size, size]. They interpolate a chroma
    from samples to the left and right, above and below, or in four directions.
    """
    y, x, c = Var("y"), Var("x"), Var("c")
    mosaick = Input("mosaick", float32, 2)
    pixels, (height, width) = mosaick.clamped(), mosaick.shape
    green, chroma = _green(pixels), Func("chroma")
    chroma[y, x] = pixels[y, x] - green[y, x]

    def with_chroma(direction: str) -> Expr:
        taps, colour = Input(f"{direction}_chroma", float32, 2), Func(direction)
        near, neighbour = _neighbourhood(chroma, taps.shape[0])
        colour[y, x] = green[y, x]
        colour[y, x] += taps[near.y, near.x] * neighbour
        filtered: Expr = colour[y, x]
        return filtered

    h, v, q = with_chroma("h"), with_chroma("v"), with_chroma("q")
    red, blue, output = Func("red"), Func("blue"), Func("output")
    red[y, x] = select(y % 2 == 0, select(x % 2 == 0, h, pixels[y, x]), select(x % 2 == 0, q, v))
    blue[y, x] = select(y % 2 == 0, select(x % 2 == 0, v, q), select(x % 2 == 0, pixels[y, x], h))
    output[c, y, x] = select(c == 0, red[y, x], select(c == 1, green[y, x], blue[y, x]))
    return Pipeline(output.over(c=(0, 3), y=(0, height), x=(0, width)), name="learned_demosaic")


def _green(pixels: Func) -> Func:
    """Return the Func ``green[y, x]``: at red and blue sites the mean of candidates, weighted by small slopes."""
    k, y, x = Var("k"), Var("y"), Var("x")
    selection_filters, green_filters = Input("selection_filters", float32, 3), Input("green_filters", float32, 3)
    filters, size, _ = selection_filters.shape
    near, neighbour = _neighbourhood(pixels, size)
    each = RDom("each", k=filters)
    selection, slope, candidate = Func("selection"), Func("slope"), Func("candidate")
    selection[k, y, x] = 0.0
    selection[k, y, x] += selection_filters[k, near.y, near.x] * neighbour
    slope[k, y, x] = absolute(selection[k, y, x])
    candidate[k, y, x] = 0.0
    candidate[k, y, x] += green_filters[k, near.y, near.x] * neighbour
    exponential, weight, green = Func("exponential"), Func("weight"), Func("green")
    least = minimum(slope[each.k, y, x], over=each, name="least")
    exponential[k, y, x] = exp(least - slope[k, y, x])
    weight[k, y, x] = exponential[k, y, x] / sum_over(exponential[each.k, y, x], over=each, name="norm")
    mixed = sum_over(candidate[each.k, y, x] * weight[each.k, y, x], over=each, name="mixed")
    green[y, x] = select(y % 2 == x % 2, pixels[y, x], mixed)
    return green


def _neighbourhood(f: Func, size: Expr) -> tuple[RDom, Expr]:
    """Return the taps of a filter of that size and the value of ``f[y, x]`` at one of them."""
    near = RDom("near", y=size, x=size)
    return near, f[Var("y") + near.y - size // 2, Var("x") + near.x - size // 2]


def generate(sizes: Mapping[str, int], seed: int) -> Arrays:
    """Return the mosaic of a colour image and noisy bilinear filters."""
    rng = np.random.default_rng(seed)
    image = rgb_image(sizes["H"], sizes["W"], seed)
    mosaick = image[1].copy()
    mosaick[::2, 1::2], mosaick[1::2, ::2] = image[0, ::2, 1::2], image[2, 1::2, ::2]
    size = sizes["filter_size"]
    across = np.zeros((size, size), np.float32)
    across[size // 2, [max(size // 2 - 1, 0), min(size // 2 + 1, size - 1)]] = 0.5
    both = across.T @ across

    def noise(*shape: int, deviation: float) -> NDArray[np.float32]:
        return rng.standard_normal(shape, dtype=np.float32) * np.float32(deviation)

    directions = np.stack([across if n % 2 else across.T for n in range(sizes["K"])])
    return {
        "mosaick": mosaick,
        "selection_filters": noise(*directions.shape, deviation=1.0),
        "green_filters": directions + noise(*directions.shape, deviation=0.02),
        "h_chroma": across + noise(size, size, deviation=0.02),
        "v_chroma": across.T + noise(size, size, deviation=0.02),
        "q_chroma": both + noise(size, size, deviation=0.02),
    }


def compute(
    mosaick: NDArray[np.float32],
    selection_filters: NDArray[np.float32],
    green_filters: NDArray[np.float32],
    h_chroma: NDArray[np.float32],
    v_chroma: NDArray[np.float32],
    q_chroma: NDArray[np.float32],
) -> Arrays:
    """Return the output by PyTorch's convolutions and softmax, on an image padded by the halo of both filters."""
    import torch  # takes seconds: only when the reference is wanted

    def filtered(image: torch.Tensor, filters: NDArray[np.float32]) -> torch.Tensor:
        return torch.nn.functional.conv2d(image[None, None], torch.from_numpy(filters)[:, None])[0]

    size = h_chroma.shape[0]
    before, after = size // 2, (size - 1) // 2
    padded = torch.from_numpy(np.pad(mosaick, (2 * before, 2 * after), mode="edge"))
    weight = torch.softmax(-filtered(padded, selection_filters).abs(), dim=0)
    mixed = (filtered(padded, green_filters) * weight).sum(dim=0).numpy()

    def inner(a: NDArray[np.float32]) -> NDArray[np.float32]:
        return a[before : a.shape[0] - after, before : a.shape[1] - after]

    pixels = inner(padded.numpy())
    y, x = (np.indices(pixels.shape) - before) % 2
    green = np.where(y == x, pixels, mixed)
    chroma = filtered(torch.from_numpy(pixels - green), np.stack([h_chroma, v_chroma, q_chroma])).numpy()
    y, x, pixels, green = (inner(a) for a in (y, x, pixels, green))
    h, v, q = green + chroma
    sites = [(y == j) & (x == i) for j in range(2) for i in range(2)]
    red, blue = np.select(sites, [h, pixels, q, v]), np.select(sites, [v, q, pixels, h])
    return {"output": np.stack([red, green, blue]).astype(np.float32)}


APP = App(
    name="learned_demosaic",
    build=build,
    papers=("Anderson",),
    extents={
        "mosaick": (H, W),
        "selection_filters": (K, FILTER_SIZE, FILTER_SIZE),
        "green_filters": (K, FILTER_SIZE, FILTER_SIZE),
        "h_chroma": (FILTER_SIZE, FILTER_SIZE),
        "v_chroma": (FILTER_SIZE, FILTER_SIZE),
        "q_chroma": (FILTER_SIZE, FILTER_SIZE),
    },
    default_sizes={"W": 1536, "H": 2560, "K": 8, "filter_size": 5},
    small_sizes={"W": 77, "H": 53, "K": 5, "filter_size": 5},
    generate=generate,
    compute=compute,
    tolerance=Tolerance(rtol=5e-5, atol=5e-6),
)
