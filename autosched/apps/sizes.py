"""Problem sizes of suite apps by name, and the array shapes that follow from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from autosched.errors import InputError


@dataclass(frozen=True, slots=True)
class Size:
    """A problem size by name plus a constant, in elements: ``Size("H") + 2``.

    Args:
        key: Name of the size.
        extra: Elements added to it.
    """

    key: str
    extra: int = 0

    def __add__(self, elements: int) -> Size:
        return Size(self.key, self.extra + elements)

    def __str__(self) -> str:
        return f"{self.key}{self.extra:+d}" if self.extra else self.key


Extent = int | Size
"""A fixed number of elements, or one that follows from a size."""

D, H, W = Size("D"), Size("H"), Size("W")


def shapes_from_sizes(
    extents: Mapping[str, tuple[Extent, ...]], sizes: Mapping[str, int]
) -> dict[str, tuple[int, ...]]:
    """Return the shape of every array at the given sizes."""
    return {
        name: tuple(e if isinstance(e, int) else sizes[e.key] + e.extra for e in dims) for name, dims in extents.items()
    }


def sizes_from_shapes(
    extents: Mapping[str, tuple[Extent, ...]], shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, int]:
    """Return the sizes that give these shapes; the inverse of `shapes_from_sizes`.

    Raises:
        InputError: If an array is missing, its shape does not fit, or two arrays disagree about a size.
    """
    sizes: dict[str, int] = {}
    origin: dict[str, str] = {}
    for name, dims in extents.items():
        if name not in shapes:
            raise InputError(f"input {name!r} of shape {_text(dims)} is missing")
        shape = shapes[name]
        wrong = f"input {name!r} has shape {list(shape)}, not {_text(dims)}"
        if len(shape) != len(dims):
            raise InputError(f"{wrong}: give it {len(dims)} dimensions")
        for axis, (extent, actual) in enumerate(zip(dims, shape, strict=True)):
            if isinstance(extent, int):
                if extent != actual:
                    raise InputError(f"{wrong}: dimension {axis} must be {extent}")
                continue
            size = actual - extent.extra
            if size < 1:
                raise InputError(f"{wrong}: dimension {axis} must be at least {1 + extent.extra}")
            if sizes.setdefault(extent.key, size) != size:
                raise InputError(
                    f"{wrong}: {extent.key} is {size} here, but {sizes[extent.key]} by input {origin[extent.key]!r}"
                )
            origin.setdefault(extent.key, name)
    return sizes


def _text(dims: tuple[Extent, ...]) -> str:
    return f"[{', '.join(map(str, dims))}]"
