"""Camera pipeline: a Bayer mosaic denoised, demosaiced, colour corrected, tone mapped and sharpened."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autosched.apps.app import App, Arrays
from autosched.apps.images import rgb_image
from autosched.apps.sizes import H, W
from autosched.apps.tolerance import Tolerance
from autosched.lang.dtypes import BY_NAME, float32, int16, int32, uint8, uint16
from autosched.lang.expr import Expr, ExprLike, Param, Var
from autosched.lang.func import Func, Input
from autosched.lang.functions import absd, cast, clamp, max, min, select
from autosched.lang.functions import pow as power
from autosched.lang.pipeline import Pipeline

TOP, LEFT = 12, 16
"""Position of the output's corner in the mosaic, in pixels."""
BLOCK = 32
"""Factor of the output's height and width."""
LEVELS = 1024
WARM, COLD = 3200, 7000
"""Colour temperatures, in kelvin, that the two matrices are made for."""

COLOR_TEMP, GAMMA, CONTRAST, SHARPEN_STRENGTH = 3700.0, 2.0, 50.0, 1.0
BLACK_LEVEL, WHITE_LEVEL = 25, 1023

Offset = tuple[int, int]
"""A distance (rows, columns)."""
Pair = tuple[Offset, Offset]

HERE, ABOVE, BELOW, BEFORE, AFTER = (0, 0), (-1, 0), (1, 0), (0, -1), (0, 1)
RED_AT_BLUE: tuple[Pair, Pair] = ((HERE, (1, -1)), (BEFORE, BELOW))
BLUE_AT_RED: tuple[Pair, Pair] = ((HERE, (-1, 1)), (AFTER, ABOVE))
"""The two diagonals across a site, between the four nearest sites of the other colour."""

y, x, c = Var("y"), Var("x"), Var("c")


