"""Check random programs under random and searched schedules on all backends; exits 1 on any failure.

    python scripts/fuzz_programs.py --first 0 --count 20000 --out out/fuzzing
    python scripts/fuzz_programs.py --first 137 --count 1 --out out/again      (repeats one program)
    python scripts/fuzz_programs.py --count 0 --out out/fuzzing                (prints the summary so far)

The run may be interrupted at any time; the same command resumes it. OUT gets programs.jsonl, one line a program, and a
shrunk script program_N.py for each kind of failure. See docs/explanation/correctness.md.
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
    command_line = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = command_line.add_argument
    add("--first", type=int, default=0, help="number of the first program; further numbers follow")
    add("--count", type=int, default=500, help="number of programs")
    add("--out", type=Path, required=True, help="directory of the results; an existing run is extended")
    add("--jobs", type=int, default=1, help="processes")
    add("--limit", type=float, default=LIMIT_S, help="processor seconds after which a program counts as hanging")
    return command_line


def main(arguments: Sequence[str] | None = None) -> int:
    """Check the programs of the command line."""
    args = parser().parse_args(arguments)
    numbers = range(args.first, args.first + args.count)
    for number in (signal.SIGTERM, signal.SIGINT):  # shells set SIGINT to ignored for background commands
        signal.signal(number, signal.default_int_handler)  # either signal ends the workers and removes the caches
    try:
        for row in Session(args.out, args.jobs, args.limit).run(numbers):
            if row.verdict in FAILURES:
                print(described(row), flush=True)
    except BlockingIOError:
        print(f"another run writes to {args.out}: wait for its end, or give another --out", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted; the same command resumes the run")
    rows = Records(args.out).rows()
    print(summary(rows))
    return int(failed(rows))


def described(row: Row) -> str:
    """Return the text of a failure, with its script."""
    text = Path(row.script).read_text(encoding="utf-8") if row.script else "further failures of this kind only count"
    return f"program {row.number}, {row.family}: {row.verdict}: {row.reason}\n{row.script}\n{text}"


if __name__ == "__main__":
    sys.exit(main())
