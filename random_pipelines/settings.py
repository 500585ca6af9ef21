"""Distribution of random pipelines, and limits of their size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from autosched.errors import InputError

KIND_WEIGHTS: Mapping[str, float] = {
    "activation": 1.0,
    "argreduce": 0.6,
    "attention": 0.5,
    "bilinear_warp": 0.7,
    "blend": 1.0,
    "cast": 1.8,
    "channel_mix": 1.0,
    "concatenate": 0.7,
    "conv1d": 1.5,
    "conv2d": 1.5,
    "conv_channels": 1.5,
    "coordinates": 0.5,
    "dense": 0.8,
    "depthwise": 0.8,
    "downsample": 1.2,
    "elementwise": 5.0,
    "flip": 0.4,
    "fluxes": 1.2,
    "gather": 1.0,
    "gradient": 0.8,
    "grid_scatter": 1.5,
    "histogram": 0.9,
    "iir": 0.8,
    "local_match": 1.0,
    "lookup": 1.0,
    "matmul": 0.7,
    "morphology": 0.8,
    "normalize": 0.7,
    "pad": 0.8,
    "pool": 1.2,
    "prefix_sum": 0.7,
    "pyramid": 0.6,
    "reduce_all": 0.6,
    "reduce_dim": 1.2,
    "separable": 1.5,
    "shuffle": 0.5,
    "slice": 0.7,
    "softmax": 0.6,
    "threshold": 0.6,
    "tile": 0.5,
    "time_step": 0.7,
    "transpose": 0.7,
    "upsample": 1.2,
}
"""Relative frequency of each kind of stage, among the kinds that fit the graph."""

DTYPE_WEIGHTS: Mapping[str, float] = {
    "float32": 5.0,
    "uint8": 2.5,
    "float16": 1.3,
    "bfloat16": 1.3,
    "uint16": 0.7,
    "int32": 0.5,
    "int16": 0.4,
    "int8": 0.4,
    "uint32": 0.2,
    "float64": 0.2,
}
"""Relative frequency of each element type of inputs."""

FAMILY_WEIGHTS: Mapping[str, float] = {
    "attention": 1.0,
    "double_precision": 1.0,
    "rank_filters": 1.0,
    "recurrences": 1.0,
    "row_statistics": 1.0,
    "several_outputs": 1.0,
    "tables": 1.0,
    "time_loops": 1.0,
    "warps": 1.0,
    "wide_windows": 1.0,
}
"""Relative frequency of each family of the configuration group ``users``."""
DOUBLE = "double_precision"
"""The family of any other family's idioms, whose real numbers are float64."""

MOST_STAGES = 10_000
LEAST = {"max_points": 4, "max_bytes": 1, "max_operations": 1, "max_serial": 1}
"""Limits below which nothing can be drawn; the first input has a quarter of the points of the largest Func."""


