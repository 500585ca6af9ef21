"""Pages of docs/reference that are made from code: features, commands, settings, and the API."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from types import ModuleType

import pytest

import autosched
from autosched.cli import main
from autosched.lang.dtypes import DType

ROOT = Path(__file__).parents[1]
REFERENCE = ROOT / "docs" / "reference"


@pytest.fixture
def reference_pages(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "scripts")
    return importlib.import_module("drawings.reference_pages")


def test_generated_parts_are_up_to_date(reference_pages: ModuleType) -> None:
    for name in reference_pages.PAGES:
        page = (REFERENCE / name).read_text(encoding="utf-8")
        assert "<!-- generated: " in page
        assert reference_pages.filled(page) == page, f"{name}: run `make reference`"


def test_every_command_and_option_is_listed() -> None:
    page = (REFERENCE / "cli.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^## (\S+)\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))
    assert sections.keys() == main.commands.keys()
    for name, command in main.commands.items():
        for option in (o for p in command.params for o in p.opts if o.startswith("--")):
            assert f"`{option}" in sections[name], (name, option)


def test_every_public_name_is_on_an_api_page() -> None:
    pages = "".join(page.read_text(encoding="utf-8") for page in (REFERENCE / "api").glob("*.md"))
    shown = re.findall(r"auto(?:class|function|exception):: autosched\.(?:api\.)?(\w+)$", pages, re.MULTILINE)
    assert len(shown) == len(set(shown))
    types = {name for name in autosched.__all__ if isinstance(getattr(autosched, name), DType)}
    assert set(shown) | types == set(autosched.__all__)
    assert all(f"`{name}`" in pages for name in types)
