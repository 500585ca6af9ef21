"""Three to twenty identical steps in turn: diffusion, Jacobi, waves, cellular automata, denoising, propagation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import autosched.lang.functions as fn
from autosched.lang.expr import Expr, Var
from autosched.random_pipelines import arithmetic as ar
from autosched.random_pipelines.family import family
from autosched.random_pipelines.graph import BOUNDARIES, Graph
from autosched.random_pipelines.operands import add_array, image, real, real_types
from autosched.random_pipelines.tensor import Tensor, Value

STEPS = (3, 20)
"""Least and largest number of steps."""
PLANES: Mapping[tuple[str, ...], float] = {("y", "x"): 0.8, ("c", "y", "x"): 0.1, ("z", "y", "x"): 0.1}


@dataclass(frozen=True, slots=True)
class StepRule:
    """What all steps of a loop have in common.

    Attributes:
        rate: Size of a step.
        dims: Dimensions of the neighbours.
        diagonal: Whether diagonal neighbours count.
        scale: Inverse of a typical difference.
    """

    rate: float
    dims: tuple[str, ...]
    diagonal: bool
    scale: float


Step = Callable[[Graph, StepRule, Tensor, Tensor, Tensor], Value]
"""Takes the state with its boundary condition, the state before, and the first state; returns the next."""


@family("time_loops")
def time_loops(g: Graph) -> Tensor | None:
    """Identical steps, each a Func of the one before with the same boundary condition."""
    how = g.draw.weighted(STEP_WEIGHTS)
    count = g.draw.integer(*STEPS)
    cells = how == "life"
    dtypes = {"uint8": 0.8, "int32": 0.2} if cells and g.real == "float32" else None
    t = image(g, STEP_COSTS.get(how, 8) * count, dtypes, layouts=PLANES, prelude=not cells)
    if not g.fits(t.shape, terms=count):
        return None
    if cells:
        alive = t.at().expr % 3 == 0 if t.dtype.is_int else t.at().expr > 0.25
        dtype = t.dtype if t.dtype.is_int else g.real
        t = g.add_stage("cells", t.extents, Value(fn.cast(dtype, alive), 0.0, 1.0), visible=False)
    elif how != "propagation" or t.dtype.is_float or g.draw.chance(0.5):
        t = g.add_stage("initial", t.extents, real(g, t.at()), visible=False)
    dims = tuple(d for d in t.dims if d in "zyx")
    rule = StepRule(g.draw.integer(1, 3) / (8.0 * len(dims)), dims, g.draw.chance(0.3), g.draw.pick((0.5, 1.0, 4.0)))
    fixed = _fixed(g, t, how)
    boundary = g.draw.pick(BOUNDARIES)
    before = t
    for k in range(count):
        source = g.bounded(t, boundary, list(dims))
        value = STEP_RULES[how](g, rule, source, before, fixed)
        before = t
        t = g.add_stage(f"step_{how}", t.extents, value, visible=k == count - 1)
    return t


def _fixed(g: Graph, t: Tensor, how: str) -> Tensor:
    """Return the right-hand side, mask or data term: the first state or another input."""
    if how not in ("jacobi", "propagation", "denoise") or g.draw.chance(0.4):
        return t
    dtype = g.draw.weighted(real_types(g)) if t.dtype.is_float else t.dtype.name
    other = add_array(g, dtype, t.dims, t.shape, "fixed")
    return g.add_stage("data", t.extents, real(g, other.at()), visible=False) if t.dtype.is_float else other


def _shifts(rule: StepRule) -> list[dict[str, int]]:
    """Return the offsets of the neighbours."""
    straight = [{d: i} for d in rule.dims for i in (-1, 1)]
    if not rule.diagonal or len(rule.dims) < 2:
        return straight
    a, b = rule.dims[-2:]
    return [*straight, *({a: i, b: j} for i in (-1, 1) for j in (-1, 1))]


def _around(rule: StepRule, t: Tensor) -> list[Expr]:
    return [t.at({d: Var(d) + i for d, i in shift.items()}).expr for shift in _shifts(rule)]


def _total(terms: list[Expr]) -> Expr:
    total = terms[0]
    for e in terms[1:]:
        total = total + e
    return total


def _diffusion(g: Graph, rule: StepRule, t: Tensor, before: Tensor, fixed: Tensor) -> Value:
    around = _around(rule, t)
    rate = rule.rate / (2 if rule.diagonal else 1)
    return Value(t.at().expr + (_total(around) - t.at().expr * len(around)) * rate, t.low, t.high)


def _edges(g: Graph, rule: StepRule, t: Tensor, before: Tensor, fixed: Tensor) -> Value:
    """Diffusion less across edges (Perona and Malik)."""
    c = t.at().expr
    flows = []
    for e in _around(rule, t):
        away = e - c
        scaled = away * rule.scale
        flows.append(away * fn.exp(-(scaled * scaled)) if rule.rate > 0.1 else away / (scaled * scaled + 1.0))
    return Value(c + _total(flows) * (rule.rate / 2), t.low, t.high)


def _jacobi(g: Graph, rule: StepRule, t: Tensor, before: Tensor, fixed: Tensor) -> Value:
    around = _around(rule, t)
    return Value((_total(around) + fixed.at().expr * rule.rate) * (1.0 / (len(around) + 1)), -16.0, 16.0)


def _wave(g: Graph, rule: StepRule, t: Tensor, before: Tensor, fixed: Tensor) -> Value:
    around = _around(rule, t)
    c = t.at().expr
    value = c * 1.75 - before.at().expr * 0.75 + (_total(around) - c * len(around)) * (rule.rate / 4)
    return Value(value, -64.0, 64.0)


def _denoise(g: Graph, rule: StepRule, t: Tensor, before: Tensor, fixed: Tensor) -> Value:
    """A step down the gradient of total variation and of the distance to the data."""
    c = t.at().expr
    pulls = [(e - c) / fn.sqrt((e - c) * (e - c) + 1.0 / 16) for e in _around(rule, t)]
    value = c + (_total(pulls) * 0.5 + (fixed.at().expr - c)) * (rule.rate / 2)
    return Value(value, min(t.low, fixed.low) - 1, max(t.high, fixed.high) + 1)


def _propagation(g: Graph, rule: StepRule, t: Tensor, before: Tensor, fixed: Tensor) -> Value:
    """Maxima of neighbours below a mask: reconstruction by dilation."""
    largest = t.at().expr
    for e in _around(rule, t):
        largest = fn.max(largest, e)
    mask = fn.max(fixed.at().expr, before.at().expr)
    return ar.with_range(Value(fn.min(largest, mask), min(t.low, fixed.low), max(t.high, fixed.high)))


def _life(g: Graph, rule: StepRule, t: Tensor, before: Tensor, fixed: Tensor) -> Value:
    """A cellular automaton: birth and survival by the number of living neighbours."""
    around = _around(StepRule(rule.rate, rule.dims, True, rule.scale), t)
    n = _total(around)
    born = 3 if len(around) > 4 else 2 if len(around) > 2 else 1
    lives = fn.any_of(n == born, fn.all_of(n == born - 1, t.at().expr != 0))
    return Value(fn.cast(t.dtype, lives), 0.0, 1.0)


def _blur(g: Graph, rule: StepRule, t: Tensor, before: Tensor, fixed: Tensor) -> Value:
    """Weighted mean of the neighbours and the point, limited to a range."""
    around = _around(rule, t)
    value = (_total(around) + t.at().expr * 2.0) * (1.0 / (len(around) + 2))
    return Value(fn.clamp(value, -16.0, 16.0), -16.0, 16.0)


STEP_RULES: Mapping[str, Step] = {
    "diffusion": _diffusion,
    "edges": _edges,
    "jacobi": _jacobi,
    "wave": _wave,
    "denoise": _denoise,
    "propagation": _propagation,
    "life": _life,
    "blur": _blur,
}
STEP_WEIGHTS: Mapping[str, float] = {
    "diffusion": 1.0, "edges": 1.5, "jacobi": 1.0, "wave": 1.0, "denoise": 1.0, "propagation": 1.0, "life": 1.5,
    "blur": 0.7,
}  # fmt: skip
STEP_COSTS: Mapping[str, int] = {"edges": 40, "denoise": 40, "life": 14}
"""Operations of a step at each point; 8 for the others."""
