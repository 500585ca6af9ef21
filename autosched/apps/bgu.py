"""Bilateral guided upsampling: affine colour maps fitted to a pair of small images, applied to the large one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from autosched.apps.app import App, Arrays, load_ndimage
from autosched.apps.images import rgb_image
from autosched.apps.sizes import H, Size, W
from autosched.apps.tolerance import Tolerance
from autosched.errors import InputError
from autosched.lang.dtypes import float32, int32
from autosched.lang.expr import Expr, Var
from autosched.lang.func import Func, Input
from autosched.lang.functions import cast, clamp, lerp, select
from autosched.lang.functions import max as maximum
from autosched.lang.functions import round as rounded
from autosched.lang.pipeline import Pipeline
from autosched.lang.rdom import RDom

S_SIGMA, R_SIGMA, LAM = 16, 0.125, 0.1
LARGEST_S_SIGMA, SMALLEST_R_SIGMA, LARGEST_UPSAMPLE = 256, 1 / 1024, 1 << 16
BLUR = (1 / 64, 1 / 27, 1 / 8, 1, 1 / 8, 1 / 27, 1 / 64)
REACH = len(BLUR) // 2
PAIRS = tuple(itertools.combinations_with_replacement(range(4), 2))
"""Entries of a symmetric 4x4 matrix, in the order in which the grid stores them."""

LOW_H, LOW_W = Size("low_H"), Size("low_W")


def build(s_sigma: int = S_SIGMA, r_sigma: float = R_SIGMA, lam: float = LAM, upsample: int = 0) -> Pipeline:
    """Return the pipeline: ``slice_loc`` float32 [3, H, W] to ``output`` float32 [3, H, W].

    The colour maps, 3x4 matrices in a grid ``[z, y, x]`` of brightness and place, take the small image ``splat_loc``
    to ``values``, both float32 [3, low_H, low_W], in the sense of least squares.

    Args:
        s_sigma: Width of a cell in pixels of the small images.
        r_sigma: Range of brightness of a cell.
        lam: Weight of the identity map, which regularises cells with few pixels.
        upsample: Factor between the sizes of the two images; 0 for the least factor that covers the large one.

    Raises:
        InputError: If a cell has no width, or the grid would be far too large, or a fit could have no solution.
    """
    levels = _levels(s_sigma, r_sigma, lam, upsample)
    splat_loc, values = Input("splat_loc", float32, 3), Input("values", float32, 3)
    slice_loc = Input("slice_loc", float32, 3)
    line = _line(splat_loc, values, s_sigma, r_sigma, lam)
    c, i, z, y, x = Var("c"), Var("i"), Var("z"), Var("y"), Var("x")
    (_, low_height, low_width), (_, height, width) = splat_loc.shape, slice_loc.shape
    factor = upsample or maximum((width + low_width - 1) // low_width, (height + low_height - 1) // low_height)
    large = s_sigma * factor
    fy, fx = (cast(float32, v % large) / cast(float32, large) for v in (y, x))
    gray, along_y, along_x = Func("gray_slice"), Func("along_y"), Func("along_x")
    gray[y, x] = _gray(lambda channel: slice_loc[channel, y, x])
    along_y[i, z, y, x] = lerp(line[i, z, y // large, x], line[i, z, y // large + 1, x], fy)
    along_x[i, z, y, x] = lerp(along_y[i, z, y, x // large], along_y[i, z, y, x // large + 1], fx)
    along_z, output = Func("along_z"), Func("output")
    depth = clamp(gray[y, x], 0.0, 1.0) * levels
    below = cast(int32, depth)
    along_z[i, y, x] = lerp(along_x[i, below, y, x], along_x[i, below + 1, y, x], depth - below)
    red, green, blue = (along_z[4 * c + j, y, x] * slice_loc[j, y, x] for j in range(3))
    output[c, y, x] = clamp(red + green + blue + along_z[4 * c + 3, y, x], 0.0, 1.0)
    return Pipeline(output.over(c=(0, 3), y=(0, height), x=(0, width)), name="bgu")


def _line(splat_loc: Input, values: Input, s_sigma: int, r_sigma: float, lam: float) -> Func:
    """Return the Func ``line[i, z, y, x]``: number ``i`` of the 12 in the colour map of a cell, row by row."""
    i, z, y, x = Var("i"), Var("z"), Var("y"), Var("x")
    _, height, width = splat_loc.shape
    source, target = (image.clamped(y=(0, height), x=(0, width)) for image in (splat_loc, values))
    gray, grid, cell = Func("gray_splat"), Func("grid"), RDom("cell", y=s_sigma, x=s_sigma)
    gray[y, x] = _gray(lambda channel: source[channel, y, x])
    sy, sx = (s_sigma * v + r - s_sigma // 2 for v, r in ((y, cell.y), (x, cell.x)))
    q = [*(source[channel, sy, sx] for channel in range(3)), 1.0]
    entries = [q[j] * q[k] for j, k in PAIRS] + [target[channel, sy, sx] * p for channel in range(3) for p in q]
    grid[i, z, y, x] = 0.0
    grid[i, cast(int32, rounded(clamp(gray[sy, sx], 0.0, 1.0) / r_sigma)), y, x] += _one_of(i, entries)
    blur_z, blur_y, blur_x = Func("blur_z"), Func("blur_y"), Func("blur_x")
    blur_z[i, z, y, x] = _taps(lambda o: grid[i, z + o, y, x])
    blur_y[i, z, y, x] = _taps(lambda o: blur_z[i, z, y + o, x])
    blur_x[i, z, y, x] = _taps(lambda o: blur_y[i, z, y, x + o])
    fit, line = Func("fit"), Func("line")
    fit[z, y, x] = _fitted([blur_x[k, z, y, x] for k in range(len(entries))], lam)  # all 12 from one factorisation
    line[i, z, y, x] = _one_of(i, fit[z, y, x])
    return line


def _levels(s_sigma: int, r_sigma: float, lam: float, upsample: int) -> int:
    """Return the number of cells that a brightness of 1 is away from 0, after a check of the parameters."""
    if not 1 <= s_sigma <= LARGEST_S_SIGMA:
        raise InputError(f"s_sigma is {s_sigma}: give 1 to {LARGEST_S_SIGMA} pixels")
    if not SMALLEST_R_SIGMA <= r_sigma <= 1:
        raise InputError(f"r_sigma is {r_sigma}: give a number from {SMALLEST_R_SIGMA:g} to 1")
    if not 0 < np.float32(lam) < math.inf:
        raise InputError(f"lam is {lam}: give a positive number, as a cell without pixels has no other map")
    if not 0 <= upsample <= LARGEST_UPSAMPLE:
        raise InputError(f"upsample is {upsample}: give 1 to {LARGEST_UPSAMPLE}, or 0 to cover the large image")
    return int(np.float32(1) / np.float32(r_sigma))


def _gray(channel: Callable[[int], Expr]) -> Expr:
    return 0.25 * channel(0) + 0.5 * channel(1) + 0.25 * channel(2)


def _taps(at: Callable[[int], Expr]) -> Expr:
    near, middle, far = ((at(-o) + at(o)) * BLUR[REACH + o] for o in (1, 2, 3))
    return at(0) + near + middle + far


def _one_of(index: Expr, values: Sequence[Expr | float]) -> Expr:
    """Return the value of that number, by a binary tree of selects."""
    if len(values) == 1:
        return values[0]  # type: ignore[return-value]
    half = len(values) // 2
    return select(index < half, _one_of(index, values[:half]), _one_of(index - half, values[half:]))


def _fitted(entries: Sequence[Expr], lam: float) -> list[Expr]:
    """Return the 3x4 matrix that solves a cell's normal equations, by their factors L D L^T without pivoting."""
    normal = dict(zip(PAIRS, entries, strict=False))
    lower: dict[tuple[int, int], Expr] = {}  # L, and L D with D on its diagonal
    scaled: dict[tuple[int, int], Expr] = {}
    inverse: list[Expr] = []
    for j in range(4):
        for k in range(j, 4):
            e = normal[j, k] + lam if j == k else normal[j, k]
            for m in range(j):
                e = e - lower[k, m] * scaled[j, m]
            scaled[k, j] = e
        inverse.append(1 / scaled[j, j])
        lower |= {(k, j): scaled[k, j] * inverse[j] for k in range(j + 1, 4)}
    rows = (entries[n : n + 4] for n in range(len(PAIRS), len(entries), 4))
    return [e for c, right in enumerate(rows) for e in _substituted(right, c, lower, inverse, lam)]


