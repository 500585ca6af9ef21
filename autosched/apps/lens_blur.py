"""Lens blur: depth from a stereo pair, and the left image as a lens focused at one depth shows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autosched.apps.app import App, Arrays, load_ndimage
from autosched.apps.images import rgb_image
from autosched.apps.pyramid import BINOMIAL_4, between_pixels, downsampled, upsampled
from autosched.apps.pyramid_reference import BETWEEN_PIXELS, Box, PyramidLevel
from autosched.apps.sizes import H, W
from autosched.apps.tolerance import Tolerance
from autosched.errors import InputError
from autosched.lang.dtypes import float32, int8, int32, uint8, uint32
from autosched.lang.expr import Expr, ExprLike, Var
from autosched.lang.func import Func, Input
from autosched.lang.functions import abs as absolute
from autosched.lang.functions import absd, cast, clamp, lerp, max, min, select
from autosched.lang.pipeline import Pipeline
from autosched.lang.rdom import RDom, argmin
from autosched.lang.rdom import sum as sum_over

SLICES, FOCUS_DEPTH, BLUR_RADIUS_SCALE, APERTURE_SAMPLES = 32, 13, 0.5, 32
MOST_SLICES, MOST_SAMPLES, LARGEST_RADIUS = 256, 1024, 127
LEVELS = 8
OPAQUE = 255
MIX = (0x9E3779B8, 0x85EBCA6B, 0xC2B2AE35)
"""Coefficients, from that of the square, of the polynomial modulo 2**32 that makes the random numbers."""

c, z, y, x = Var("c"), Var("z"), Var("y"), Var("x")


def build(
    slices: int = SLICES,
    focus_depth: int = FOCUS_DEPTH,
    blur_radius_scale: float = BLUR_RADIUS_SCALE,
    aperture_samples: int = APERTURE_SAMPLES,
) -> Pipeline:
    """Return the pipeline: ``left`` and ``right`` uint8 [3, H, W] to ``output`` float32 [3, H, W].

    Args:
        slices: Number of depths; one step moves a point by two pixels between the images.
        focus_depth: The depth that stays sharp.
        blur_radius_scale: Radius of the blur, in pixels, for every step away from that depth.
        aperture_samples: Random points of the lens at which a pixel looks through it.

    Raises:
        InputError: If a value is out of range.
    """
    radius = _largest_radius(slices, focus_depth, blur_radius_scale)
    if not 1 <= aperture_samples <= MOST_SAMPLES:
        raise InputError(f"aperture_samples is {aperture_samples}: give 1 to {MOST_SAMPLES}")
    left, right = Input("left", uint8, 3), Input("right", uint8, 3)
    _, height, width = left.shape
    left_edge, right_edge = (image.clamped(y=(0, height), x=(0, width)) for image in (left, right))
    cost = _smoothed_cost(_matching_cost(left_edge, right_edge), slices, height, width)
    depth = Func("depth")
    r = RDom("r", z=slices)
    depth[y, x] = argmin(cost[r.z, y, x], over=r, name="best")[0]
    output = _defocused(left_edge, depth, focus_depth, blur_radius_scale, radius, aperture_samples)
    return Pipeline(output.over(c=(0, 3), y=(0, height), x=(0, width)), name="lens_blur")


def _largest_radius(slices: int, focus_depth: int, blur_radius_scale: float) -> int:
    """Return the radius, in whole pixels, of the largest blur."""
    if not 1 <= slices <= MOST_SLICES:
        raise InputError(f"slices is {slices}: give 1 to {MOST_SLICES}")
    if not 0 <= focus_depth <= slices:
        raise InputError(f"focus_depth is {focus_depth}: give 0 to {slices}, the number of slices")
    steps = slices - focus_depth if 2 * focus_depth < slices else focus_depth
    if not 0 <= blur_radius_scale * steps < LARGEST_RADIUS + 1:
        raise InputError(
            f"blur_radius_scale is {blur_radius_scale}: give 0 to {LARGEST_RADIUS / steps:g}, "
            f"for a radius of at most {LARGEST_RADIUS} pixels"
        )
    return int(blur_radius_scale * steps)


def _matching_cost(left: Func, right: Func) -> Func:
    """Return the squared difference of colours [z, y, x], with the right image shifted to every depth."""
    difference, cost = Func("difference"), Func("cost")
    difference[c, z, y, x] = min(
        absd(left[c, y, x], right[c, y, x + 2 * z]), absd(left[c, y, x], right[c, y, x + 2 * z + 1])
    )
    channel = RDom("channel", c=3)
    error = cast(float32, difference[channel.c, z, y, x])
    cost[z, y, x] = sum_over(error * error, over=channel, unroll=True)
    return cost


def _smoothed_cost(cost: Func, slices: int, height: Expr, width: Expr) -> Func:
    """Return the cost in which pixels of little texture take the cost of neighbours from a pyramid."""
    r = RDom("r", z=slices)
    moments, confidence = Func("moments"), Func("confidence")
    moments[y, x] = (0.0, 0.0)
    squares, total = moments[y, x]
    moments[y, x] = squares + cost[r.z, y, x] * cost[r.z, y, x], total + cost[r.z, y, x] / slices
    confidence[y, x] = squares / slices - total * total
    weighted = Func("push_0")
    weighted[c, z, y, x] = select(c == 0, cost[z, y, x] * confidence[y, x], confidence[y, x])
    push = [weighted]
    for n in range(1, LEVELS):
        level = downsampled(push[-1], BINOMIAL_4, f"push_{n}")
        push.append(level.clamped(y=(0, max(height // 2**n, 1)), x=(0, max(width // 2**n, 1))))
    pull = push[-1]
    for n in reversed(range(LEVELS - 1)):
        coarser = upsampled(pull, between_pixels, f"up_{n}")
        pull = Func(f"pull_{n}")
        pull[c, z, y, x] = lerp(coarser[c, z, y, x], push[n][c, z, y, x], 0.5)
    filtered = Func("filtered")
    filtered[z, y, x] = pull[0, z, y, x] / pull[1, z, y, x]
    return filtered


def _defocused(image: Func, depth: Func, focus: int, scale: float, radius: int, samples: int) -> Func:
    """Return the Func ``output``: the mean over random rays through the lens."""
    s = Var("s")
    bokeh, squared = Func("bokeh_radius"), Func("bokeh_radius_squared")
    bokeh[y, x] = cast(float32, absolute(depth[y, x] - focus)) * scale
    squared[y, x] = bokeh[y, x] * bokeh[y, x]
    across = RDom("across", i=(-radius, radius + 1))
    worst_y, worst = Func("worst_radius_y"), Func("worst_radius")
    worst_y[y, x], worst[y, x] = 0.0, 0.0
    worst_y[y, x] = max(worst_y[y, x], bokeh[y + across.i, x])
    worst[y, x] = max(worst[y, x], worst_y[y, x + across.i])
    rays = Func("rays")
    rays[s, y, x] = [cast(int8, (n - 0.5) * 2 * worst[y, x]) for n in _random_pair(x, y, s)]

    def offsets(sample: Expr) -> tuple[Expr, Expr]:
        u, v = (clamp(cast(int32, n), -radius, radius) for n in rays[sample, y, x])
        return u, v

    u, v = offsets(s)
    distance = u * u + v * v
    visible = Func("visible")
    in_front = (distance < squared[y, x]) | (depth[y + v, x + u] < depth[y, x])
    visible[s, y, x] = in_front & (distance < squared[y + v, x + u])
    color, light, output = Func("color"), Func("light"), Func("output")
    color[c, y, x] = select(c < 3, cast(float32, image[min(c, 2), y, x]), OPAQUE)
    ray = RDom("ray", s=samples)
    u, v = offsets(ray.s)
    light[c, y, x] = color[c, y, x]
    light[c, y, x] += select(visible[ray.s, y, x], color[c, y + v, x + u], 0)
    output[c, y, x] = light[c, y, x] / light[3, y, x]
    return output


def _random_pair(first: ExprLike, *more: ExprLike) -> tuple[Expr, Expr]:
    """Return two float32 in [0, 1) that depend, as if by chance, on integers."""
    square, linear, constant = MIX

    def mixed(state: Expr) -> Expr:
        return (square * state + linear) * state + constant

    def fraction(state: Expr) -> Expr:
        return cast(float32, mixed(state) >> 8) * 2.0**-24

    state = mixed(cast(uint32, first))
    for key in more:
        state = mixed(state + cast(uint32, key))
    return fraction(state), fraction(state + 1)


def generate(sizes: Mapping[str, int], seed: int) -> Arrays:
    """Return two views, with a little noise, of the photograph as a plane that is nearer the higher it is."""
    height, width = sizes["H"], sizes["W"]
    nearest = int(np.clip(width // 2, 1, 2 * SLICES))
    scene = 255 * rgb_image(height, width + nearest, seed)
    rows, columns = np.indices((height, width))
    shift = (height - 1 - rows) * nearest // height
    rng = np.random.default_rng(seed)
    views = (scene[:, rows, nearest + columns - moved] for moved in (0, shift))
    left, right = (np.clip(np.rint(v + rng.normal(0, 1, v.shape)), 0, 255).astype(np.uint8) for v in views)
    return {"left": left, "right": right}


def compute(
    left: NDArray[np.uint8],
    right: NDArray[np.uint8],
    slices: int = SLICES,
    focus_depth: int = FOCUS_DEPTH,
    blur_radius_scale: float = BLUR_RADIUS_SCALE,
    aperture_samples: int = APERTURE_SAMPLES,
) -> Arrays:
    """Return the output by NumPy: a pyramid for each slice, then gathers from the padded image for each ray."""
    radius = _largest_radius(slices, focus_depth, blur_radius_scale)
    depth = _numpy_depth(left, right, slices, radius)
    return {"output": _numpy_defocused(left, depth, focus_depth, blur_radius_scale, radius, aperture_samples)}


def _numpy_depth(left: NDArray[Any], right: NDArray[Any], slices: int, margin: int) -> NDArray[np.int32]:
    """Return the depths of the image and ``margin`` pixels around it."""
    height, width = left.shape[1:]
    around = margin + 2  # the pyramid's filter reads two pixels beyond the image
    padded, far = (
        np.pad(a, ((0, 0), (around, around), (around, around + more)), mode="edge").astype(np.int32)
        for a, more in ((left, 0), (right, 2 * slices))
    )

    def cost(k: int) -> NDArray[np.float32]:
        near = [np.abs(padded - far[:, :, n : n + padded.shape[2]]) for n in (2 * k, 2 * k + 1)]
        return np.asarray(np.square(np.minimum(*near)).sum(axis=0), np.float32)

    share = np.float32(1 / slices)
    mean, mean_square = np.zeros((2, *padded.shape[1:]), np.float32)
    for k in range(slices):
        mean += cost(k) * share
        mean_square += cost(k) ** 2 * share
    confidence = mean_square - mean * mean
    depth = np.zeros((height + 2 * margin, width + 2 * margin), np.int32)
    least = np.full(depth.shape, np.inf, np.float32)
    weight = _numpy_smoothed(confidence, height, width, margin)
    for k in range(slices):
        with np.errstate(divide="ignore", invalid="ignore"):
            smoothed = _numpy_smoothed(cost(k) * confidence, height, width, margin) / weight
        nearer = smoothed < least
        depth, least = np.where(nearer, k, depth), np.where(nearer, smoothed, least)
    return depth


def _numpy_smoothed(image: NDArray[np.float32], height: int, width: int, margin: int) -> NDArray[np.float32]:
    """Return an image around ``[0, height) x [0, width)``, smoothed by a pyramid; ``margin`` pixels remain."""
    windows: list[Box] = [((-margin, height + margin), (-margin, width + margin))]
    levels = [PyramidLevel(image, (-margin - 2, -margin - 2))]
    for n in range(1, LEVELS):
        inside: Box = ((0, height >> n or 1), (0, width >> n or 1))
        levels.append(PyramidLevel(levels[-1].downsampled(BINOMIAL_4).window(inside)))
        rows, columns = ((low // 2 - 1, (high - 1) // 2 + 2) for low, high in windows[-1])
        windows.append((rows, columns))
    result = levels[-1].window(windows[-1])
    for n in reversed(range(LEVELS - 1)):
        coarser = PyramidLevel(result, (windows[n + 1][0][0], windows[n + 1][1][0])).upsampled(
            BETWEEN_PIXELS, windows[n]
        )
        result = (coarser + levels[n].window(windows[n])) / 2
    return result


def _numpy_defocused(
    image: NDArray[np.uint8], depth: NDArray[np.int32], focus: int, scale: float, radius: int, samples: int
) -> NDArray[np.float32]:
    height, width = image.shape[1:]
    rows, columns = np.indices((height, width))
    radii = (np.abs(depth - focus) * np.float32(scale)).astype(np.float32)
    worst = load_ndimage().maximum_filter(radii, 2 * radius + 1)[radius : radius + height, radius : radius + width]
    alpha = np.full((1, height, width), OPAQUE, np.uint8)
    color = np.pad(np.concatenate([image, alpha]), ((0, 0), (radius, radius), (radius, radius)), mode="edge")
    at = rows + radius, columns + radius
    total = color[:, *at].astype(np.float32)
    for s in range(samples):
        u, v = (((_numpy_random(columns, rows, s, n) - 0.5) * 2 * worst).astype(np.int32) for n in range(2))
        seen = at[0] + v, at[1] + u
        distance = u * u + v * v
        visible = ((distance < radii[at] ** 2) | (depth[seen] < depth[at])) & (distance < radii[seen] ** 2)
        total += visible * color[:, *seen]
    return np.asarray(total[:3] / total[3])


def _numpy_random(*keys: NDArray[Any] | int) -> NDArray[np.float32]:
    square, linear, constant = MIX
    state = np.zeros(np.shape(keys[0]), np.uint64)
    for key in keys:
        state = (state + np.asarray(key, np.uint64)) % 2**32
        state = ((square * state + linear) % 2**32 * state + constant) % 2**32
    return np.asarray((state >> 8) * 2.0**-24, np.float32)


APP = App(
    name="lens_blur",
    build=build,
    papers=("Sioutas", "Anderson"),
    extents={"left": (3, H, W), "right": (3, H, W)},
    default_sizes={"W": 1536, "H": 2560},
    small_sizes={"W": 77, "H": 53},
    generate=generate,
    compute=compute,
    tolerance=Tolerance(rtol=1e-4, atol=1e-4, bad_fraction=0.01),  # two depths may be almost equally likely
)
