"""`autosched doctor`: usable compilers and packages, and remedies for missing ones."""

from __future__ import annotations

from dataclasses import asdict

import click

from autosched.commands.options import json_option
from autosched.commands.show import print_json
from autosched.runtime.doctor import Check, diagnose

_ABILITIES = (
    ("schedule pipelines", ("numpy", "torch")),
    ("run on the CPU", ("C compiler", "cache directory")),
    ("run generated CUDA in the emulator", ("C++ compiler", "cache directory")),
    ("compile CUDA", ("NVRTC", "cache directory")),
    ("launch on a GPU", ("NVRTC", "CuPy", "CUDA device", "cache directory")),
)
"""Abilities, with the checks that each needs."""


@click.command(short_help="Check the compilers and libraries of this machine.")
@json_option
def doctor(as_json: bool) -> None:
    """Check this machine; takes some seconds, because test programs are compiled."""
    checks = diagnose()
    abilities = _abilities(checks)
    if as_json:
        print_json({"checks": [asdict(check) for check in checks], "can": abilities})
        return
    for check in checks:
        click.echo(f"{'ok     ' if check.ok else 'missing'}  {check.name}: {check.detail}")
        if not check.ok:
            click.echo(f"         {check.remedy}")
    click.echo()
    for ability, possible in abilities.items():
        click.echo(f"{'yes' if possible else 'no ':<7}  {ability}")


def _abilities(checks: list[Check]) -> dict[str, bool]:
    passed = {check.name: check.ok for check in checks}
    return {ability: all(passed[name] for name in needs) for ability, needs in _ABILITIES}