def _substituted(
    right: Sequence[Expr], channel: int, lower: Mapping[tuple[int, int], Expr], inverse: Sequence[Expr], lam: float
) -> list[Expr]:
    """Return a row of the matrix by forward and backward substitution."""
    forward: list[Expr] = []
    for j in range(4):
        e = right[j] + lam if j == channel else right[j]
        for k in range(j):
            e = e - lower[j, k] * forward[k]
        forward.append(e)
    row: dict[int, Expr] = {}
    for j in reversed(range(4)):
        row[j] = forward[j] * inverse[j]
        for k in range(j + 1, 4):
            row[j] = row[j] - lower[k, j] * row[k]
    return [row[j] for j in range(4)]


def generate(sizes: Mapping[str, int], seed: int) -> Arrays:
    """Return a colour image, the same one small, and that with more contrast and warmer colours."""
    image = rgb_image(sizes["H"], sizes["W"], seed)
    rows, columns = (
        (np.arange(sizes[low]) * 2 + 1) * sizes[high] // (2 * sizes[low])
        for low, high in (("low_H", "H"), ("low_W", "W"))
    )
    small = np.ascontiguousarray(image[:, rows[:, None], columns])
    warmth = np.array([1.0, 0.9, 0.8], np.float32)[:, None, None]
    return {"splat_loc": small, "values": small * small * (3 - 2 * small) * warmth, "slice_loc": image}


