"""Prove that divisions by a constant give the IEEE quotient: compare them with the processor's own division.

    python scripts/prove_division.py [--constants 3,0.1,12.92] [--quick]

First come all 2**32 float32 dividends for each constant. Then, for all 2**23 mantissas of a divisor, come the dividends
whose quotients are nearest to the midpoint of two floats, where a wrong rounding would show; see
autosched/codegen/constant_division.py for the reason. Exits with 1 if any quotient differs.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from autosched.codegen.constant_division import ConstantDivision, constant_division
from autosched.codegen.prelude import called_scalar_functions, scalar_prelude
from autosched.lang.dtypes import float32
from autosched.runtime.compile.host_compiler import compile_shared_library, kernel_flags

CONSTANTS: dict[str, tuple[float, ...]] = {
    "power of two": (4.0, -(2.0**-20), 2.0**126),
    "small odd": (3.0, 5.0, 7.0, 9.0),
    "even": (6.0, 10.0, 98.0),
    "sum of weights": (225.0, 255.0, 273.0, 65535.0),
    "fraction": (1 / 3, 0.1, 12.92, 1.055),
    "negative": (-3.0, -0.1),
    "next to one": (1 + 2.0**-23, 1 - 2.0**-24),
    "all ones": (2 - 2.0**-23, 2.0**11 - 2.0**-13),
    "large or small": (3 * 2.0**40, 3 * 2.0**-40),
    "end of a range": (2.0**25 + 4, 2.0**-25 - 2.0**-49, 2.0**100 - 2.0**76, 2.0**-100 + 2.0**-123),
    "left alone": (0.0, float("inf"), 2.0**127, 1e-40),
}
"""Divisors by kind; for those of the last kind, the generated code keeps the division."""

EVERY, SAMPLED, EDGES = range(3)  # enum dividends
ALL_BLOCKS, SAMPLED_BLOCKS, BLOCK = 1 << 16, 1 << 8, 1 << 16
BLOCKS_AT_ONCE = 1 << 12  # dividends between progress reports
MANTISSAS = range((1 << 23) + 1, 1 << 24)
REACH = 32  # distance to a midpoint, in units of 1 / (2 C); an error requires at most 6


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of a check.

    Attributes:
        checked: Number of dividends compared.
        wrong: Number of wrong quotients.
        example: A dividend with a wrong quotient.
    """

    checked: int
    wrong: int
    example: float


def compile_check(quotient: str) -> ctypes.CDLL:
    """Compile the comparison for one expression of `x` and, where needed, `divisor`."""
    text = Path(__file__).with_suffix(".c").read_text(encoding="utf-8")
    prelude = scalar_prelude(called_scalar_functions(quotient + text))
    source = f"#define AS_DIV_CONST_BY_FMA 1\n{prelude}\n#define QUOTIENT(x) {quotient}\n\n{text}"
    return ctypes.CDLL(str(compile_shared_library(source, "c", (*kernel_flags("c"), "-fno-trapping-math"))))


def check_dividends(division: ConstantDivision, quick: bool) -> Outcome:
    """Compare the quotients of all dividends by one constant, or of a sample."""
    library = compile_check(division.text("(x)"))
    wrong, checked, example = 0, 0, ctypes.c_float(0)
    for kind, first, blocks in _parts(quick):
        _report(f"{division.divisor!r}: {100 * first // ALL_BLOCKS:3d} %")
        library.check_dividends.restype = ctypes.c_longlong
        wrong += library.check_dividends(kind, first, blocks, ctypes.c_float(division.divisor), ctypes.byref(example))
        checked += blocks * BLOCK
    _report("")
    return Outcome(checked, wrong, example.value)


def check_hardest(quick: bool, quotient: str = "as_div_const_f32(x, divisor, 1.0f / divisor)") -> Outcome:
    """Compare the quotients nearest to midpoints, for every mantissa of the divisor or for the last 2**16."""
    library = compile_check(quotient)
    library.check_hardest.restype = ctypes.c_longlong
    first = MANTISSAS.stop - (1 << 16) if quick else MANTISSAS.start
    checked = ctypes.c_longlong(0)
    wrong = library.check_hardest(first, MANTISSAS.stop, REACH, ctypes.byref(checked))
    return Outcome(checked.value, wrong, 0.0)


def _parts(quick: bool) -> Iterator[tuple[int, int, int]]:
    """Yield the kind of dividends, the first block and the number of blocks of each call."""
    if quick:
        yield SAMPLED, 0, SAMPLED_BLOCKS
        yield EDGES, 0, 1
    else:
        for first in range(0, ALL_BLOCKS, BLOCKS_AT_ONCE):
            yield EVERY, first, BLOCKS_AT_ONCE


def _report(text: str) -> None:
    """Show progress on one line, overwritten by the next report, on terminals only."""
    if sys.stderr.isatty():
        print(f"\r{text:40}", end="" if text else "\r", file=sys.stderr, flush=True)


def _print_row(kind: str, divisor: str, form: str, outcome: Outcome, seconds: float) -> None:
    verdict = "exact" if not outcome.wrong else f"{outcome.wrong} WRONG, one of them at {outcome.example!r}"
    print(f"{kind:16}{divisor:>16}  {form:12}{outcome.checked:>12}{seconds:8.1f}  {verdict}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="Prove that divisions by a constant give the IEEE quotient.")
    parser.add_argument("--constants", metavar="C,...", help="divisors to check (default: some of every kind)")
    parser.add_argument("--quick", action="store_true", help="2**24 dividends of every exponent instead of all 2**32")
    arguments = parser.parse_args()
    constants = CONSTANTS
    if arguments.constants:
        try:
            constants = {"chosen": tuple(float(c) for c in arguments.constants.split(","))}
        except ValueError as error:
            parser.error(f"--constants: {error}")
    total = 0
    print(f"{'kind':16}{'divisor':>16}  {'form':12}{'dividends':>12}{'seconds':>8}  result")
    for kind, divisors in constants.items():
        for divisor in divisors:
            division = constant_division(divisor, float32)
            start = time.perf_counter()
            outcome = check_dividends(division, arguments.quick)
            shown = f"{division.divisor:.9g}"
            _print_row(kind, shown, division.method.value, outcome, time.perf_counter() - start)
            total += outcome.wrong
    start = time.perf_counter()
    outcome = check_hardest(arguments.quick)
    _print_row("hardest", "every mantissa", "reciprocal", outcome, time.perf_counter() - start)
    total += outcome.wrong
    print("all quotients are exact" if not total else f"{total} quotients differ")
    return 1 if total else 0
