"""Weights of PolyMage-GPU's cost fitted to simulated times of groups of its six programs; needs no GPU.

    python scripts/fit_polymage_weights.py --samples FILE.jsonl [--out WEIGHTS.json] [--groups 9] [--tiles 6]

Kernels of random groups of each program, with random tiles, warps and shares in registers, are compiled and simulated
one by one. ``FILE.jsonl`` keeps them; programs that it has are not sampled again. The fit is
`autosched.search.strategies.polymage.weight_fit`; ``--out`` writes the weights, which `autosched schedule
--polymage-weights` takes.

The table has Spearman's rank correlation of cost and time, over all kernels of a program and as the mean of its groups
of at least three kernels: with the weights of Table 3 for the V100, with those weights and transactions of a whole
tile, as Algorithm 2 is printed, with fitted weights, and with weights fitted to the other programs (leave one out, as
in section 7). ``--transaction-bytes 32`` fits a cost with one size of transactions, that of the sectors of an H200, and
prints it beside that with the paper's two sizes.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
from benchmarks.polymage_paper import PAPER
from rich import box
from rich.console import Console
from rich.table import Table

from autosched.measure.problem import Problem
from autosched.search.strategies.polymage.cost_weights import (
    V100_WEIGHTS,
    CostWeights,
    WeightedTransactions,
    save_weights,
)
from autosched.search.strategies.polymage.weight_fit import Floats, TimedGroups, fit_weights, rank_correlation
from autosched.target import get_target
from calibration.polymage_groups import SIZES, GroupSample, GroupSampler

LEAST_OF_GROUP = 3
"""Kernels of a group from which on its ranks are correlated."""


def timed_groups(samples: Sequence[GroupSample], sizes: Sequence[int] = SIZES) -> TimedGroups:
    """Return the terms and times of samples, for some sizes of a transaction."""
    terms = np.array([s.terms for s in samples])[:, [SIZES.index(n) for n in sizes]]
    return TimedGroups(terms, np.array([s.seconds for s in samples]))


def read_samples(path: Path) -> list[GroupSample]:
    """Return the samples of a file, none if there is no such file."""
    if not path.is_file():
        return []
    return [_parsed(json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def _parsed(entry: dict[str, object]) -> GroupSample:
    sample = GroupSample(**entry)  # type: ignore[arg-type]
    return GroupSample(**{**vars(sample), "group": tuple(sample.group)})


def sample_programs(
    programs: Sequence[str], target: str, path: Path, *, groups: int, tiles: int, seconds: float, sizes: dict[str, int]
) -> list[GroupSample]:  # fmt: skip
    """Return the samples of a file, after adding those of programs that it lacks.

    Args:
        programs: The programs.
        target: The GPU.
        path: The file.
        groups: Groups of a program.
        tiles: Kernels of a group.
        seconds: Seconds of a program after which no kernel is begun.
        sizes: Extents of the image; those of the paper if empty.
    """
    samples = read_samples(path)
    for k, program in enumerate(programs):
        if any(s.program == program for s in samples):
            continue
        bound = Problem.app(program, sizes or PAPER[program].sizes).bind()
        sampler = GroupSampler(program, bound, get_target(target), np.random.default_rng(k), bool(sizes))
        with path.open("a", encoding="utf-8") as file:
            for sample in sampler.samples(groups, tiles, seconds):
                samples.append(sample)
                file.write(json.dumps(asdict(sample)) + "\n")
    return samples


def correlations(
    samples: Sequence[GroupSample], cost: Callable[[TimedGroups], Floats], sizes: Sequence[int]
) -> tuple[float, float]:  # fmt: skip
    """Return the rank correlation of all samples, and its mean over groups."""
    timed = timed_groups(samples, sizes)
    costs = cost(timed)
    of_groups = []
    for group in dict.fromkeys(s.group for s in samples):
        rows = np.array([s.group == group for s in samples])
        if rows.sum() >= LEAST_OF_GROUP:
            of_groups.append(rank_correlation(costs[rows], timed.seconds[rows]))
    return rank_correlation(costs, timed.seconds), float(np.nanmean(of_groups)) if of_groups else float("nan")


def correlation_table(samples: Sequence[GroupSample], fitted: Mapping[Sequence[int], CostWeights]) -> Table:
    """Return the rank correlations of each program and of all.

    Args:
        samples: The kernels.
        fitted: Weights by the sizes of transactions that they were fitted with.
    """
    names = [f"fitted, {_text(sizes)}" for sizes in fitted]
    table = Table("program", "kernels", "V100", "V100, whole tile", *names, *(f"{n}, others" for n in names))
    programs = list(dict.fromkeys(s.program for s in samples))
    for program in [*programs, "all"]:
        own = [s for s in samples if program in (s.program, "all")]
        points = np.array([s.points for s in own])

        def whole(timed: TimedGroups, points: Floats = points) -> Floats:
            scaled = timed.terms.copy()
            scaled[:, :, 0] *= points[:, None]
            return TimedGroups(scaled, timed.seconds).predicted(V100_WEIGHTS)

        found = [correlations(own, predicted_by(V100_WEIGHTS), SIZES), correlations(own, whole, SIZES)]
        found += [correlations(own, predicted_by(weights), sizes) for sizes, weights in fitted.items()]
        others = [s for s in samples if s.program != program]
        if program != "all" and len(programs) > 1:
            for sizes in fitted:
                without = fit_weights(timed_groups(others, sizes))
                found.append(correlations(own, predicted_by(without), sizes))
        cells = ["{:.2f}, {:.2f}".format(*pair) for pair in found]
        table.add_row(program, str(len(own)), *cells, *["-"] * (2 + 2 * len(fitted) - len(cells)))
    return table


def predicted_by(weights: CostWeights) -> Callable[[TimedGroups], Floats]:
    """Return the function from groups to their costs."""
    return lambda timed: timed.predicted(weights)


def _text(sizes: Sequence[int]) -> str:
    return " and ".join(map(str, sizes)) + " bytes"


def main(arguments: Sequence[str] | None = None) -> None:
    """Sample, fit, and print the weights and the correlations."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="*", default=list(PAPER), metavar="PROGRAM", help=", ".join(PAPER))
    parser.add_argument("--samples", type=Path, required=True, help="file of sampled kernels, JSON lines")
    parser.add_argument("--out", type=Path, help="file to write the fitted weights to")
    parser.add_argument("--target", default="h200", help="the GPU")
    parser.add_argument("--groups", type=int, default=9, help="groups of a program")
    parser.add_argument("--tiles", type=int, default=6, help="kernels of a group")
    parser.add_argument("--seconds", type=float, default=120, help="seconds of a program")
    parser.add_argument("--transaction-bytes", default="32,128", help="sizes of a transaction of the fitted cost")
    parser.add_argument("--sizes", default="", help="sizes such as W=77,H=53; the paper's by default")
    options = parser.parse_args(arguments)
    unknown = [p for p in options.programs if p not in PAPER]
    if unknown:
        parser.error(f"unknown program {unknown[0]}: choose from {', '.join(PAPER)}")
    sizes = {k: int(n) for k, _, n in (item.partition("=") for item in options.sizes.split(",") if item)}
    samples = sample_programs(
        options.programs, options.target, options.samples,
        groups=options.groups, tiles=options.tiles, seconds=options.seconds, sizes=sizes,
    )  # fmt: skip
    given = tuple(map(int, options.transaction_bytes.split(",")))
    fitted = {n: fit_weights(timed_groups(samples, n)) for n in dict.fromkeys((given, SIZES))}
    weights = Table("weights", *CostWeights._fields, box=box.MARKDOWN)
    for name, values in (("V100", V100_WEIGHTS), *((f"fitted, {_text(n)}", w) for n, w in fitted.items())):
        weights.add_row(name, *(f"{v:.4g}" for v in values))
    table = correlation_table(samples, fitted)
    table.box = box.MARKDOWN
    Console(width=150).print(weights, "rank correlation over all kernels, mean of groups", table, sep="\n")
    if options.out is not None:
        source = {"target": options.target, "kernels": len(samples), "times": "simulated"}
        save_weights(options.out, WeightedTransactions(fitted[given], given), source)
