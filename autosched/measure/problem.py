"""Measurement problems as portable descriptions, which any process can bind."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.errors import InputError, shortened
from autosched.lang.expr import Scalar
from autosched.measure.problem_sources import (
    AppArguments,
    Arrays,
    OpenedProblem,
    PipelineArguments,
    RandomArguments,
    Setting,
    app_arguments,
    open_app,
    open_pipeline,
    open_random,
    pipeline_arguments,
    random_arguments,
)
from autosched.schedule.io.strict_json import parse
from autosched.schedule.io.typed_json import read_as

FORMAT = "autosched-problem"
VERSION = 1

_OPEN: Mapping[str, Callable[[Mapping[str, Any]], OpenedProblem]] = {
    "app": open_app,
    "random": open_random,
    "pipeline": open_pipeline,
}
_ARGUMENTS: Mapping[str, type] = {"app": AppArguments, "random": RandomArguments, "pipeline": PipelineArguments}
_CACHED_PROBLEMS = 8


@dataclass(frozen=True, slots=True)
class Problem:
    """A pipeline with concrete shapes and parameters, by description: app, random or serialised pipeline.

    Constructed by `app`, `random`, `of` or `parse`. Equal problems have equal texts; a problem is hashed, compared,
    pickled and stored as its text. Each process caches the last few bound pipelines.

    Attributes:
        kind: ``app``, ``random`` or ``pipeline``.
        arguments: Its identity within the kind, as canonical JSON.
    """

    kind: str
    arguments: str

    @classmethod
    def app(
        cls,
        name: str,
        sizes: Mapping[str, int] | None = None,
        params: Mapping[str, Setting] | None = None,
        *,
        small: bool = False,
    ) -> Problem:
        """Return a suite app.

        Args:
            name: Its name in the suite.
            sizes: Problem sizes; missing ones are those of the papers.
            params: Parameters; missing ones have their defaults.
            small: Whether missing sizes are the app's small test sizes.

        Raises:
            InputError: If there is no such app, size or parameter.
        """
        return cls("app", _canonical(app_arguments(name, sizes, params, small=small)))

    @classmethod
    def random(cls, seed: int, settings: Any = None) -> Problem:
        """Return the random pipeline of a seed; ``settings`` are ``RandomPipelineSettings``, or None."""
        return cls("random", _canonical(random_arguments(seed, settings)))

    @classmethod
    def of(cls, bound: BoundPipeline, params: Mapping[str, Scalar] | None = None) -> Problem:
        """Return the problem of any bound pipeline, which is serialised and run on synthetic inputs.

        Args:
            bound: The pipeline with its shapes.
            params: Values of run-time parameters; missing ones have their default, or 1.
        """
        return cls("pipeline", _canonical(pipeline_arguments(bound, params or {})))

    @classmethod
    def parse(cls, text: str) -> Problem:
        """Return the problem of a text from `text`.

        Raises:
            InputError: If the text is of another format or version.
        """
        top = parse(text, "this is no problem's text", InputError)
        fields = top.mapping()
        header = tuple(fields[key].value if key in fields else None for key in ("format", "version"))
        if header != (FORMAT, VERSION):
            raise InputError(
                f"a problem of format {shortened(header[0])} version {shortened(header[1])} cannot be read, only "
                f"version {VERSION}"
            )
        _, _, kind, arguments = top.fields("format", "version", "kind", "arguments")
        if kind.text() not in _OPEN:
            raise InputError(f"a problem of kind {shortened(kind.value)} cannot be read; there is {', '.join(_OPEN)}")
        read_as(arguments, _ARGUMENTS[kind.text()])
        try:
            return cls(kind.text(), _canonical(json.loads(text)["arguments"]))
        except ValueError as error:  # NaN or infinity, which JSON does not support
            raise arguments.error(f"cannot be used: {error}") from error

    def text(self) -> str:
        """Return the problem as one line of JSON, the same in every process."""
        arguments = json.loads(self.arguments)
        return _canonical({"format": FORMAT, "version": VERSION, "kind": self.kind, "arguments": arguments})

    @property
    def hash(self) -> str:
        """SHA-256 of the text, in hexadecimal."""
        return hashlib.sha256(self.text().encode()).hexdigest()

    def __repr__(self) -> str:
        return f"<Problem {self.title}>"

    @property
    def title(self) -> str:
        """Short title, such as ``blur H=1536 W=2560``, ``random 17`` or ``random attention 17``."""
        arguments = json.loads(self.arguments)
        if self.kind == "random":
            return " ".join(["random", *filter(None, [arguments.get("family")]), str(arguments["seed"])])
        if self.kind == "pipeline":
            shapes = ", ".join(f"{k} {'x'.join(map(str, shape))}" for k, shape in arguments["shapes"].items())
            return f"{arguments['pipeline']['name']} {shapes}".strip()
        values = {**arguments["sizes"], **arguments["params"]}
        return " ".join([arguments["name"], *(f"{k}={v}" for k, v in values.items())])

    def opened(self) -> OpenedProblem:
        """Return the bound pipeline with its inputs and the check of its results.

        Raises:
            InputError: If this release does not have the app or the settings.
        """
        return _opened(self)

    def bind(self) -> BoundPipeline:
        """Return the pipeline bound to its shapes and parameters; see `opened`."""
        return _opened(self).bound

    def inputs(self, seed: int = 0) -> Arrays:
        """Return an array for each input, by name; the same for the same seed."""
        return _opened(self).make_inputs(seed)


def interleave_evenly(*kinds: Sequence[Problem]) -> list[Problem]:
    """Return problems of several kinds in one list, each kind evenly spread and in its order.

    Every prefix of the list then has a share of each kind.
    """
    placed = [(k / len(kind), problem) for kind in kinds for k, problem in enumerate(kind)]
    return [problem for _, problem in sorted(placed, key=lambda pair: pair[0])]


@lru_cache(maxsize=_CACHED_PROBLEMS)
def _opened(problem: Problem) -> OpenedProblem:
    return _OPEN[problem.kind](json.loads(problem.arguments))


def _canonical(document: Mapping[str, Any]) -> str:
    return json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
