"""Figures of PolyMage-GPU (Jangda and Guha 2020, section 7), as printed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class PaperFigures:
    """Figures of one program; pairs are of the GTX 1080Ti and the V100.

    Attributes:
        sizes: Extents of the image (Table 2).
        fusion_s: Seconds of fusion (Table 2).
        halide_ms: Milliseconds of Halide's manual schedule, with a tile per block (Table 4).
        hybrid_ms: Milliseconds of hybrid tiles (Table 4).
        stalls: Percent of the stalls that are due to barriers of the block, with a tile per block (Figure 8).
        shared: Speedup of a tile per warp in shared memory over a tile per block (Figure 9).
        registers: Speedup of a tile per warp in registers (Figure 9).
        hybrid: Speedup of hybrid tiles (Figure 9).
        fewer_loads: Decrease of global loads by hybrid tiles, in percent of those of tiles in shared memory (Table 5).
        more_occupancy: Increase of occupancy, likewise (Table 5).
    """

    sizes: Mapping[str, int]
    fusion_s: float
    halide_ms: tuple[float, float]
    hybrid_ms: tuple[float, float]
    stalls: tuple[float, float]
    shared: tuple[float, float]
    registers: tuple[float, float]
    hybrid: tuple[float, float]
    fewer_loads: tuple[float, float]
    more_occupancy: tuple[float, float]


PAPER: Mapping[str, PaperFigures] = {
    "unsharp_polymage": PaperFigures(
        {"W": 4256, "H": 2832}, 0.05, (1.50, 0.45), (1.00, 0.39), (21.1, 14.8),
        (1.15, 1.0), (1.0, 1.0), (1.15, 1.28), (2.51, 3.10), (0.0, 0.0),
    ),
    "harris_gray": PaperFigures(
        {"W": 4256, "H": 2832}, 0.15, (1.80, 0.45), (0.80, 0.29), (11.7, 15.16),
        (1.5, 1.25), (0.8, 0.7), (2.25, 1.96), (20.0, 31.2), (9.10, 0.0),
    ),
    "bilateral_grid": PaperFigures(
        {"W": 2560, "H": 1536}, 0.02, (0.40, 0.20), (0.32, 0.20), (1.1, 2.85),
        (1.08, 0.67), (0.9, 0.6), (1.25, 1.0), (4.50, 3.60), (0.0, 0.0),
    ),
    "interpolate": PaperFigures(
        {"W": 2560, "H": 1536}, 10.0, (1.65, 0.60), (1.26, 0.54), (25.4, 34.4),
        (1.1, 1.0), (0.8, 0.6), (1.31, 1.11), (5.30, 13.20), (0.0, 10.0),
    ),
    "camera_pipe": PaperFigures(
        {"W": 2592, "H": 1968}, 17.0, (1.90, 0.36), (1.04, 0.30), (16.2, 22.23),
        (1.58, 0.95), (1.1, 1.2), (1.83, 1.23), (5.21, 0.0), (1.70, 16.6),
    ),
    "pyramid_blend": PaperFigures(
        {"W": 3840, "H": 2160}, 28.0, (5.80, 2.90), (2.90, 1.30), (15.7, 18.3),
        (1.65, 1.61), (0.8, 0.7), (2.0, 2.23), (9.12, 7.40), (-5.40, 13.8),
    ),
}  # fmt: skip
"""Figures by app. Harris is ``harris_gray``: the paper's image has one channel, and PolyMage's program 11 stages."""
