"""A pytest plugin that writes each test's outcome to a file at once, a line of JSON each.

``-p campaign.pytest_lines`` loads it; the environment variable ``CAMPAIGN_TESTS`` names the file. Outcomes survive if
the run is killed.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

VARIABLE = "CAMPAIGN_TESTS"
COLLECTING = "collect"
_LONGEST = 3000


def pytest_runtest_logreport(report: Any) -> None:
    """Write the outcome of a test: of its call, or of a setup that failed or skipped."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        return  # only the controller of pytest-xdist writes
    if report.when == "call" or report.outcome != "passed":
        _write(report, report.when, seconds=report.duration)


def pytest_collectreport(report: Any) -> None:
    """Write the error of a file that cannot be collected."""
    if report.outcome == "failed" and "PYTEST_XDIST_WORKER" not in os.environ:
        _write(report, COLLECTING)


def _write(report: Any, when: str, **more: float) -> None:
    line = {"test": report.nodeid, "outcome": report.outcome, "when": when, **more}
    if report.outcome != "passed":
        line["message"] = str(report.longrepr)[-_LONGEST:]
    with Path(os.environ[VARIABLE]).open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
