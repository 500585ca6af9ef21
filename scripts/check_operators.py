"""Check the backend of torch.compile on PyTorch's own samples of operators (OpInfo); exits 1 on any failure.

    python scripts/check_operators.py --out out/operators --shard 3/16
    python scripts/check_operators.py --out out/operators --samples 3 --operators add,clamp --types float32,int8
    python scripts/check_operators.py --out out/operators --summary        (prints the table of all shards so far)

Forward and backward graphs of every sample are translated and computed by the NumPy interpreter, a tenth of them by the
C backend, too, and compared with eager PyTorch. The same command resumes an interrupted run.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from opinfo.check import check_operators, failed
from opinfo.records import Outcomes, summary
from opinfo.samples import chosen_pairs


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    command_line = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = command_line.add_argument
    add("--out", type=Path, required=True, help="directory of the results, one file a shard; a run is resumed")
    add("--shard", default="1/1", help="K/N: the K-th of N parts of the operators and types")
    add("--samples", type=int, help="most samples of an operator and element type; all when left out")
    add("--operators", help="names of OpInfos, with or without their variant, separated by commas")
    add("--types", help="element types, separated by commas")
    add("--seconds", type=float, help="time after which no further operator is begun")
    add("--further", default="cpu", help="backends of a tenth of the samples: cpu, emulator, separated by commas")
    add("--summary", action="store_true", help="print the table of all files, and check nothing")
    return command_line


def main(arguments: Sequence[str] | None = None) -> int:
    """Check the operators of the command line."""
    args = parser().parse_args(arguments)
    if not args.summary:
        torch.set_num_threads(1)
        outcomes = Outcomes(args.out / f"operators_{args.shard.replace('/', '_of_')}.jsonl")
        done = {pair for path in args.out.glob("*.jsonl") for pair in Outcomes(path).done()}
        start = time.monotonic()

        def remaining() -> Iterator[tuple[str, torch.dtype]]:
            for name, dtype in chosen_pairs(args.shard, args.operators, args.types):
                if (name, str(dtype).removeprefix("torch.")) in done:
                    continue
                if args.seconds is not None and time.monotonic() - start > args.seconds:
                    print("out of time; the same command resumes the run")
                    return
                yield name, dtype

        further = [b for b in args.further.split(",") if b]
        for row in check_operators(remaining(), args.samples, further=further):
            outcomes.append(row)
            for failure in row.failures:
                print(f"{row.operator} {row.dtype} {failure}", flush=True)
    rows = [row for path in sorted(args.out.glob("*.jsonl")) for row in Outcomes(path).rows()]
    print(summary(rows))
    return int(failed(rows))


if __name__ == "__main__":
    sys.exit(main())