def compute(
    splat_loc: NDArray[np.float32],
    values: NDArray[np.float32],
    slice_loc: NDArray[np.float32],
    s_sigma: int = S_SIGMA,
    r_sigma: float = R_SIGMA,
    lam: float = LAM,
    upsample: int = 0,
) -> Arrays:
    """Return the result of a histogram, correlations, linear solves and interpolation by NumPy and SciPy."""
    ndimage = load_ndimage()
    levels = _levels(s_sigma, r_sigma, lam, upsample)
    extents, low_extents = slice_loc.shape[1:], splat_loc.shape[1:]
    large = s_sigma * (upsample or max(-(-n // low) for n, low in zip(extents, low_extents, strict=True)))
    cells = [(n - 1) // large + 2 + 2 * REACH for n in extents]
    first = -s_sigma * REACH - s_sigma // 2
    at = [np.clip(first + np.arange(n * s_sigma), 0, low - 1) for n, low in zip(cells, low_extents, strict=True)]
    source, target = (a[:, at[0][:, None], at[1]].reshape(3, -1) for a in (splat_loc, values))

    y, x = np.indices([n * s_sigma for n in cells]).reshape(2, -1) // s_sigma
    z = np.rint(np.clip(_brightness(source), 0, 1) / np.float32(r_sigma)).astype(np.intp) + REACH
    shape = (max(round(1 / r_sigma), levels + 1) + 1 + 2 * REACH, *cells)
    cell = np.ravel_multi_index((z, y, x), shape)
    q = np.concatenate([source, np.ones_like(source[:1])]).astype(np.float64)

    def gathered(a: NDArray[np.floating], b: NDArray[np.floating]) -> NDArray[np.float64]:
        total: NDArray[np.float64] = np.bincount(cell, a * b, minlength=math.prod(shape)).reshape(shape)
        for axis in range(3):
            total = ndimage.correlate1d(total, BLUR, axis=axis, mode="constant")
        return total

    normal = np.array([[gathered(a, b) for b in q] for a in q]) + lam * np.eye(4)[..., None, None, None]
    right = np.array([[gathered(v, a) for v in target] for a in q]) + lam * np.eye(4, 3)[..., None, None, None]
    lines = np.linalg.solve(np.moveaxis(normal, (0, 1), (-2, -1)), np.moveaxis(right, (0, 1), (-2, -1)))
    depth = np.clip(_brightness(slice_loc), 0, 1).astype(np.float64) * levels + REACH
    places = [depth, *(n / large + REACH for n in np.indices(extents))]
    output = [
        sum(ndimage.map_coordinates(lines[..., j, c], places, order=1) * a for j, a in enumerate((*slice_loc, 1)))
        for c in range(3)
    ]
    return {"output": np.clip(output, 0, 1).astype(np.float32)}


def _brightness(rgb: NDArray[np.float32]) -> NDArray[np.float32]:
    brightness: NDArray[np.float32] = 0.25 * rgb[0] + 0.5 * rgb[1] + 0.25 * rgb[2]
    return brightness


APP = App(
    name="bgu",
    build=build,
    papers=("Anderson",),
    extents={"splat_loc": (3, LOW_H, LOW_W), "values": (3, LOW_H, LOW_W), "slice_loc": (3, H, W)},
    default_sizes={"W": 1536, "H": 2560, "low_W": 192, "low_H": 320},
    small_sizes={"W": 79, "H": 71, "low_W": 37, "low_H": 29},
    generate=generate,
    compute=compute,
    tolerance=Tolerance(atol=5e-4),  # of a result in [0, 1]: the normal equations are badly conditioned
)
