"""JSON documents with a schema from type annotations: those of a dataclass's fields."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Mapping
from enum import Enum
from functools import lru_cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from autosched.deprecation import RENAMED_FIELDS, warn_renamed
from autosched.errors import AutoschedError, InputError
from autosched.schedule.io.strict_json import Node

T = TypeVar("T")

_LOWEST, _HIGHEST = -(2**63), 2**64 - 1
"""Range of integers: NumPy and SQLite have no larger ones."""


def read_as(node: Node, annotation: type[T], *, newer: bool = False) -> T:
    """Return a JSON value as a value of a type.

    Args:
        node: The value.
        annotation: A dataclass, number, text, literal, enumeration, tuple, mapping from text, or union with None.
        newer: Ignore keys without a field in the top dataclass, which a later release may have added.

    Raises:
        AutoschedError: Of the node's class, if the value has another type, is NaN, has an unknown or missing key, or
            if the dataclass rejects it.
    """
    value: T = _dataclass(node, annotation, newer) if dataclasses.is_dataclass(annotation) else _read(node, annotation)
    return value


def read_settings(values: Mapping[Any, Any], place: str, annotation: type[T]) -> T:
    """Return the settings in a configuration.

    Args:
        values: Plain data from `OmegaConf.to_container`; the key ``_target_`` is ignored.
        place: Path of the settings in the configuration, for messages.
        annotation: The dataclass of the settings.

    Raises:
        InputError: If a value does not fit its field, or a key has no field, with the path.
    """
    given = {str(k): v for k, v in values.items() if k != "_target_"}
    return read_as(Node(given, place, "the configuration", InputError), annotation)


def _read(node: Node, annotation: Any) -> Any:
    plain = _PLAIN.get(annotation)
    if plain is not None:
        return plain(node)
    if dataclasses.is_dataclass(annotation):
        return _dataclass(node, annotation)
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return node.choice({str(e.value): e for e in annotation}, f"{annotation.__name__.lower()}")
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (types.UnionType, Union):
        return _union(node, arguments)
    if origin is Literal:
        return node.choice({a: a for a in arguments}, "known value")
    if origin is tuple:
        return _tuple(node, arguments)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {k: _read(v, arguments[1]) for k, v in node.mapping().items()}
    raise TypeError(f"no JSON is read as {annotation}")


def _union(node: Node, arguments: tuple[Any, ...]) -> Any:
    """Return the value as the first alternative that fits it."""
    if node.value is None and type(None) in arguments:
        return None
    choices = [a for a in arguments if a is not type(None)]
    for choice in choices[:-1]:
        try:
            return _read(node, choice)
        except AutoschedError:
            continue
    return _read(node, choices[-1])


def _tuple(node: Node, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    items = node.items()
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return tuple(_read(i, arguments[0]) for i in items)
    if len(items) != len(arguments):
        raise node.error(f"has {len(items)} elements: give {len(arguments)}")
    return tuple(_read(i, a) for i, a in zip(items, arguments, strict=True))


def _dataclass(node: Node, annotation: Any, newer: bool = False) -> Any:
    fields = _fields(annotation)
    given = _present_names(node.mapping(), annotation)
    for key, value in given.items():
        if key not in fields and not newer:
            raise value.error(f"is not known: there is {', '.join(fields)}")
    for key, (_, is_needed) in fields.items():
        if is_needed and key not in given:
            raise node.error(f"lacks the key {key!r}: it needs {', '.join(k for k, (_, n) in fields.items() if n)}")
    values = {k: _read(v, fields[k][0]) for k, v in given.items() if k in fields}
    try:
        return annotation(**values)
    except InputError as error:  # a check of the dataclass itself
        raise node.error(f"cannot be used: {error}") from error


def _present_names(given: Mapping[str, Node], annotation: Any) -> Mapping[str, Node]:
    """Return the fields of a document, old names replaced by present ones."""
    renamed: Mapping[str, str] = getattr(annotation, RENAMED_FIELDS, {})
    for old in renamed.keys() & given.keys():
        warn_renamed(f"the key {given[old].path}", renamed[old], 5)
    return {renamed.get(key, key): value for key, value in given.items()}


@lru_cache(maxsize=64)
def _fields(annotation: Any) -> dict[str, tuple[Any, bool]]:
    """Return the annotation of each field of a dataclass, and whether it has no default."""
    hints = get_type_hints(annotation)
    missing = dataclasses.MISSING
    return {
        f.name: (hints[f.name], f.default is missing and f.default_factory is missing)
        for f in dataclasses.fields(annotation)
        if f.init
    }


_PLAIN: Mapping[Any, Callable[[Node], Any]] = {
    int: lambda node: node.integer(_LOWEST, _HIGHEST),
    float: lambda node: node.number(),
    bool: lambda node: node.boolean(),
    str: lambda node: node.text(),
    object: lambda node: node.value,
    Any: lambda node: node.value,
}
