"""Shapes of first inputs: images, volumes, tensors of networks, matrices."""

from __future__ import annotations

from collections.abc import Sequence

from autosched.random_pipelines.portable_random import PortableRandom
from autosched.random_pipelines.settings import RandomPipelineSettings

Dims = tuple[str, ...]
Shape = tuple[int, ...]

IMAGES = (
    (480, 640), (512, 512), (720, 1280), (768, 1024), (1024, 1024), (1080, 1920), (1536, 2560), (2000, 2000),
    (2160, 3840), (256, 256), (427, 640), (333, 500), (721, 1283), (1079, 1917), (97, 131),
)  # fmt: skip
"""Rows and columns."""
FEATURE_MAPS = (224, 112, 56, 28, 14, 7, 299, 149, 73, 35, 17, 64, 32, 128, 100)
"""Rows, and columns, of square maps inside networks."""
VOLUME_EDGES = (64, 128, 96, 100, 160, 192, 256, 61, 97)
FEATURES = (64, 128, 256, 512, 32, 96, 192, 384, 100, 77)
COLOURS = (3, 3, 3, 1, 4)
BATCHES = (1, 1, 2, 4, 8, 5, 16, 32)
MATRIX_EDGES = (256, 512, 1024, 768, 1536, 2048, 4096, 128, 1000, 1023, 197)

LAYOUTS: dict[int, tuple[Dims, ...]] = {
    2: (("y", "x"), ("y", "x"), ("y", "x"), ("y", "c")),
    3: (("c", "y", "x"), ("c", "y", "x"), ("y", "x", "c"), ("z", "y", "x"), ("n", "y", "x")),
    4: (("n", "c", "y", "x"), ("n", "c", "y", "x"), ("n", "y", "x", "c"), ("c", "z", "y", "x")),
}
"""Names of dimensions by rank: batch n, channels or features c, space z, y, x."""


def first_shape(draw: PortableRandom, settings: RandomPipelineSettings) -> tuple[Dims, Shape]:
    """Return dimension names and extents of a pipeline's first input, at most a quarter of the largest Func."""
    dims = draw.pick(LAYOUTS[draw.pick(settings.ranks)])
    extents = _usual_extents(draw, dims)
    for d in dims:
        if draw.chance(settings.odd):
            extents[d] = extents[d] * draw.integer(12, 20) // 16 + draw.integer(-1, 1)
        extents[d] = _limited(draw, d, extents[d], settings)
    while _points(list(extents.values())) > settings.max_points // 4:
        largest = max(extents, key=lambda d: extents[d])
        extents[largest] = max(extents[largest] // 2, 1)
    return dims, tuple(extents[d] for d in dims)


def channel_count(draw: PortableRandom, settings: RandomPipelineSettings) -> int:
    """Return an extent for a new channel or feature dimension."""
    usual = draw.pick((*FEATURES, 16, 8, 4, 3, 10))
    if draw.chance(settings.odd):
        usual = usual * draw.integer(12, 20) // 16 + draw.integer(-1, 1)
    return _limited(draw, "c", usual, settings)


def _usual_extents(draw: PortableRandom, dims: Dims) -> dict[str, int]:
    if dims == ("y", "c"):  # tokens or samples by features
        return {"y": draw.pick(MATRIX_EDGES), "c": draw.pick(MATRIX_EDGES)}
    if "z" in dims:
        edges = {d: draw.pick(VOLUME_EDGES) for d in ("z", "y", "x")}
        return {d: edges.get(d) or draw.pick(COLOURS) for d in dims}
    is_image = "n" not in dims or draw.chance(0.2)
    rows, columns = draw.pick(IMAGES) if is_image else (draw.pick(FEATURE_MAPS),) * 2
    if draw.chance(0.2):
        rows, columns = columns, rows
    table = {"y": rows, "x": columns, "n": draw.pick(BATCHES)}
    return {d: table.get(d) or draw.pick(COLOURS if is_image else FEATURES) for d in dims}


def _limited(draw: PortableRandom, dim: str, extent: int, settings: RandomPipelineSettings) -> int:
    """Return the extent, or a random one if it is outside the range of the settings."""
    if dim == "n":
        return max(extent, 1)
    low, high = settings.channels if dim == "c" else settings.extents
    return extent if low <= extent <= high else draw.integer(low, high)


def _points(extents: Sequence[int]) -> int:
    total = 1
    for n in extents:
        total *= n
    return total
