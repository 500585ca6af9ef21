"""Random programs under random and searched schedules, judged by all witnesses; ends with 1 if anything is wrong.

    python scripts/fuzz_programs.py --first 0 --count 20000 --out out/fuzzing
    python scripts/fuzz_programs.py --first 137 --count 1 --out out/again      (repeats one of them)
    python scripts/fuzz_programs.py --count 0 --out out/fuzzing                (the figures so far)

May be interrupted at any time: the same command goes on where it was. OUT gets programs.jsonl, one line a program, and
a script program_N.py for each kind of failure, shrunk. See docs/explanation/correctness.md.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from fuzzing.check import FAILURES
from fuzzing.records import Records, Row, summary
from fuzzing.session import Session, failed
from fuzzing.worker_pool import LIMIT_S


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    found = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = found.add_argument
    add("--first", type=int, default=0, help="number of the first program; the others' follow")
    add("--count", type=int, default=500, help="how many programs")
    add("--out", type=Path, required=True, help="directory of the results; what is there is added to")
    add("--jobs", type=int, default=1, help="processes")
    add("--limit", type=float, default=LIMIT_S, help="processor seconds after which a program hangs")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge the programs that the command line names."""
    args = parser().parse_args(arguments)
    numbers = range(args.first, args.first + args.count)
    for number in (signal.SIGTERM, signal.SIGINT):  # shells let commands in the background ignore the latter
        signal.signal(number, signal.default_int_handler)  # whoever ends it, workers end and caches are removed
    try:
        for row in Session(args.out, args.jobs, args.limit).run(numbers):
            if row.verdict in FAILURES:
                print(described(row), flush=True)
    except BlockingIOError:
        print(f"another run writes to {args.out}: wait for its end, or give another --out", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted; the same command goes on from here")
    rows = Records(args.out).rows()
    print(summary(rows))
    return int(failed(rows))


def described(row: Row) -> str:
    """Return a failure in some lines, with its script."""
    text = Path(row.script).read_text(encoding="utf-8") if row.script else "more of these are counted, not shrunk"
    return f"program {row.number}, {row.family}: {row.verdict}: {row.reason}\n{row.script}\n{text}"


if __name__ == "__main__":
    sys.exit(main())
