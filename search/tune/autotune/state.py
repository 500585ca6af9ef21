"""What a tuning run keeps on disk, so that it can be killed at any moment and go on: each file whole or not at all."""

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
_AGAIN = "delete it to start again, with the results that are there"


@dataclass(frozen=True, slots=True)
class DrawnBatch:
    """A candidate of a tuning run.

    Attributes:
        origin: ``roots``, ``beam``, ``greedy`` or ``mutation``.
        predicted: Seconds by the model that drew it, None where it was not asked.
        schedule: One line of JSON.
    """

    origin: str
    predicted: float | None
    schedule: str


@dataclass(frozen=True, slots=True)
class Champion:
    """What a tuning run held to be the fastest after a batch.

    Attributes:
        schedule: One line of JSON.
        seconds: Its time: the median of the last comparison, or what it was measured with if there was none.
        again: Median time of each schedule of the comparison after the batch, by the hash of its JSON text.
        note: What a user should know, or empty.
    """

    schedule: str
    seconds: float
    again: Mapping[str, float] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True)
class TuningState:
    """Where a tuning run is.

    Attributes:
        fingerprint: Hash of what the run was started with.
        iteration: The one that is under way, or the number of iterations when all are done.
        drawn: Candidates of each iteration so far, that under way included once they are drawn.
        errors: Mean factor by which the model was off in each finished iteration.
        champions: The best after each iteration so far, that under way included once its candidates are compared.
    """

    fingerprint: str
    iteration: int = 0
    drawn: tuple[tuple[DrawnBatch, ...], ...] = ()
    errors: tuple[float | None, ...] = ()
    champions: tuple[Champion, ...] = ()

    @property
    def champion(self) -> Champion | None:
        """The best so far, None before the first candidates were compared."""
        return self.champions[-1] if self.champions else None


@dataclass(frozen=True)
class TuningFiles:
    """The files of a tuning run, all beside its database.

    Attributes:
        database: The results; the other files have its name with other endings.
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
        """The tuned weights, once the run is done."""
        return self._named("weights.safetensors")

    @property
    def state(self) -> Path:
        """Where the run is."""
        return self._named("tuning.json")

    def weights_of(self, iteration: int) -> Path:
        """Return the file of the weights with which an iteration begins."""
        return self._named(f"weights-{iteration}.safetensors")

    def load(self) -> TuningState | None:
        """Return the state of a run that was started before, or None.

        Raises:
            InputError: If the file is no such state, or of another version, or its parts do not fit together.
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
    found = top.mapping()
    for key, expected in (("format", FORMAT), ("version", VERSION)):
        node = found.pop(key, None)
        if node is None or node.value != expected or isinstance(node.value, bool):
            shown = "missing" if node is None else shortened(node.value)
            raise top.error(f"is no state of a tuning run: its {key} is {shown}, not {expected!r}")
    state = read_as(top.without("format", "version"), TuningState)
    _check_counts(top, state)
    for k, champion in enumerate(state.champions):
        _check_champion(found["champions"].part(champion, f"[{k}]"), champion, state)
    return state


def _check_counts(top: Node, state: TuningState) -> None:
    """Refuse a state that has more or less than its iterations have left: no file ends there."""
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


def _check_champion(node: Node, champion: Champion, state: TuningState) -> None:
    if not champion.seconds > 0 or not all(seconds > 0 for seconds in champion.again.values()):
        raise node.error("has a time that is not above 0")
    if champion.again and digest(champion.schedule) not in champion.again:
        raise node.error("has no time of its own schedule among those of its comparison")
    if not any(d.schedule == champion.schedule for batch in state.drawn for d in batch):
        raise node.error("has a schedule that was never drawn")


def with_batch(state: TuningState, batch: tuple[DrawnBatch, ...]) -> TuningState:
    """Return the state with the candidates of the iteration under way."""
    return replace(state, drawn=(*state.drawn[: state.iteration], batch))


def with_champion(state: TuningState, champion: Champion) -> TuningState:
    """Return the state with the best after the iteration under way."""
    return replace(state, champions=(*state.champions[: state.iteration], champion))


def _write(path: Path, document: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(document, allow_nan=False), encoding="utf-8")
