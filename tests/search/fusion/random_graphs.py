"""Random graphs of a few Funcs, and all schedules of a small space over them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from autosched import Expr, Func, Input, Pipeline, Var, float32
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.search.beam.state import State
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.settings import PAPER
from autosched.search.space.option_enumeration import OptionEnumerator

MOST_FUNCS = 7
HEIGHT, WIDTH = 1536, 2048
FEW_TILES = replace(
    PAPER, beam_size=1, passes=1, freeze=False, per_reduction_step=False, thread_tile_sizes=(1,),
    odd_thread_tile_sizes=(), vector_threads=(32,), other_threads=(4,),
)  # fmt: skip
"""Settings with a few tile sizes, without rewrites and refinement."""
MOST_HALVINGS = 2
EXPENSIVE, OPERATIONS = 0.4, 12
"""Share of Funcs that are expensive to recompute, and their divisions."""
FEW_OPERATIONS = 8
"""Divisions of a Func that several outputs read, exclusively."""

y, x = Var("y"), Var("x")


def random_graph(seed: int) -> BoundPipeline:
    """Return a random pipeline of 2 to 7 Funcs: pointwise ones, stencils and downsamplings of up to three sources."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(2, MOST_FUNCS + 1))
    sources: list[Input | Func] = [Input("image", float32, 2)]
    unread: list[Func] = []
    halvings = 0
    for k in range(count):
        func = Func(f"f{k}")
        nearest = sources[-3:]
        chosen = [nearest[int(rng.integers(len(nearest)))] for _ in range(int(rng.integers(1, 3)))]
        if k == count - 1:
            chosen += unread  # no Func is left without a reader
        kind = int(rng.integers(5))
        if kind == 4 and halvings == MOST_HALVINGS:
            kind = 0
        halvings += kind == 4
        terms = [
            read(source, kind if n == 0 else int(rng.integers(4))) for n, source in enumerate(dict.fromkeys(chosen))
        ]
        value = terms[0]
        for term in terms[1:]:
            value = value / (1.5 + term)
        if rng.random() < EXPENSIVE:
            for _ in range(OPERATIONS):
                value = value / (1.5 + value)
        func[y, x] = value
        unread = [f for f in unread if f not in chosen] + [func]
        sources.append(func)
    out = unread[-1].over(y=(0, HEIGHT), x=(0, WIDTH))
    return bind(Pipeline([out]), {"image": (2**MOST_HALVINGS * (HEIGHT + 256), WIDTH + 256)})


def random_outputs(seed: int) -> BoundPipeline:
    """Return a random pipeline of one or two Funcs, of some operations, that two or three outputs read."""
    rng = np.random.default_rng(seed)
    image = Input("image", float32, 2)
    shared: list[Input | Func] = []
    for k in range(int(rng.integers(1, 3))):
        func, source = Func(f"s{k}"), shared[-1] if shared and rng.random() < 0.7 else image
        value = read(source, int(rng.integers(4)))
        for _ in range(int(rng.integers(FEW_OPERATIONS))):
            value = value / (1.5 + value)
        func[y, x] = value
        shared.append(func)
    outputs = []
    for k in range(int(rng.integers(2, 4))):
        func = Func(f"out{k}")
        chosen = [shared[-1], *(s for s in (*shared[:-1], image) if rng.random() < 0.3)]
        value = box_sum(chosen[0]) if rng.random() < 0.5 else read(chosen[0], int(rng.integers(5)))
        for source in chosen[1:]:
            value = value / (1.5 + read(source, int(rng.integers(4))))
        func[y, x] = value
        outputs.append(func.over(y=(0, HEIGHT), x=(0, WIDTH)))
    return bind(Pipeline(outputs), {"image": (2 * (HEIGHT + 256), WIDTH + 256)})


def box_sum(source: Input | Func) -> Expr:
    """Return the sum of nine neighbours."""
    value = source[y, x] + source[y, x + 1]
    for dy, dx in ((0, 2), (1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2)):
        value = value + source[y + dy, x + dx]
    return value


def read(source: Input | Func, kind: int) -> Expr:
    """Return a pointwise read, a stencil along x, y or both, or a downsampling along y."""
    match kind:
        case 0:
            return source[y, x] + 1.0
        case 1:
            return source[y, x] + source[y, x + 1] + source[y, x + 2]
        case 2:
            return source[y, x] - source[y + 24, x]
        case 3:
            return source[y, x] * source[y + 9, x + 17]
        case _:
            return source[2 * y, x] + source[2 * y + 1, x]


def all_states(evaluator: KernelEvaluator) -> Iterator[State]:
    """Yield every complete state: all options of all decisions, one after the other, none costed."""
    enumerator = OptionEnumerator(evaluator)
    decisions = enumerator.decisions()
    stack = [(enumerator.start_state(), 0)]
    while stack:
        state, number = stack.pop()
        if number == len(decisions):
            yield state
            continue
        enumerator.prefetch([state], decisions[number])
        options = enumerator.options(state, decisions[number])
        if not len(options):
            if decisions[number].group is not None:
                stack.append((state, number + 1))
            continue
        for option in options:
            stack.append((enumerator.apply_option(state, decisions[number], option, costed=False), number + 1))
