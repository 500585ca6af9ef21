"""Functions of kornia that the backend ``autosched`` of `torch.compile` is checked and timed on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

Inputs = tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class KorniaFunction:
    """A function with its inputs.

    Attributes:
        name: Module and name in kornia.
        function: Takes tensors; everything else is fixed.
        draw: Draws the tensors for a shape ``(n, 3, height, width)``.
        differentiable: Whether its gradient is checked.
        timed: The function that is timed in its place, if that has a small result of a fixed size.
    """

    name: str
    function: Callable[..., Any]
    draw: Callable[[tuple[int, ...]], Inputs]
    differentiable: bool
    timed: Callable[..., Any] | None = None


def picture(shape: tuple[int, ...]) -> Inputs:
    """Return a colour picture."""
    return (torch.rand(shape),)


def gray(shape: tuple[int, ...]) -> Inputs:
    """Return a picture of one channel."""
    return (torch.rand(shape[0], 1, *shape[2:]),)


def channels(count: int) -> Callable[[tuple[int, ...]], Inputs]:
    """Return the drawing of a picture of some channels."""
    return lambda shape: (torch.rand(shape[0], count, *shape[2:]),)


def two_pictures(shape: tuple[int, ...]) -> Inputs:
    """Return two colour pictures."""
    return torch.rand(shape), torch.rand(shape)


def depth(shape: tuple[int, ...]) -> Inputs:
    """Return a depth map and camera matrices."""
    camera = torch.tensor([[100.0, 0, 10], [0, 90, 12], [0, 0, 1]]).expand(shape[0], 3, 3).contiguous()
    return torch.rand(shape[0], 1, *shape[2:]) + 1, camera


def affine(shape: tuple[int, ...]) -> Inputs:
    """Return a picture and affine matrices."""
    matrix = torch.tensor([[0.9, -0.1, 3.0], [0.15, 1.1, -2.0]])
    return torch.rand(shape), matrix.expand(shape[0], 2, 3).contiguous()


def homography(shape: tuple[int, ...]) -> Inputs:
    """Return a picture and homographies."""
    matrix = torch.tensor([[0.9, -0.1, 3.0], [0.15, 1.1, -2.0], [1e-4, 2e-4, 1.0]])
    return torch.rand(shape), matrix.expand(shape[0], 3, 3).contiguous()


def flow(shape: tuple[int, ...]) -> Inputs:
    """Return a picture and the pixels to read."""
    n, _, h, w = shape
    y, x = torch.meshgrid(torch.arange(float(h)), torch.arange(float(w)), indexing="ij")
    return torch.rand(shape), (x + torch.randn(n, h, w)), (y + torch.randn(n, h, w))


def labels(shape: tuple[int, ...]) -> Inputs:
    """Return scores of three classes and labels."""
    return torch.randn(shape), torch.randint(0, shape[1], (shape[0], *shape[2:]))


def distributions(shape: tuple[int, ...]) -> Inputs:
    """Return two maps of probabilities."""
    first, second = (torch.rand(shape).flatten(2).softmax(-1).reshape(shape) for _ in range(2))
    return first, second


def kernel(shape: tuple[int, ...]) -> Inputs:
    """Return a picture and a structuring element."""
    return torch.rand(shape), torch.ones(3, 3)


def points(shape: tuple[int, ...]) -> Inputs:
    """Return a matrix and many points."""
    count = shape[2] * shape[3]
    matrix = torch.tensor([[0.9, -0.1, 3.0], [0.15, 1.1, -2.0], [1e-4, 2e-4, 1.0]]).expand(shape[0], 3, 3)
    return matrix.contiguous(), torch.rand(shape[0], count, 2)


def of_input_size(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of a picture, other tensors and the size of the result, for the size of the picture."""
    return lambda image, *others: function(image, *others, (image.shape[-2], image.shape[-1]))


