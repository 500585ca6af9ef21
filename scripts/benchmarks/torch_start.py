"""Time to the first result of torch.compile: AOTAutograd alone, and the backend with an empty and a filled cache.

    python scripts/bench_torch_start.py [--turns N] [--training]

Every sample is a new process, the sides in turns; seconds count from the call of torch.compile to its first result,
without the import of torch. ``cold`` has an empty cache of its own. Processor seconds are those of this process and of
its compilers; on a busy machine they say more. The differences of the least times are printed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

SIDES = ("aot_eager", "filled", "cold")


def sharpened(image: Any, weight: Any) -> Any:
    """Return an image sharpened by its blur, with a learnt strength."""
    import torch

    padded = torch.nn.functional.pad(image, (2, 2, 2, 2), mode="reflect")
    kernel = torch.tensor([1.0, 4, 6, 4, 1]).outer(torch.tensor([1.0, 4, 6, 4, 1])).expand(3, 1, 5, 5) / 256
    blurred = torch.nn.functional.conv2d(padded, kernel, groups=3)
    return (image + weight * (image - blurred)).clamp(0, 1).pow(0.8)


Seconds = tuple[float, float]
"""Elapsed seconds and processor seconds."""


def now() -> Seconds:
    """Return elapsed seconds, and processor seconds of this process and of ended children."""
    return time.perf_counter(), sum(os.times()[:4])


def first_seconds(backend: str, training: bool) -> Seconds:
    """Return the seconds to the first result in this process."""
    import torch

    image = torch.rand(1, 3, 256, 256, generator=torch.Generator().manual_seed(1))
    weight = torch.full((3, 1, 1), 0.5, requires_grad=training)
    start = now()
    result = torch.compile(sharpened, backend=backend)(image, weight)
    if training:
        result.mean().backward()
    elapsed, processor = (b - a for a, b in zip(start, now(), strict=True))
    return elapsed, processor


def sample(side: str, filled: Path, training: bool) -> Seconds:
    """Return the seconds to the first result in a new process."""
    with tempfile.TemporaryDirectory() as empty:
        environment = {**os.environ, "AUTOSCHED_CACHE_DIR": empty if side == "cold" else str(filled)}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode
        code = [__file__, "--sample", "aot_eager" if side == "aot_eager" else "autosched"]
        done = subprocess.run(
            [sys.executable, *code, *(["--training"] if training else [])],
            env=environment, stdout=subprocess.PIPE, text=True, check=True,
        )  # fmt: skip
    elapsed, processor = json.loads(done.stdout.splitlines()[-1])
    return elapsed, processor


def main() -> None:
    """Print the least seconds of each side, and of the backend without those of AOTAutograd."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--training", action="store_true", help="forward and backward")
    parser.add_argument("--sample", help="measure a backend in this process")
    arguments = parser.parse_args()
    if arguments.sample:
        print(json.dumps(first_seconds(arguments.sample, arguments.training)))
        return
    with tempfile.TemporaryDirectory() as directory:
        filled = Path(directory)
        sample("filled", filled, arguments.training)
        times: dict[str, list[Seconds]] = {side: [] for side in SIDES}
        for turn in range(arguments.turns):
            for side in SIDES:
                times[side].append(sample(side, filled, arguments.training))
            print(f"turn {turn}: {', '.join(f'{side} {times[side][-1][0]:.2f} s' for side in SIDES)}")
    for kind, what in enumerate(("elapsed", "processor")):
        least = {side: min(seconds[kind] for seconds in times[side]) for side in SIDES}
        for side in SIDES:
            print(f"{what}: {side} {least[side]:.2f} s, {least[side] - least['aot_eager']:+.2f} s")


if __name__ == "__main__":
    main()
