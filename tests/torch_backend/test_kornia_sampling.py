"""Functions of kornia that sample, pool or scatter, forward and backward, against eager PyTorch."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tests.torch_backend.differential import compare, random

pytest.importorskip("kornia")

from kornia import contrib, filters, geometry, morphology
from kornia.geometry import subpix, transform

AFFINE = torch.tensor([[[0.9, 0.1, 0.5], [-0.1, 0.95, 1.3]]])
PROJECTIVE = torch.tensor([[[0.9, 0.1, 0.5], [-0.1, 0.95, 1.3], [0.001, 0.002, 1.0]]])
ROWS, COLUMNS = random(1, 8, 9, seed=1, gradient=False) * 9, random(1, 8, 9, seed=2, gradient=False) * 11
NOISE = random(1, 2, 12, 14, seed=3, gradient=False) * 2 - 1
SQUARE = torch.ones(3, 3)

FUNCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "warp_affine": lambda a: transform.warp_affine(a, AFFINE, (10, 11)),
    "warp_perspective": lambda a: transform.warp_perspective(a, PROJECTIVE, (10, 11)),
    "remap": lambda a: transform.remap(a, COLUMNS, ROWS, align_corners=True),
    "pyrdown": transform.pyrdown,
    "pyrup": transform.pyrup,
    "resize": lambda a: transform.resize(a, (7, 9)),
    "elastic_transform2d": lambda a: transform.elastic_transform2d(a, NOISE, (5, 5), (2.0, 2.0)),
    "dilation": lambda a: morphology.dilation(a, SQUARE),
    "erosion": lambda a: morphology.erosion(a, SQUARE),
    "nms2d": lambda a: subpix.nms2d(a, (3, 3)),
    "conv_soft_argmax2d": lambda a: subpix.conv_soft_argmax2d(a, (3, 3)),
    "max_blur_pool2d": lambda a: filters.max_blur_pool2d(a, 3),
    "extract_tensor_patches": lambda a: contrib.extract_tensor_patches(a, (4, 4), (2, 2)),
    "center_crop": lambda a: geometry.center_crop(a, (6, 8)),
}
COMPILED = ("warp_affine", "remap", "dilation", "nms2d")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_interpreter_gives_eager_results(name: str) -> None:
    compare(FUNCTIONS[name], random(1, 2, 12, 14), witness="interpreter", rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", COMPILED)
def test_compiled_functions_give_eager_results(name: str) -> None:
    compare(FUNCTIONS[name], random(1, 2, 12, 14), rtol=1e-3, atol=1e-4)