def rows(count: int) -> Callable[[tuple[int, ...]], Inputs]:
    """Return the drawing of many vectors."""
    return lambda shape: (torch.rand(shape[0] * shape[2] * shape[3], count) + 0.1,)


def kornia_functions() -> Iterator[KorniaFunction]:
    """Yield the functions, in the order of kornia's modules."""
    import kornia
    import kornia.metrics
    from kornia import color, enhance, feature, filters, geometry, losses, morphology

    def add(
        module: Any,
        name: str,
        draw: Callable[[tuple[int, ...]], Inputs] = picture,
        *args: Any,
        differentiable: bool = True,
        **kwargs: Any,
    ) -> KorniaFunction:
        function = getattr(module, name)
        return KorniaFunction(
            f"{module.__name__.removeprefix('kornia.')}.{name}",
            lambda *tensors: function(*tensors, *args, **kwargs),
            draw,
            differentiable,
        )

    yield add(filters, "bilateral_blur", picture, (5, 5), 0.1, (1.5, 1.5))
    yield add(filters, "blur_pool2d", picture, 3)
    yield add(filters, "box_blur", picture, (5, 5))
    yield add(filters, "canny", gray, differentiable=False)
    yield add(filters, "edge_aware_blur_pool2d", picture, 3)
    yield add(filters, "filter2d", lambda s: (torch.rand(s), torch.rand(1, 3, 3)))
    yield add(filters, "filter2d_separable", lambda s: (torch.rand(s), torch.rand(1, 5), torch.rand(1, 5)))
    yield add(filters, "gaussian_blur2d", picture, (5, 5), (1.5, 1.5))
    yield add(filters, "guided_blur", two_pictures, 5, 0.1)
    yield add(filters, "joint_bilateral_blur", two_pictures, (5, 5), 0.1, (1.5, 1.5))
    yield add(filters, "laplacian", picture, 3)
    yield add(filters, "max_blur_pool2d", picture, 3)
    yield add(filters, "median_blur", picture, (3, 3), differentiable=False)
    yield add(filters, "motion_blur", picture, 5, 35.0, 0.5)
    yield add(filters, "sobel")
    yield add(filters, "spatial_gradient")
    yield add(filters, "unsharp_mask", picture, (3, 3), (1.5, 1.5))
    for name in (
        "bgr_to_grayscale", "bgr_to_rgb", "hls_to_rgb", "hsv_to_rgb", "lab_to_rgb", "linear_rgb_to_rgb", "luv_to_rgb",
        "rgb_to_bgr", "rgb_to_grayscale", "rgb_to_hls", "rgb_to_hsv", "rgb_to_lab", "rgb_to_linear_rgb", "rgb_to_luv",
        "rgb_to_rgb255", "rgb_to_xyz", "rgb_to_y", "rgb_to_ycbcr", "rgb_to_yuv", "rgb_to_yuv420", "rgb_to_yuv422",
        "sepia", "xyz_to_rgb", "ycbcr_to_rgb", "yuv_to_rgb",
    ):  # fmt: skip
        yield add(color, name)
    yield add(color, "grayscale_to_rgb", gray)
    yield add(color, "rgb_to_rgba", picture, 0.5)
    yield add(color, "rgba_to_rgb", channels(4))
    yield add(color, "rgb_to_raw", picture, color.CFA.BG)
    yield add(color, "raw_to_rgb", gray, color.CFA.BG)
    yield add(color, "yuv420_to_rgb", lambda s: (gray(s)[0], torch.rand(s[0], 2, s[2] // 2, s[3] // 2)))
    yield KorniaFunction(
        "enhance.add_weighted", lambda a, b: enhance.add_weighted(a, 0.3, b, 0.7, 0.1), two_pictures, True
    )
    yield add(enhance, "adjust_brightness", picture, 0.2)
    yield add(enhance, "adjust_contrast", picture, 0.7)
    yield add(enhance, "adjust_contrast_with_mean_subtraction", picture, 0.7)
    yield add(enhance, "adjust_gamma", picture, 2.2)
    yield add(enhance, "adjust_hue", picture, 0.3)
    yield add(enhance, "adjust_log", picture)
    yield add(enhance, "adjust_saturation", picture, 1.5)
    yield add(enhance, "adjust_saturation_with_gray_subtraction", picture, 1.5)
    yield add(enhance, "adjust_sigmoid", picture)
    yield add(
        enhance, "histogram", lambda s: (torch.rand(s[0], s[2] * s[3]), torch.linspace(0, 1, 16), torch.tensor(0.1))
    )
    yield add(enhance, "integral_image", picture)
    yield add(enhance, "invert", picture)
    yield KorniaFunction(
        "enhance.normalize",
        lambda x: enhance.normalize(x, torch.tensor([0.4, 0.5, 0.3]), torch.tensor([0.2, 0.3, 0.1])),
        picture,
        True,
    )
    yield add(enhance, "normalize_min_max", picture)
    yield add(enhance, "posterize", picture, 3, differentiable=False)
    yield add(enhance, "sharpness", picture, 1.5)
    yield add(enhance, "solarize", picture, 0.5)
    for name in ("bottom_hat", "closing", "dilation", "erosion", "gradient", "opening", "top_hat"):
        yield add(morphology, name, kernel)
    yield add(geometry, "build_pyramid", picture, 3)
    yield add(geometry, "center_crop", picture, (24, 32))
    yield add(geometry, "depth_to_3d_v2", lambda s: (depth(s)[0][:, 0], depth(s)[1]))
    yield add(geometry, "depth_to_normals", depth)
    yield add(geometry, "hflip")
    yield add(geometry, "vflip")
    yield add(geometry, "rot180")
    yield add(geometry, "pyrdown")
    yield add(geometry, "pyrup")
    yield add(geometry, "remap", flow)
    yield add(geometry, "rescale", picture, 0.5)
    yield KorniaFunction(
        "geometry.resize",
        lambda x: geometry.resize(x, (x.shape[-2] * 5 // 8, x.shape[-1] * 7 // 8)),  # to its own size it is a copy
        picture,
        True,
    )
    yield replace(add(geometry, "warp_affine", affine, (48, 56)), timed=of_input_size(geometry.warp_affine))
    yield replace(
        add(geometry, "warp_perspective", homography, (48, 56)), timed=of_input_size(geometry.warp_perspective)
    )
    yield add(geometry, "spatial_softmax2d")
    yield add(geometry, "spatial_soft_argmax2d")
    yield add(geometry, "transform_points", points)
    yield add(geometry, "nms2d", picture, (3, 3), differentiable=False)
    yield add(geometry, "quaternion_to_rotation_matrix", rows(4))
    yield add(geometry, "axis_angle_to_quaternion", rows(3))
    yield add(geometry, "cart2pol", two_pictures)
    yield add(geometry, "convert_points_from_homogeneous", rows(3))
    yield add(feature, "dog_response_single", gray)
    yield add(feature, "gftt_response", gray)
    yield add(feature, "harris_response", gray)
    yield add(feature, "hessian_response", gray)
    yield add(losses, "cauchy_loss", two_pictures)
    yield add(losses, "charbonnier_loss", two_pictures)
    yield add(losses, "dice_loss", labels)
    yield add(losses, "focal_loss", labels, 0.5)
    yield add(losses, "geman_mcclure_loss", two_pictures)
    yield add(losses, "js_div_loss_2d", distributions)
    yield add(losses, "kl_div_loss_2d", distributions)
    yield add(losses, "psnr_loss", two_pictures, 1.0)
    yield add(losses, "ssim_loss", two_pictures, 5)
    yield add(losses, "total_variation")
    yield add(losses, "tversky_loss", labels, 0.5, 0.5)
    yield add(losses, "welsch_loss", two_pictures)
    yield add(kornia.metrics, "ssim", two_pictures, 5)
