"""Old names of the API: they work for one version, with a DeprecationWarning.

Modules are found by `RenamedModules` (`autosched.renamed_modules` lists them), names in a module by its ``__getattr__``
(`renamed_names`), attributes and constructor arguments of classes by decorators.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, TypeVar

C = TypeVar("C", bound=type)

RENAMED_FIELDS = "RENAMED_FIELDS"
"""The class attribute that maps the old names of fields to the new ones; readers of files take both."""


def warn_renamed(old: str, new: str, stacklevel: int = 3) -> None:
    """Warn that a name is deprecated.

    Args:
        old: The deprecated name.
        new: The present one.
        stacklevel: As for `warnings.warn`, counted from the caller.
    """
    warnings.warn(
        f"{old} is now {new}; the old name goes in the next version", DeprecationWarning, stacklevel=stacklevel + 1
    )


def renamed_attributes(**names: str) -> Callable[[C], C]:
    """Return a class decorator that adds read-only properties, old name to new one."""

    def decorate(cls: C) -> C:
        for old, new in names.items():
            setattr(cls, old, _renamed_property(cls.__name__, old, new))
        return cls

    return decorate


def renamed_fields(**names: str) -> Callable[[C], C]:
    """Return a class decorator for old names of fields: as attributes, as constructor arguments, and in files."""

    def decorate(cls: C) -> C:
        initialise = cls.__init__  # type: ignore[misc]

        @wraps(initialise)
        def init(self: Any, *args: Any, **kwargs: Any) -> None:
            for old in names.keys() & kwargs.keys():
                warn_renamed(f"{cls.__name__}({old}=)", f"{cls.__name__}({names[old]}=)", 2)
                kwargs[names[old]] = kwargs.pop(old)  # `replace` passes the present value besides
            initialise(self, *args, **kwargs)

        cls.__init__ = init  # type: ignore[misc]
        setattr(cls, RENAMED_FIELDS, names)
        return renamed_attributes(**names)(cls)

    return decorate


def renamed_names(module: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a ``__getattr__`` for a module some of whose names are new.

    Args:
        module: Name of the module.
        names: New names by the old ones, in the same module.
    """

    def getattribute(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        warn_renamed(f"{module}.{name}", f"{module}.{names[name]}", 2)
        return getattr(import_module(module), names[name])

    return getattribute


class RenamedModules(MetaPathFinder, Loader):
    """Finds modules by names that they had before, after all other finders have failed.

    Args:
        modules: New names by the old ones.
        names: New names within these modules by the old ones, by the module's old name.
    """

    def __init__(self, modules: Mapping[str, str], names: Mapping[str, Mapping[str, str]]) -> None:
        self.modules = modules
        self.names = names
        self._packages = {name.rpartition(".")[0] for name in modules}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the import spec of a module with an old name; None for all other modules."""
        if fullname not in self.modules and fullname not in self._packages:
            return None
        return ModuleSpec(fullname, self, is_package=fullname in self._packages)

    def exec_module(self, module: ModuleType) -> None:
        """Make names of the new module those of the old one."""
        old = module.__name__
        new = self.modules.get(old)
        if new is None:  # a removed package, whose modules have moved
            return
        warn_renamed(f"module {old}", new, 2)  # frames of importlib do not count
        names = self.names.get(old, {})

        def getattribute(name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(f"module {old!r} has no attribute {name!r}")
            return getattr(import_module(new), names.get(name, name))

        vars(module)["__getattr__"] = getattribute


def _renamed_property(owner: str, old: str, new: str) -> property:
    def read(self: Any) -> Any:
        warn_renamed(f"{owner}.{old}", f"{owner}.{new}", 2)
        return getattr(self, new)

    return property(read, doc=f"The old name of `{new}`.")