def build() -> Pipeline:
    """Return the pipeline: ``input`` uint16 [H, W] to ``output`` uint8 [3, (H-24)//32*32, (W-32)//32*32].

    The mosaic has 10 bits; a green pixel of a red row comes first. ``matrix_3200`` and ``matrix_7000``, float32 [3, 4],
    give red, green and blue from those of the sensor and 1, under light of that colour temperature.

    Its Params are ``color_temp`` in kelvin, ``gamma``, ``contrast``, ``sharpen_strength``, and ``blackLevel`` and
    ``whiteLevel`` in steps of the sensor.
    """
    mosaic = Input("input", uint16, 2)
    warm, cold = Input("matrix_3200", float32, 2), Input("matrix_7000", float32, 2)
    corrected = _correct_color(_demosaic(_remove_hot_pixels(mosaic)), warm, cold)
    output = _sharpen(_apply_curve(corrected))
    height, width = (BLOCK * ((n - 2 * margin) // BLOCK) for n, margin in zip(mosaic.shape, (TOP, LEFT), strict=True))
    return Pipeline(output.over(c=(0, 3), y=(0, height), x=(0, width)), name="camera_pipe")


def _average(a: ExprLike, b: Expr) -> Expr:
    """Return the mean of two unsigned integers, rounded up."""
    return cast(b.dtype, (cast(BY_NAME[f"uint{2 * b.dtype.bits}"], a) + b + 1) >> 1)


def _remove_hot_pixels(mosaic: Input) -> Func:
    shifted, denoised = Func("shifted"), Func("denoised")
    shifted[y, x] = mosaic[y + TOP, x + LEFT]
    around = max(shifted[y, x - 2], shifted[y, x + 2], shifted[y - 2, x], shifted[y + 2, x])
    denoised[y, x] = min(shifted[y, x], around)
    return denoised


def _demosaic(raw: Func) -> tuple[Func, Func, Func]:
    """Return red, green and blue, int16, at every pixel.

    The sites of each colour are planes of half the size: ``gr`` and ``gb`` are the green ones in red and blue rows.
    """
    gr, r, b, gb = (Func(name) for name in ("gr", "r", "b", "gb"))
    gr[y, x], r[y, x] = raw[2 * y, 2 * x], raw[2 * y, 2 * x + 1]
    b[y, x], gb[y, x] = raw[2 * y + 1, 2 * x], raw[2 * y + 1, 2 * x + 1]
    g_at_r = _smoother("g_at_r", (gr, AFTER), (gb, ABOVE))
    g_at_b = _smoother("g_at_b", (gb, BEFORE), (gr, BELOW))
    r_at_gr = _corrected("r_at_gr", gr, g_at_r, r, ((HERE, BEFORE),))
    b_at_gr = _corrected("b_at_gr", gr, g_at_b, b, ((HERE, ABOVE),))
    r_at_gb = _corrected("r_at_gb", gb, g_at_r, r, ((HERE, BELOW),))
    b_at_gb = _corrected("b_at_gb", gb, g_at_b, b, ((HERE, AFTER),))
    r_at_b = _corrected("r_at_b", g_at_b, g_at_r, r, RED_AT_BLUE)
    b_at_r = _corrected("b_at_r", g_at_r, g_at_b, b, BLUE_AT_RED)
    return (
        _interleaved("red", r_at_gr, r, r_at_b, r_at_gb),
        _interleaved("green", gr, g_at_r, g_at_b, gb),
        _interleaved("blue", b_at_gr, b_at_r, b, b_at_gb),
    )


def _smoother(name: str, *directions: tuple[Func, Offset]) -> Func:
    """Return the mean of two neighbours, along whichever of two directions they differ less."""
    (first, second) = ((f[y, x], f[y + dy, x + dx]) for f, (dy, dx) in directions)
    smoother = Func(name)
    smoother[y, x] = select(absd(*first) < absd(*second), _average(*first), _average(*second))
    return smoother


def _corrected(name: str, green: Func, green_there: Func, color: Func, pairs: tuple[Pair, ...]) -> Func:
    """Return the mean of a colour's two neighbours, corrected by the difference of green between the site and them.

    Of several pairs of neighbours, the pair with the least difference is used.
    """

    def at(f: Func, pair: Pair) -> tuple[Expr, Expr]:
        (y0, x0), (y1, x1) = pair
        return f[y + y0, x + x0], f[y + y1, x + x1]

    def estimate(pair: Pair) -> Expr:
        here: Expr = green[y, x]
        return here - _average(*at(green_there, pair)) + _average(*at(color, pair))

    corrected = Func(name)
    value = estimate(pairs[0])
    if len(pairs) == 2:
        value = select(absd(*at(color, pairs[0])) < absd(*at(color, pairs[1])), value, estimate(pairs[1]))
    corrected[y, x] = value
    return corrected


def _interleaved(name: str, gr: Func, r: Func, b: Func, gb: Func) -> Func:
    """Return an image made of the sites of a mosaic, as int16."""
    at_gr, at_r, at_b, at_gb = (f[y // 2, x // 2] for f in (gr, r, b, gb))
    image = Func(name)
    image[y, x] = cast(int16, select(y % 2 == 0, select(x % 2 == 0, at_gr, at_r), select(x % 2 == 0, at_b, at_gb)))
    return image


def _correct_color(rgb: tuple[Func, Func, Func], warm: Input, cold: Input) -> Func:
    """Return the colours, int16, by a matrix of 8 fractional bits for the Param ``color_temp``."""
    i = Var("i")
    at_warm, at_cold = (cast(float32, 1 / temperature) for temperature in (WARM, COLD))
    warmth = (1 / Param("color_temp", float32, COLOR_TEMP) - at_warm) / (at_cold - at_warm)
    matrix, corrected = Func("matrix"), Func("corrected")
    matrix[c, i] = cast(int16, (warm[c, i] * warmth + cold[c, i] * (1 - warmth)) * 256)
    entries = [cast(int32, matrix[c, k]) for k in range(4)]
    red, green, blue = (f[y, x] for f in rgb)
    corrected[c, y, x] = cast(int16, (entries[3] + entries[0] * red + entries[1] * green + entries[2] * blue) // 256)
    return corrected


def _apply_curve(corrected: Func) -> Func:
    """Return the image in uint8, through a table of gamma and an S-shaped contrast curve."""
    i = Var("i")
    black, white = Param("blackLevel", int32, BLACK_LEVEL), Param("whiteLevel", int32, WHITE_LEVEL)
    gamma, contrast = Param("gamma", float32, GAMMA), Param("contrast", float32, CONTRAST)
    slope = 2 - power(cast(float32, 2), contrast / 100)
    bend = 2 - 2 * slope
    linear = clamp((i - black) / (white - black), 0.0, 1.0)
    g = power(linear, 1 / gamma)
    dark, bright = bend * g * g + slope * g, 1 - (bend * (1 - g) * (1 - g) + slope * (1 - g))
    level = cast(uint8, clamp(select(g > 0.5, bright, dark) * 255 + 0.5, 0.0, 255.0))
    curve, curved = Func("curve"), Func("curved")
    curve[i] = select(i <= black, 0, select(i > white, 255, level))
    curved[c, y, x] = curve[clamp(corrected[c, y, x], 0, LEVELS - 1)]
    return curved


def _sharpen(image: Func) -> Func:
    """Return the Func ``output``: the image plus ``sharpen_strength`` times its difference to a small blur."""
    strength = cast(uint8, Param("sharpen_strength", float32, SHARPEN_STRENGTH) * 32)
    blur_y, blur_x, output = Func("blur_y"), Func("blur_x"), Func("output")
    blur_y[c, y, x] = _average(_average(image[c, y - 1, x], image[c, y + 1, x]), image[c, y, x])
    blur_x[c, y, x] = _average(_average(blur_y[c, y, x - 1], blur_y[c, y, x + 1]), blur_y[c, y, x])
    detail = cast(int16, image[c, y, x]) - cast(int16, blur_x[c, y, x])
    output[c, y, x] = cast(uint8, clamp(image[c, y, x] + detail * strength // 32, 0, 255))
    return output


# Colour matrices of a sensor that is much less sensitive to blue.
MATRIX_3200 = ((1.67, -0.27, -0.4, -42.5), (-0.36, 1.06, 1.6, -37.0), (-0.22, -1.88, 6.97, -26.5))
MATRIX_7000 = ((2.3, -0.45, 0.17, -39.0), (-0.38, 1.59, -0.21, -25.5), (-0.09, -0.73, 2.28, -20.0))


def generate(sizes: Mapping[str, int], seed: int) -> Arrays:
    """Return the photograph as sensor data with noise and hot pixels, and the sensor's calibrated matrices."""
    rng = np.random.default_rng(seed)
    warm, cold = (np.array(m * rng.normal(1, 0.01, (3, 4)), np.float32) for m in (MATRIX_3200, MATRIX_7000))
    matrix = _mixed(warm, cold, COLOR_TEMP)
    light = BLACK_LEVEL + (WHITE_LEVEL - BLACK_LEVEL) * rgb_image(sizes["H"], sizes["W"], seed) ** GAMMA
    red, green, blue = np.tensordot(np.linalg.inv(matrix[:, :3]), light - matrix[:, 3, None, None], 1)
    rows, columns = np.indices(green.shape) % 2
    seen = np.where(rows == columns, green, np.where(rows == 0, red, blue)) + rng.normal(0, 2, green.shape)
    hot = rng.random(green.shape) < 1e-3
    mosaic = np.where(hot, WHITE_LEVEL, np.clip(np.rint(seen), 0, WHITE_LEVEL)).astype(np.uint16)
    return {"input": mosaic, "matrix_3200": warm, "matrix_7000": cold}


def _mixed(warm: NDArray[Any], cold: NDArray[Any], color_temp: float) -> NDArray[Any]:
    warmth = (1 / color_temp - 1 / WARM) / (1 / COLD - 1 / WARM)
    return np.asarray(warm * warmth + cold * (1 - warmth))


def compute(
    input: NDArray[np.uint16],
    matrix_3200: NDArray[np.float32],
    matrix_7000: NDArray[np.float32],
    color_temp: float = COLOR_TEMP,
    gamma: float = GAMMA,
    contrast: float = CONTRAST,
    sharpen_strength: float = SHARPEN_STRENGTH,
    blackLevel: int = BLACK_LEVEL,
    whiteLevel: int = WHITE_LEVEL,
) -> Arrays:
    """Return the image that NumPy computes, stage by stage over the whole mosaic, cut to the output in the end."""
    rgb = _numpy_demosaic(input.astype(np.int32))
    matrix = (_mixed(matrix_3200, matrix_7000, color_temp) * 256).astype(np.int32)
    corrected = (np.tensordot(matrix[:, :3], rgb, 1) + matrix[:, 3, None, None]) // 256
    curve = _numpy_curve(gamma, contrast, blackLevel, whiteLevel)
    image = curve[corrected.astype(np.int16).clip(0, LEVELS - 1)]
    blurred = _smoothed(_smoothed(image, 1, 0), 0, 1)
    detail = ((image - blurred) * int(np.clip(sharpen_strength * 32, 0, 255))).astype(np.int16)
    sharp = np.clip(image + detail // 32, 0, 255).astype(np.uint8)
    rows, columns = (BLOCK * ((n - 2 * margin) // BLOCK) for n, margin in zip(input.shape, (TOP, LEFT), strict=True))
    return {"output": np.ascontiguousarray(sharp[:, TOP : TOP + rows, LEFT : LEFT + columns])}


def _moved(a: NDArray[Any], dy: int, dx: int) -> NDArray[Any]:
    """Return ``a[..., y + dy, x + dx]``; values from beyond the edge are in the margin, which is cropped."""
    return np.roll(a, (-dy, -dx), (-2, -1))


def _mean(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    return np.asarray((a + b + 1) >> 1)


def _smoothed(image: NDArray[Any], dy: int, dx: int) -> NDArray[Any]:
    return _mean(_mean(_moved(image, -dy, -dx), _moved(image, dy, dx)), image)


def _numpy_demosaic(mosaic: NDArray[np.int32]) -> NDArray[np.int16]:
    """Return the colours [3, H, W]: each is estimated in three ways at every pixel, and the site chooses."""
    denoised = np.minimum(mosaic, np.max([_moved(mosaic, *at) for at in ((0, -2), (0, 2), (-2, 0), (2, 0))], axis=0))
    rows, columns = np.indices(mosaic.shape) % 2
    beside, above = ([_moved(denoised, k * dy, k * dx) for k in (-1, 1)] for dy, dx in ((0, 1), (1, 0)))
    smooth = np.abs(beside[0] - beside[1]) < np.abs(above[0] - above[1])
    green = np.where(rows == columns, denoised, np.where(smooth, _mean(*beside), _mean(*above)))

    def along(dy: int, dx: int) -> tuple[NDArray[Any], NDArray[Any]]:
        (g0, d0), (g1, d1) = ((_moved(green, k * dy, k * dx), _moved(denoised, k * dy, k * dx)) for k in (-1, 1))
        return np.abs(d0 - d1), green - _mean(g0, g1) + _mean(d0, d1)

    (_, level), (_, upright), (rising, slash), (falling, backslash) = (
        along(*d) for d in ((0, 1), (1, 0), (-1, 1), (1, 1))
    )
    diagonal = np.where(rising < falling, slash, backslash)
    sites = [(rows == 0) & (columns == 1), (rows == 0) & (columns == 0), (rows == 1) & (columns == 1)]
    red = np.select(sites, (denoised, level, upright), diagonal)
    blue = np.select(sites, (diagonal, upright, level), denoised)
    return np.stack((red, green, blue)).astype(np.int16)


def _numpy_curve(gamma: float, contrast: float, black: int, white: int) -> NDArray[np.int32]:
    i = np.arange(LEVELS)
    slope = 2 - 2 ** (contrast / 100)
    with np.errstate(divide="ignore", invalid="ignore"):
        g = np.clip((i - black) / np.float64(white - black), 0, 1) ** (1 / gamma)
        t = np.minimum(g, 1 - g)
        half = (2 - 2 * slope) * t * t + slope * t
        level = np.clip(255 * np.where(g > 0.5, 1 - half, half) + 0.5, 0, 255)
    return np.where(i <= black, 0, np.where(i > white, 255, np.nan_to_num(level))).astype(np.int32)


APP = App(
    name="camera_pipe",
    build=build,
    papers=("Sioutas", "Anderson", "PolyMage-GPU"),
    extents={"input": (H, W), "matrix_3200": (3, 4), "matrix_7000": (3, 4)},
    default_sizes={"W": 2592, "H": 1968},
    small_sizes={"W": 101, "H": 91},
    generate=generate,
    compute=compute,
    tolerance=Tolerance(atol=1, bad_fraction=2e-3, hard_atol=8),  # an entry of the curve may round the other way
)
