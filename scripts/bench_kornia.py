"""Time functions and pipelines of kornia: eager, compiled by inductor, by the backend ``autosched``, and by ``eager``.

All sides run in turns in one process. Prints milliseconds, ours over inductor's, and the geometric mean. With
``--json FILE`` the run can be interrupted and continued. On a GPU, times are of events around queued calls, and of
replayed graphs. Several processes with ``--first-calls --shard K/N`` fill the compilers' caches beforehand.
"""

from __future__ import annotations

import argparse
import json
import re
import warnings
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

import torch
from kornia_table.device_timing import EventDeviceClock, timed_on_device
from kornia_table.functions import KorniaFunction, kornia_functions
from kornia_table.pipelines import kornia_pipelines
from kornia_table.timing import SIDES, TIMED, print_report, timed

from autosched.atomic_files import replace_file

SHAPES = ((4, 3, 512, 512), (1, 3, 1080, 1920))


def parser() -> argparse.ArgumentParser:
    command_line = argparse.ArgumentParser(description=__doc__)
    add = command_line.add_argument
    add("--seconds", type=float, default=5.0, help="seconds of timing for each function and shape")
    add("--only", help="a regular expression of names")
    add("--most", type=int, help="most functions")
    add("--json", type=Path, help="file with the rows, which is continued")
    add("--no-inductor", action="store_true", help="leave inductor out")
    add("--device", choices=("cpu", "cuda"), default="cpu", help="device of the tensors")
    add("--first-calls", action="store_true", help="make the first calls alone, which fill the compilers' caches")
    add("--shard", default="1/1", metavar="K/N", help="the K-th of N parts of the functions")
    return command_line


def cases(only: str | None, shard: str) -> Iterator[KorniaFunction]:
    functions = (f for f in kornia_functions() if f.name.rpartition(".")[2] in TIMED)
    number, of = (int(n) for n in shard.split("/"))
    chosen = (f for f in chain(functions, kornia_pipelines()) if not only or re.search(only, f.name))
    return islice(chosen, number - 1, None, of)


def main() -> None:
    arguments = parser().parse_args()
    warnings.simplefilter("ignore")
    if arguments.device != "cpu":
        torch.set_default_device(arguments.device)
    rows: dict[str, Any] = json.loads(arguments.json.read_text()) if arguments.json and arguments.json.exists() else {}
    seconds, inductor = 0.0 if arguments.first_calls else arguments.seconds, not arguments.no_inductor
    for case in islice(cases(arguments.only, arguments.shard), arguments.most):
        for shape in SHAPES:
            key = f"{case.name} {'x'.join(map(str, shape))}"
            if key in rows:
                continue
            if arguments.device == "cuda":
                rows[key] = timed_on_device(case, shape, seconds, inductor, EventDeviceClock())
            else:
                rows[key] = timed(case, shape, seconds, inductor)
            row = rows[key]
            print(key, *(f"{side} {row[side] * 1e3:.2f} ms" for side in SIDES if side in row), sep="  ", flush=True)
            if arguments.json:
                replace_file(arguments.json, lambda path: path.write_text(json.dumps(rows, indent=1)))
    if not arguments.first_calls:
        print_report({key: row for key, row in rows.items() if all(side in row for side in ("eager", "autosched"))})


if __name__ == "__main__":
    main()
