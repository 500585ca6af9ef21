"""Classes of random programs by name."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fuzzing import carried_dependences, corners
from fuzzing.guards import counts, guarded_gather, masked_reduction, stored_bins
from fuzzing.program import VALUES, Program
from fuzzing.stages import (
    Stage,
    arg_reduction,
    bounded,
    gather,
    input_source,
    outputs,
    pointwise,
    product,
    reduction,
    resample,
    stencil,
    tuple_valued,
)
from fuzzing.updates import updated
from fuzzing.writer import Source, Writer


@dataclass(frozen=True)
class Family:
    """A class of programs.

    Attributes:
        write: Writes a program of the class, with outputs.
        weight: Relative frequency.
        legal: Whether every program of the class must be accepted.
    """

    write: Callable[[Writer], object]
    weight: int = 2
    legal: bool = False


def mixture(*stages: Stage, least: int = 1, most: int = 5) -> Callable[[Writer], object]:
    """Return a writer of programs with random Funcs of some kinds of stages."""

    def write(w: Writer) -> None:
        for _ in range(w.pick((1, 1, 2))):
            input_source(w)
        if w.chance(30):
            dtype = w.pick(("float32", "int32", "uint8", "float64"))
            w.param(dtype, w.pick((1, 2, 3)))
        made: list[Source] = [w.pick(stages)(w) for _ in range(w.integer(least, most))]
        chosen = {s.name: s for s in (made[-1], *([w.pick(made)] if w.chance(40) else []))}
        outputs(w, *chosen.values())

    return write


def chain(w: Writer) -> None:
    """A chain of ten to forty Funcs."""
    input_source(w, w.pick(("float32", "int32", "uint8")), (w.pick((5, 16)),))
    (x,) = w.variables("x")
    last = w.sources[-1].name
    forms = ("{f}[x] + 1", "{f}[x] * 2", "au.max({f}[x], 3)", "{f}[x] - x", "{f}[x + 1]", "{f}[x] + {f}[x - 1]")
    made = []
    for k in range(w.integer(10, 40)):
        name = w.func()
        w.add(f"{name}[x] = {w.pick(forms if k % 8 == 0 else forms[:4]).format(f=last)}")
        made.append(Source(name, (x,)))
        last = name
    outputs(w, made[-1], *([w.pick(made)] if w.chance(50) else []))


WHOLE: tuple[Stage, ...] = (
    pointwise, stencil, reduction, resample, gather, product, tuple_valued, arg_reduction, bounded, updated, updated,
)  # fmt: skip

FAMILIES: Mapping[str, Family] = {
    "diagonal scan": Family(carried_dependences.diagonal_scan, 4, legal=True),
    "scan along a dimension": Family(carried_dependences.long_scan, legal=True),
    "scan of expressions": Family(carried_dependences.data_scan),
    "program over rows": Family(carried_dependences.row_program, legal=True),
    "permutation fills undef": Family(carried_dependences.filled_undef, 1, legal=True),
    "far reads": Family(corners.far_reads, 4, legal=True),
    "far rows": Family(corners.far_rows, 2, legal=True),
    "selects as indices": Family(corners.selected_indices, 3, legal=True),
    "empty domains": Family(corners.empty_domains, 2, legal=True),
    "mixed widths": Family(corners.mixed_widths, 3),
    "weak coordinates": Family(corners.weak_coordinates, 3),
    "NaN and zeros": Family(corners.not_a_number, 3),
    "parameters in indices": Family(corners.parameter_indices, 1),
    "chain": Family(chain, 1, legal=True),
    "reductions": Family(mixture(reduction, arg_reduction, product, pointwise, most=3)),
    "updates": Family(mixture(updated, updated, stencil, most=3), 3),
    "resampling": Family(mixture(resample, stencil, bounded, pointwise)),
    "gathers": Family(mixture(gather, pointwise, updated, most=4)),
    "guards": Family(mixture(guarded_gather, counts, masked_reduction, stored_bins, most=2), 3),
    "whole language": Family(mixture(*WHOLE, most=6), 6),
}
"""Every class by name."""


def draw_family(number: int) -> str:
    """Return the class of a numbered program."""
    rng = random.Random(f"family {number}")
    return rng.choices(list(FAMILIES), [f.weight for f in FAMILIES.values()])[0]


def write_program(family: str, number: int) -> Program:
    """Return a numbered program of a class; a refused statement ends it."""
    w = Writer(random.Random(f"{family} {number}"))
    values = w.pick((*VALUES, "special"))
    try:
        FAMILIES[family].write(w)
        text = w.finish()
    except Exception:  # the check runs the text again and records the refusal
        text = "\n".join([*w.lines, w.tried]) + "\n"
    return Program(text, number, values)
