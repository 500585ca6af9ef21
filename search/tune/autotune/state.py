"""Files of a tuning run, written atomically, from which a killed run resumes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from autosched.atomic_files import replace_file
from autosched.errors import InputError, shortened
from autosched.measure.compile.content_keys import digest
from autosched.schedule.io.strict_json import Node, parse
from autosched.schedule.io.typed_json import read_as

FORMAT = "autosched-tuning"
VERSION = 2
_AGAIN = "delete it to start again, with the results in the database"


@dataclass(frozen=True, slots=True)
class DrawnCandidate:
    """A candidate of a tuning run.

    Attributes:
        origin: ``roots``, ``beam``, ``greedy`` or ``mutation``.
        predicted: Predicted seconds by the model that drew it; None for the baseline.
        schedule: One line of JSON.
    """

    origin: str
    predicted: float | None
    schedule: str


@dataclass(frozen=True, slots=True)
class Incumbent:
    """The best schedule of a tuning run after a batch.

    Attributes:
        schedule: One line of JSON.
        seconds: The median time of the last comparison or, without one, the time of its measurement.
        again: Median time of each schedule in the comparison after the batch, by the hash of its JSON text.
        note: Note for users, or empty.
    """

    schedule: str
    seconds: float
    again: Mapping[str, float] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True)
class TuningState:
    """State of a tuning run.

    Attributes:
        fingerprint: Hash of problem, target, source of times, weights and settings.
        iteration: The current iteration; the number of iterations when all are finished.
        drawn: Candidates of each iteration, of the current one too once they are drawn.
        errors: Mean error factor of the model in each finished iteration.
        champions: The incumbent after each iteration, of the current one too once its candidates are compared.
    """

    fingerprint: str
    iteration: int = 0
    drawn: tuple[tuple[DrawnCandidate, ...], ...] = ()
    errors: tuple[float | None, ...] = ()
    champions: tuple[Incumbent, ...] = ()

    @property
    def incumbent(self) -> Incumbent | None:
        """The best schedule so far; None before the first comparison."""
        return self.champions[-1] if self.champions else None


@dataclass(frozen=True)
class TuningFiles:
    """Files of a tuning run, in the directory of its database.

    Attributes:
        database: The results; all other files have its name with other suffixes.
    """

    database: Path
    stem: Path = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "stem", self.database.with_suffix(""))

    @property
    def schedule(self) -> Path:
        """The fastest schedule so far."""
        return self._named("schedule.json")

    @property
    def weights(self) -> Path:
        """The tuned weights of a finished run."""
        return self._named("weights.safetensors")

    @property
    def state(self) -> Path:
        """The state of the run."""
        return self._named("tuning.json")

    def weights_of(self, iteration: int) -> Path:
        """Return the file of an iteration's initial weights."""
        return self._named(f"weights-{iteration}.safetensors")

    def load(self) -> TuningState | None:
        """Return the stored state, or None without a file.

        Raises:
            InputError: If the file is no such state, of another version, or inconsistent.
        """
        try:
            content = self.state.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise InputError(f"{self.state} cannot be read ({error.strerror or error}): {_AGAIN}") from error
        return _read_state(parse(content, str(self.state), InputError, _AGAIN))

    def save(self, state: TuningState) -> None:
        """Write the state.

        Raises:
            InputError: If the file cannot be written.
        """
        document: Mapping[str, Any] = {"format": FORMAT, "version": VERSION, **asdict(state)}
        try:
            replace_file(self.state, lambda beside: _write(beside, document))
        except OSError as error:
            raise InputError(f"cannot write {self.state}: {error.strerror or error}") from error

    def _named(self, ending: str) -> Path:
        return self.stem.with_name(f"{self.stem.name}.{ending}")


def _read_state(top: Node) -> TuningState:
    parts = top.mapping()
    for key, expected in (("format", FORMAT), ("version", VERSION)):
        node = parts.pop(key, None)
        if node is None or node.value != expected or isinstance(node.value, bool):
            shown = "missing" if node is None else shortened(node.value)
            raise top.error(f"is no state of a tuning run: its {key} is {shown}, not {expected!r}")
    state = read_as(top.without("format", "version"), TuningState)
    _check_counts(top, state)
    for k, incumbent in enumerate(state.champions):
        _check_incumbent(parts["champions"].part(incumbent, f"[{k}]"), incumbent, state)
    return state


def _check_counts(top: Node, state: TuningState) -> None:
    """Refuse a state with a number of entries that its iterations cannot have written."""
    done = state.iteration
    if done < 0:
        raise top.error(f"is no state of a tuning run: its iteration is {done}")
    for name, values, most in (
        ("drawn", state.drawn, done + 1),
        ("errors", state.errors, done),
        ("champions", state.champions, done + 1),
    ):
        if not done <= len(values) <= most:
            raise top.error(f"has {len(values)} entries of {name} after {done} iterations")


def _check_incumbent(node: Node, incumbent: Incumbent, state: TuningState) -> None:
    if not incumbent.seconds > 0 or not all(seconds > 0 for seconds in incumbent.again.values()):
        raise node.error("has a time that is not above 0")
    if incumbent.again and digest(incumbent.schedule) not in incumbent.again:
        raise node.error("has a comparison without a time of its schedule")
    if not any(d.schedule == incumbent.schedule for batch in state.drawn for d in batch):
        raise node.error("has a schedule that was never drawn")


def with_batch(state: TuningState, batch: tuple[DrawnCandidate, ...]) -> TuningState:
    """Return the state with the candidates of the current iteration."""
    return replace(state, drawn=(*state.drawn[: state.iteration], batch))


def with_incumbent(state: TuningState, incumbent: Incumbent) -> TuningState:
    """Return the state with the incumbent after the current iteration."""
    return replace(state, champions=(*state.champions[: state.iteration], incumbent))


def _write(path: Path, document: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(document, allow_nan=False), encoding="utf-8")
