"""Guides in files: YAML or JSON."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from autosched.errors import InputError
from autosched.schedule.io.strict_json import Node, parse
from autosched.schedule.io.typed_json import read_as, read_settings
from autosched.search.guidance.guide import Guide

REMEDY = "see the page on guides in the documentation"


def read_guide(path: str | os.PathLike[str]) -> Guide:
    """Return the guide in a file: JSON if its name ends in ``.json``, else YAML.

    Raises:
        InputError: If the file cannot be read, is neither YAML nor JSON, has an unknown key, or PyYAML is missing.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise InputError(f"cannot read the guide {os.fspath(path)}: {reason}") from error
    source = os.fspath(path)
    return guide_from_json(text, source) if source.endswith(".json") else guide_from_yaml(text, source)


def as_guide(guide: Guide | str | os.PathLike[str] | None) -> Guide:
    """Return a guide as it is, or from its file; the empty one for None.

    Raises:
        InputError: As `read_guide`.
    """
    if guide is None:
        return Guide()
    return read_guide(guide) if isinstance(guide, str | os.PathLike) else guide


def configured_guide(value: Mapping[str, Any] | str | None) -> Guide:
    """Return the guide in a configuration: the choices themselves, the path of their file, or None.

    Raises:
        InputError: If a value does not fit, with its path; otherwise as `read_guide`.
    """
    return read_settings(value, "guide", Guide) if isinstance(value, Mapping) else as_guide(value)


def guide_from_json(text: str, source: str = "the guide") -> Guide:
    """Return the guide of a JSON text.

    Args:
        text: As `Guide.to_json` returns it.
        source: Name of the text for messages.

    Raises:
        InputError: If it is no JSON, or no guide.
    """
    return read_as(parse(text, source, InputError, REMEDY), Guide)


def guide_from_yaml(text: str, source: str = "the guide") -> Guide:
    """Return the guide of a YAML text; JSON is YAML, too.

    Args:
        text: As `guide_to_yaml` returns it.
        source: Name of the text for messages.

    Raises:
        InputError: If it is no YAML, or no guide, or PyYAML is missing.
    """
    yaml = _yaml()
    try:
        _refuse_repeated_keys(yaml.compose(text, yaml.SafeLoader), source)
        value = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:  # recursive aliases
        raise InputError(f"{source} is no YAML: {' '.join(str(error).split())}; {REMEDY}") from error
    return read_as(Node({} if value is None else value, "", source, InputError, REMEDY), Guide)


def guide_to_yaml(guide: Guide) -> str:
    """Return a guide as YAML.

    Raises:
        InputError: If PyYAML is missing.
    """
    text: str = _yaml().safe_dump(guide.to_data(), sort_keys=False, default_flow_style=None)
    return text


def _refuse_repeated_keys(node: Any, source: str) -> None:
    """Raise InputError where a mapping gives a key twice; `yaml.safe_load` would take the last value."""
    if not isinstance(node.value if node is not None else None, list):
        return
    keys: set[str] = set()
    for entry in node.value:
        if not isinstance(entry, tuple):
            _refuse_repeated_keys(entry, source)
            continue
        key, value = entry
        if str(key.value) in keys:
            where = f"line {key.start_mark.line + 1}"
            raise InputError(f"{source}, {where}, gives {str(key.value)!r} twice: keep one of them; {REMEDY}")
        keys.add(str(key.value))
        _refuse_repeated_keys(value, source)


def _yaml() -> Any:
    try:
        return import_module("yaml")
    except ImportError as error:
        raise InputError(
            "a guide in YAML needs PyYAML: pip install pyyaml, or write the guide as JSON in a file named .json"
        ) from error
