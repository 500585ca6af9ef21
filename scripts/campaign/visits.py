"""What fits into a visit: calls on a machine that is at hand for some minutes, and the steps of each call."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from campaign.estimates import Need
from campaign.plan import NAMES

START_S = 90.0
"""Seconds until a machine has started."""
COPY_S = 30.0
"""Seconds of a call outside of its command: copying files there and back."""
CALL_S = 600.0
"""Longest command."""
LEAST_CALL_S = 60.0
MARGIN = 1.07
"""Ratio of a step's time limit to the time that it uses."""
ENDING_S = 10.0
"""Seconds of a command outside of its steps: the description of the machine, unpacking, the report."""
MIB = 1 << 20


@dataclass
class PlannedCall:
    """A command on the machine.

    Attributes:
        seconds: Its time limit.
        needs: The work that fits, with the time limit of each step.
    """

    seconds: float
    needs: list[tuple[Need, float]] = field(default_factory=list)

    @property
    def room(self) -> float:
        """Seconds left for further steps."""
        return self.seconds - ENDING_S - sum(limit for _, limit in self.needs)

    def steps(self) -> str:
        """Return the steps with their time limits, as the command takes them."""
        limits = {need.step: limit for need, limit in self.needs}
        return ",".join(f"{name}:{limits[name]:.0f}" for name in NAMES if name in limits)


def planned_calls(needs: Iterable[Need], minutes: float) -> tuple[list[PlannedCall], list[Need]]:
    """Return the calls of a visit, and the work that does not fit.

    Args:
        needs: Work, the most important first; parts of a step may lie in different calls.
        minutes: The visit, from asking for the machine until it is given back.
    """
    calls = list(_empty_calls(minutes * 60.0))
    left: list[Need] = []
    position = 0
    for need in needs:
        count = need.count
        while count and position < len(calls):
            call = calls[position]
            fitting = min(count, int(call.room / (MARGIN * need.part_s)))
            if fitting:
                limit = MARGIN * fitting * need.part_s
                call.needs.append((replace(need, count=fitting), limit))
                count -= fitting
            if count:
                position += 1
        if count:
            left.append(replace(need, count=count))
    return [call for call in calls if call.needs], left


def _empty_calls(seconds: float) -> Iterator[PlannedCall]:
    left = seconds - START_S
    while (own := min(left - COPY_S, CALL_S - COPY_S)) >= LEAST_CALL_S:
        yield PlannedCall(own)
        left -= own + COPY_S


def describe(
    calls: Sequence[PlannedCall], left: Sequence[Need], minutes: float, command: Sequence[str], carried: str
) -> list[str]:
    """Return the plan of a visit as lines of text.

    Args:
        calls: The calls.
        left: Work that does not fit.
        minutes: The visit.
        command: The command line without steps and time.
        carried: A line about the files that travel.
    """
    lines = [f"{minutes:g} minutes: {len(calls)} calls, after {START_S:.0f} s for the machine's start", carried]
    for number, call in enumerate(calls, 1):
        steps = ["--seconds", f"{call.seconds:.0f}", "--steps", call.steps()]
        lines += ["", f"call {number}: {' '.join(map(_word, [*command, *steps]))}"]
        for need, limit in sorted(call.needs, key=lambda n: NAMES.index(n[0].step)):
            lines.append(f"  {limit:4.0f} s  {need.step}: {need.count:,} {need.unit}{_doubt(need)}")
    if left:
        lines += ["", "does not fit:"]
        lines += [
            f"  {need.seconds:4.0f} s  {n.step}: {n.count:,} {n.unit}{_doubt(n)}" for need in left for n in [need]
        ]
    return lines


def _word(text: str) -> str:
    """Return a word of a command; a variable of the machine's shell stays one."""
    return f'"{text}"' if text.startswith("$") else shlex.quote(text)


def _doubt(need: Need) -> str:
    return "" if need.is_measured else ", a time that no GPU has confirmed"


def carried_line(root: Path, directories: Sequence[Path], most_mib: float) -> str:
    """Return what travels to the machine, in MiB, and whether it is too much.

    Args:
        root: The checkout, of which tracked files and new ones that are not ignored travel.
        directories: Further directories, such as that of the results.
        most_mib: Most that the machine takes.
    """
    sizes = {"checkout": _checkout_bytes(root) / MIB}
    for directory in directories:
        files = directory.rglob("*") if directory.is_dir() else ()
        sizes[directory.name] = sum(p.stat().st_size for p in files if p.is_file()) / MIB
    total = sum(sizes.values())
    each = ", ".join(f"{name} {size:.1f}" for name, size in sizes.items())
    over = "" if total <= most_mib else "; too much: compile with a smaller --code-mib, or leave files out"
    return f"files: {each}; {total:.1f} of {most_mib:g} MiB{over}"


def _checkout_bytes(root: Path) -> int:
    command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        names = subprocess.run(command, capture_output=True, check=True, timeout=60).stdout.decode().split("\0")
    except (OSError, subprocess.SubprocessError):
        return 0
    return sum(path.stat().st_size for name in set(names) if name and (path := root / name).is_file())
