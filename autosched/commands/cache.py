"""`autosched cache`: show and clear the on-disk cache."""

from __future__ import annotations

from typing import Any

import click

from autosched.commands.options import json_option
from autosched.commands.show import print_json, print_table
from autosched.plural import counted
from autosched.runtime.compile.cache import cache_usage, clear_cache
from autosched.search.tune.schedule_cache import tuned_files
from autosched.settings import settings


@click.command(short_help="Show or clear the cache on disk.")
@click.option("--clear", is_flag=True, help="Remove compiled kernels and searched schedules; tuned ones stay.")
@json_option
def cache(clear: bool, as_json: bool) -> None:
    """Show the cache directory (AUTOSCHED_CACHE_DIR): compiled kernels, schedules found, schedules tuned."""
    removed = clear_cache() if clear else None
    usage = cache_usage()
    tuned = tuned_files()
    if as_json:
        kinds: dict[str, Any] = {kind: {"entries": n, "bytes": size} for kind, (n, size) in usage.items()}
        print_json(
            {
                "directory": str(settings().require_cache_dir()),
                "kinds": kinds,
                "tuned": [str(path) for path in tuned],
                "removed": removed,
            }
        )
        return
    click.echo(settings().require_cache_dir())
    if removed is not None:
        click.echo(f"removed {counted(removed, 'file')}")
    rows = [(kind, str(n), f"{size / 1e6:.1f} MB") for kind, (n, size) in usage.items()]
    rows.append(("tuned schedules", str(len(tuned)), f"{sum(p.stat().st_size for p in tuned) / 1e6:.1f} MB"))
    print_table(("kind", "entries", "size"), rows)