@dataclass(frozen=True)
class RandomPipelineSettings:
    """Distribution and limits of random pipelines.

    Attributes:
        stages: Range of the intended number of stages: definitions and updates of Funcs, without boundary conditions.
            Small numbers are more frequent. The last kind of stage, and the combination of unread tensors, may exceed
            it by a few stages. The idiom of a family counts as one.
        ranks: Numbers of dimensions of the first input, equally likely.
        extents: Least and largest extent of a spatial dimension of the first inputs, in points.
        channels: Least and largest extent of a channel or feature dimension, there and of layers.
        odd: Probability that an extent is uniform in its range instead of a usual image or tensor size.
        max_points: Points of one Func.
        max_bytes: Total bytes of all Funcs and inputs, each stored once.
        max_operations: Operations of all stages, each point computed once.
        max_serial: Iterations of a loop that carries a dependence or accumulates into one value.
        outputs: Probabilities of one, two, three... outputs.
        recency: Probability of each tensor that fits as an operand, tried from the newest on. Large values give deep
            pipelines, small ones wide fan-out.
        kinds: Weights by kind of stage; missing kinds do not occur.
        dtypes: Weights of the element types of inputs.
        families: Weights by family: an idiom of users, then stages up to their number. Without any, pipelines begin
            with an input, and all of their stages are drawn by kind.
    """

    stages: tuple[int, int] = (1, 40)
    ranks: tuple[int, ...] = (2, 3, 4)
    extents: tuple[int, int] = (16, 4096)
    channels: tuple[int, int] = (1, 512)
    odd: float = 0.25
    max_points: int = 1 << 24
    max_bytes: int = 1 << 30
    max_operations: int = 20_000_000_000
    max_serial: int = 1 << 14
    outputs: tuple[float, ...] = (0.75, 0.18, 0.07)
    recency: float = 0.55
    kinds: Mapping[str, float] = field(default_factory=lambda: dict(KIND_WEIGHTS))
    dtypes: Mapping[str, float] = field(default_factory=lambda: dict(DTYPE_WEIGHTS))
    families: Mapping[str, float] = field(default_factory=dict)

    @property
    def reduced_floats(self) -> tuple[str, ...]:
        """Floating-point types of 16 bits: the settings of stored labels have no bfloat16, and keep their pipelines."""
        return ("float16", "bfloat16") if self.dtypes.get("bfloat16", 0) > 0 else ("float16",)

    def __post_init__(self) -> None:
        for name in ("stages", "ranks", "extents", "channels", "outputs"):  # configuration files have lists
            object.__setattr__(self, name, tuple(getattr(self, name)))
        for name in ("stages", "extents", "channels"):
            low, high = getattr(self, name)
            if not 1 <= low <= high:
                raise InputError(f"{name} is {low} to {high}: give a range of positive numbers")
        if self.stages[1] > MOST_STAGES:
            raise InputError(f"stages is up to {self.stages[1]}: give at most {MOST_STAGES}")
        for name, least in LEAST.items():
            if getattr(self, name) < least:
                raise InputError(f"{name} is {getattr(self, name)}: give at least {least}")
        if not self.ranks or set(self.ranks) - {2, 3, 4}:
            raise InputError(f"ranks is {self.ranks}: choose among 2, 3 and 4")
        for name in ("odd", "recency"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise InputError(f"{name} is {getattr(self, name)}: give a probability")
        for name, known in (("kinds", KIND_WEIGHTS), ("dtypes", DTYPE_WEIGHTS), ("families", FAMILY_WEIGHTS)):
            given = getattr(self, name)
            if given or name != "families":
                _check_weights(name, given, known)
            # a fixed order: the pipeline of a seed does not depend on the order in a file
            object.__setattr__(self, name, {k: given[k] for k in known if k in given})
        if not self.outputs or min(self.outputs) < 0 or sum(self.outputs) <= 0:
            raise InputError(f"outputs is {self.outputs}: give probabilities of one, two, three... outputs")


def _check_weights(name: str, given: Mapping[str, float], known: Mapping[str, float]) -> None:
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise InputError(f"{name} has no {unknown[0]!r}: choose among {', '.join(known)}")
    if not given or min(given.values()) < 0 or sum(given.values()) <= 0:
        raise InputError(f"{name} needs weights of at least 0, not all of them 0")


SMALL = RandomPipelineSettings(
    extents=(5, 40),
    channels=(1, 6),
    max_points=1 << 15,
    max_bytes=1 << 22,
    max_operations=8_000_000,
    max_serial=1 << 10,
)
"""Small enough for the interpreter and the emulator."""
CPU = RandomPipelineSettings(
    extents=(16, 1024), channels=(1, 128), max_points=1 << 21, max_bytes=1 << 27, max_operations=1_000_000_000
)
"""Pipelines that run in well under a second on a few CPU cores."""
USERS = RandomPipelineSettings(
    stages=(1, 8),
    extents=(16, 2048),
    channels=(1, 1024),
    max_points=1 << 23,
    max_bytes=1 << 28,
    max_operations=300_000_000,
    families=FAMILY_WEIGHTS,
)
"""Programs in the manner of users, most of which take 0.1 to 30 ms on a few CPU cores."""
