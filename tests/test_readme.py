"""README and docs are correct: programs run, transcripts are real, tables are complete."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import autosched
from autosched import errors
from autosched.cli import main
from autosched.search.tune import schedule_cache
from autosched.settings import ENVIRONMENT_VARIABLES

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [*(ROOT / f"{name}.md" for name in ("README", "CHANGELOG", "CONTRIBUTING")), *sorted(DOCS.rglob("*.md"))]

_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_TIMES = re.compile(r"\d+(\.\d+)?(e[-+]\d+)? (s|ms|µs)\b")


def fenced(page: Path, language: str) -> list[str]:
    """Return a page's code blocks of one language."""
    return [text for found, text in _FENCE.findall(page.read_text(encoding="utf-8")) if found == language]


def pages_with(language: str) -> list[object]:
    return [pytest.param(page, id=str(page.relative_to(ROOT))) for page in PAGES if fenced(page, language)]


@pytest.mark.parametrize("page", pages_with("python"))
def test_programs_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The blocks of a page are one program, run in an empty directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(schedule_cache, "TUNED_DIRECTORY", f"tuned-{tmp_path.name}")  # no schedules tuned earlier
    names: dict[str, Any] = {}
    for k, program in enumerate(fenced(page, "python")):
        exec(compile(program, f"{page.name}, block {k}", "exec"), names)
    if page.name == "README.md":
        assert names["result"].shape == (1536, 2560)


def test_first_program_is_short() -> None:
    assert len(fenced(ROOT / "README.md", "python")[0].splitlines()) <= 20


def test_documented_loop_nest_is_the_real_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = DOCS / "tutorial" / "schedule-by-hand.md"
    names: dict[str, Any] = {}
    exec(fenced(page, "python")[0], names)
    shown = fenced(page, "text")[0]
    assert shown.partition("blur_y[y, x] = ...")[0] in names["scheduled"].text()


def test_documented_error_is_the_real_one(capsys: pytest.CaptureFixture[str]) -> None:
    page = DOCS / "reference" / "errors.md"
    (program,), (shown, *_) = fenced(page, "python"), fenced(page, "text")
    exec(compile(program, "example.py", "exec"), {})
    printed = capsys.readouterr().out.splitlines()
    # The source line cannot be read back from a file that is not there.
    assert printed == [line for line in shown.splitlines() if not line.startswith("   |")]


def transcript() -> list[tuple[str, list[str]]]:
    """Return README's commands of the autosched program with the lines printed below each."""
    steps: list[tuple[str, list[str]]] = []
    for block in fenced(ROOT / "README.md", "console"):
        if "\n" not in block.strip() or "pip install" in block or "make" in block:
            continue
        for line in block.splitlines():
            if line.startswith("$ "):
                steps.append((line[2:], []))
            else:
                steps[-1][1].append(line)
    return steps


def test_transcript_is_real(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands run in order; their output equals the page, except times and omitted lines (`...`)."""
    monkeypatch.chdir(tmp_path)
    steps = transcript()
    assert [shlex.split(command)[:2] for command, _ in steps] == [["autosched", "schedule"], ["autosched", "run"]]
    for command, shown in steps:
        result = CliRunner().invoke(main, shlex.split(command)[1:])
        assert result.exit_code == 0, (command, result.stderr)
        printed = [_TIMES.sub("TIME", line) for line in result.stdout.splitlines()]
        expected = [_TIMES.sub("TIME", line) for line in shown]
        if "..." in expected:
            k = expected.index("...")
            head, tail = expected[:k], expected[k + 1 :]
            printed, expected = printed[: len(head)] + printed[-len(tail) :], head + tail
        assert printed == expected


def test_links_lead_somewhere() -> None:
    """Each relative link names a file, and a heading of it where it has an anchor."""
    broken = []
    for page in PAGES:
        for link, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)", page.read_text(encoding="utf-8")):
            target = page.parent / link if link else page
            if link.startswith("https://"):
                continue
            if not target.exists() or (anchor and anchor not in headings(target)):
                broken.append(f"{page.relative_to(ROOT)}: {link}#{anchor}".rstrip("#"))
    assert not broken, "\n".join(broken)


def headings(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and MyST make them."""
    titles = re.findall(r"^#+ (.*)$", _FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def test_pages_have_short_lines() -> None:
    """Lines of prose have at most 120 columns; code, tables, links and pages that programs write may be longer."""
    long = [
        f"{page.relative_to(ROOT)}: {line}"
        for page in PAGES
        if "results" not in page.parts and page.name != "gallery.md"
        for line in _FENCE.sub("", page.read_text(encoding="utf-8")).splitlines()
        if len(line) > 120 and not line.startswith(("|", "!")) and "](" not in line
    ]
    assert not long, "\n".join(long)


def test_error_table_is_complete() -> None:
    page = (DOCS / "reference" / "errors.md").read_text(encoding="utf-8")
    classes = [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, errors.AutoschedError)]
    assert set(re.findall(r"^\| `(\w+Error)` \|", page, re.MULTILINE)) == {c.__name__ for c in classes} - {
        "AutoschedError"
    }
    assert all(c.__name__ in autosched.__all__ for c in classes)


def test_environment_table_is_complete() -> None:
    page = (DOCS / "reference" / "settings-and-environment.md").read_text(encoding="utf-8")
    page = page.partition("\n## Search\n")[0]
    assert dict(re.findall(r"^\| `([A-Z_]+)` \| (.*) \|$", page, re.MULTILINE)) == ENVIRONMENT_VARIABLES
