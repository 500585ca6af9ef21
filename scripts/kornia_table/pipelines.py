"""Pipelines of several functions of kornia, as users combine them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from kornia_table.functions import KorniaFunction, gray, picture


def kornia_pipelines() -> Iterator[KorniaFunction]:
    """Yield pipelines of three or more functions."""
    from kornia import color, enhance, feature, filters, geometry, morphology

    def edges(x: torch.Tensor) -> torch.Tensor:
        smooth = filters.gaussian_blur2d(color.rgb_to_grayscale(x), (5, 5), (1.5, 1.5))
        return filters.sobel(smooth)

    def sharpened(x: torch.Tensor) -> torch.Tensor:
        return enhance.adjust_gamma(enhance.adjust_contrast(filters.unsharp_mask(x, (5, 5), (1.5, 1.5)), 1.2), 0.9)

    def augmented(x: torch.Tensor) -> torch.Tensor:
        turned = geometry.hflip(enhance.adjust_hue(enhance.adjust_saturation(x, 1.3), 0.1))
        return enhance.normalize(turned, torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225]))

    def corners(x: torch.Tensor) -> torch.Tensor:
        response = feature.harris_response(filters.gaussian_blur2d(x, (3, 3), (0.8, 0.8)))
        return response * (response == torch.nn.functional.max_pool2d(response, 3, 1, 1))

    def differences(x: torch.Tensor) -> torch.Tensor:
        gray_levels = color.rgb_to_grayscale(x)
        first = filters.gaussian_blur2d(gray_levels, (5, 5), (1.0, 1.0))
        second = filters.gaussian_blur2d(gray_levels, (9, 9), (2.0, 2.0))
        return enhance.normalize_min_max(first - second)

    def cartoon(x: torch.Tensor) -> torch.Tensor:
        lines = filters.laplacian(color.rgb_to_grayscale(filters.median_blur(x, (3, 3))), 3).abs()
        return torch.where(lines > 0.1, x * 0.2, enhance.posterize(x, 4))

    def graded(x: torch.Tensor) -> torch.Tensor:
        ycc = color.rgb_to_ycbcr(x)
        luma = filters.gaussian_blur2d(ycc[:, :1], (3, 3), (1.0, 1.0))
        return color.sepia(color.ycbcr_to_rgb(torch.cat([luma, ycc[:, 1:]], 1)).clamp(0, 1))

    def opened(x: torch.Tensor) -> torch.Tensor:
        mask = (color.rgb_to_grayscale(x) > 0.5).float()
        element = torch.ones(3, 3)
        return x * morphology.closing(morphology.opening(mask, element), element)

    named: list[tuple[str, Callable[[torch.Tensor], Any], Any]] = [
        ("gray, blur, Sobel", edges, picture), ("unsharp mask, contrast, gamma", sharpened, picture),
        ("saturation, hue, flip, normalise", augmented, picture), ("blur, Harris, non-maxima", corners, gray),
        ("gray, two blurs, normalise", differences, picture), ("median, Laplacian, posterise", cartoon, picture),
        ("YCbCr, blur, sepia", graded, picture), ("gray, opening, closing", opened, picture),
    ]  # fmt: skip
    for name, function, draw in named:
        yield KorniaFunction(f"pipeline: {name}", function, draw, True)
