"""The command line, whose commands are in `autosched.commands`."""

from __future__ import annotations

import click

from autosched._version import __version__
from autosched.commands.apps import apps
from autosched.commands.bench import bench
from autosched.commands.cache import cache
from autosched.commands.calibrate import calibrate
from autosched.commands.doctor import doctor
from autosched.commands.export import export
from autosched.commands.group import CommandGroup
from autosched.commands.run import run
from autosched.commands.schedule import schedule
from autosched.commands.tune import tune


@click.group(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="autosched")
def main() -> None:
    """Schedule array pipelines for GPUs, and run them."""


for command in (apps, schedule, tune, run, export, bench, calibrate, cache, doctor):
    main.add_command(command)

if __name__ == "__main__":
    main()
