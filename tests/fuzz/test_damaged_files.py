"""Damaged databases, states, weights, labels and schedules are refused by an error of this library, or read."""

from __future__ import annotations

import json
import random
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from autosched.errors import AutoschedError, InputError
from autosched.lower.program import lower
from autosched.measure.problem import Problem
from autosched.measure.store.database import ResultsDatabase
from autosched.measure.store.labels import open_labels
from autosched.model.predict.checkpoint import load_checkpoint, read_document, read_tensors, write_tensors
from autosched.schedule.io.serialise import load_schedule, save_schedule
from autosched.schedule.io.strict_json import parse
from autosched.schedule.legality.validate import validate
from autosched.search.strategies.compute_root import schedule_roots
from autosched.search.tune import schedule_cache
from autosched.search.tune.autotune.state import TuningFiles
from autosched.search.tune.provenance import Provenance
from tests.fuzz.damage import WRONG, damaged_bytes, damaged_json, each_value
from tests.model.untrained_weights import untrained_weights
from tests.search.tune.fast_settings import PROBLEM, TARGET, tuned

FEW = 60
MANY = 1000
LARGE = [FEW, pytest.param(MANY, marks=pytest.mark.fuzz)]
BOUND = PROBLEM.bind()


@pytest.fixture(scope="module")
def run_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that a tuning run leaves."""
    directory = tmp_path_factory.mktemp("tuned")
    tuned(directory, 1)
    with sqlite3.connect(directory / "t.sqlite") as database:
        database.execute("pragma wal_checkpoint(truncate)")
    return directory


def read_all(contents: Iterator[tuple[str, bytes]], path: Path, read: Callable[[], object]) -> Counter[str]:
    """Return how many contents of a file are refused, and how many read; whatever else is raised passes."""
    counts: Counter[str] = Counter()
    for name, content in contents:
        path.write_bytes(content)
        try:
            read()
        except AutoschedError as error:
            counts["refused"] += 1
            assert str(error), name
        except BaseException as error:
            error.add_note(f"damage: {name}")
            raise
        else:
            counts["read"] += 1
    return counts


def texts(good: str, count: int, seed: int = 0) -> Iterator[tuple[str, bytes]]:
    """Yield a document with each key wrong, then with values wrong anywhere, then with bytes wrong."""
    for name, text in each_value(good):
        yield name, text.encode(errors="surrogatepass")
    for k in range(count):
        rng = random.Random(f"{seed} {k}")
        damaged = damaged_json(rng, good).encode(errors="surrogatepass") if k % 2 else damaged_bytes(rng, good.encode())
        yield f"seed {seed} {k}", damaged
    for name, whole in (("empty", b""), ("deep", b"[" * 100_000), ("digits", b"9" * 5000), ("null", b"null")):
        yield name, whole


@pytest.mark.parametrize("count", LARGE)
def test_states(count: int, run_files: Path, tmp_path: Path) -> None:
    files = TuningFiles(tmp_path / "t.sqlite")
    good = TuningFiles(run_files / "t.sqlite").state.read_text()
    counts = read_all(texts(good, count), files.state, files.load)
    assert counts["refused"] > 0.5 * counts.total()


@pytest.mark.parametrize("count", LARGE)
def test_schedules(count: int, tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    save_schedule(path, BOUND, schedule_roots(BOUND, TARGET))

    def read() -> None:
        schedule = load_schedule(path, BOUND)
        validate(BOUND, schedule, TARGET)
        lower(BOUND, schedule)

    counts = read_all(texts(path.read_text(), count), path, read)
    assert counts["refused"] > 0.5 * counts.total()


@pytest.mark.parametrize("count", LARGE)
def test_problems(count: int, tmp_path: Path) -> None:
    path = tmp_path / "p.json"

    def read() -> None:
        text = path.read_bytes().decode(errors="replace")
        Problem.parse(text).bind()

    for problem in (Problem.app("blur", small=True), Problem.random(3), Problem.of(BOUND)):
        counts = read_all(texts(problem.text(), count // 3), path, read)
        assert counts["refused"] > 0.3 * counts.total()


@pytest.mark.parametrize("limit", ["max_points", "max_bytes", "max_operations", "max_serial"])
def test_random_pipelines_without_room(limit: str) -> None:
    """With a limit below that of any pipeline, drawing would never end."""
    document = json.loads(Problem.random(3).text())
    document["arguments"]["settings"][limit] = 0
    with pytest.raises(InputError, match=f"{limit} is 0: give at least"):
        Problem.parse(json.dumps(document)).bind()


@pytest.mark.parametrize("count", LARGE)
def test_kept_schedules(count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOSCHED_CACHE_DIR", str(tmp_path))
    origin = Provenance(how="tuned", strategy="x", measured_s=1.0, source="measured:x")
    path = schedule_cache.keep_tuned(BOUND, TARGET, schedule_roots(BOUND, TARGET), origin)
    found: Counter[bool] = Counter()

    def read() -> None:
        found[schedule_cache.find_tuned(BOUND, TARGET) is None] += 1

    counts = read_all(texts(path.read_text(), count), path, read)
    assert counts["refused"] == 0
    assert found[True] > 0.5 * counts.total()


def _rows(path: Path) -> list[object]:
    with ResultsDatabase(path) as database:
        return [*database.rows(status=None), database.counts(), database.generators("quick")]


@pytest.mark.parametrize("count", LARGE)
def test_bytes_of_databases(count: int, run_files: Path, tmp_path: Path) -> None:
    path = tmp_path / "r.sqlite"
    good = (run_files / "t.sqlite").read_bytes()

    def read() -> None:
        for beside in ("-wal", "-shm"):
            Path(f"{path}{beside}").unlink(missing_ok=True)
        _rows(path)

    contents = ((str(k), damaged_bytes(random.Random(k), good)) for k in range(count // 3))
    counts = read_all(contents, path, read)
    assert counts["refused"] > 0.1 * counts.total()


SQL = ("'x'", "NULL", "x'fffe'", "-1", "'[]'", "1e999", "cast(x'ff' as text)")
READ = {
    "results": (
        "schedule_hash schedule target source generator status error origin seed seconds spread compiler driver "
        "conditions date"
    ),
    "problems": "hash text pipeline_hash",
    "kernels": "key seconds registers spill_bytes",
}


@pytest.mark.parametrize("table", READ)
def test_columns_of_databases(table: str, run_files: Path, tmp_path: Path) -> None:
    path = tmp_path / "r.sqlite"
    good = (run_files / "t.sqlite").read_bytes()
    counts: Counter[str] = Counter()
    for column in READ[table].split():
        for value in SQL:
            for beside in ("", "-wal", "-shm"):
                Path(f"{path}{beside}").unlink(missing_ok=True)
            path.write_bytes(good)
            connection = sqlite3.connect(path)
            try:
                connection.execute(f"UPDATE {table} SET {column} = {value}")
                connection.commit()
            except sqlite3.Error:  # the file refuses it itself
                continue
            finally:
                connection.close()
            try:
                _rows(path)
            except AutoschedError as error:
                counts["refused"] += 1
                assert str(path) in str(error), (column, value)
                assert "restore a copy" in str(error) or "choose another path" in str(error), (column, value)
            else:
                counts["read"] += 1
    assert counts["refused"] > 0.3 * counts.total()


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    return untrained_weights(tmp_path / "good.safetensors")


@pytest.mark.parametrize("count", LARGE)
def test_bytes_of_weights(count: int, weights: Path, tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    good = weights.read_bytes()
    header = 8 + int.from_bytes(good[:8], "little")
    near = ((str(k), damaged_bytes(random.Random(k), good[:header]) + good[header:]) for k in range(count // 10))
    far = ((str(k), damaged_bytes(random.Random(k), good)) for k in range(count // 20))
    read_all(far, path, lambda: load_checkpoint(path))
    counts = read_all(near, path, lambda: load_checkpoint(path))
    assert counts["refused"] > 0.5 * counts.total()


def test_documents_of_weights(weights: Path, tmp_path: Path) -> None:
    """Each field at the top, of the settings and of the target, with each kind of value; then a few whole files."""
    tensors, document = read_tensors(weights)
    good = json.dumps(document)
    counts: Counter[str] = Counter()
    for name, text in _nested(good):
        try:
            read_document(weights, parse(text, "w", InputError))
        except AutoschedError:
            counts["refused"] += 1
        except BaseException as error:
            error.add_note(f"damage: {name}")
            raise
        else:
            counts["read"] += 1
    assert counts["refused"] > 0.6 * counts.total()
    path = tmp_path / "w.safetensors"
    for key in ("hidden", "members", "form", "clip"):
        for value in WRONG:
            if value == document["settings"][key] or value != value or value in (float("inf"), 10**400, "\ud800"):
                continue
            write_tensors(path, tensors, {**document, "settings": {**document["settings"], key: value}})
            if key == "clip" and isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
                if value < 2**63:
                    load_checkpoint(path)
                continue
            with pytest.raises(InputError):
                load_checkpoint(path)


def _nested(good: str) -> Iterator[tuple[str, str]]:
    yield from each_value(good)
    document = json.loads(good)
    for part in ("settings", "target"):
        for name, text in each_value(json.dumps(document[part])):
            yield f"{part}.{name}", json.dumps({**document, part: json.loads(text)})


@pytest.mark.parametrize("count", LARGE)
def test_labels(count: int, run_files: Path, tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    from autosched.measure.store.parquet_export import export_parquet

    path = tmp_path / "l.parquet"
    with ResultsDatabase(run_files / "t.sqlite") as database:
        assert export_parquet(database, path, mixed=True) > 0
    table = pq.read_table(path)
    for name in table.column_names:
        dropped = table.drop_columns([name])
        for values in (None, ["x"], [1], [None], [b"\xff"], [[1.5]], [[None]], [float("nan")], [[-1]]):
            made = dropped if values is None else dropped.append_column(name, pa.array(values * len(table)))
            pq.write_table(made.replace_schema_metadata(table.schema.metadata), path)
            try:
                list(open_labels([path]).rows(status=None))
            except AutoschedError as error:
                assert str(path) in str(error)
    pq.write_table(table, path)
    good = path.read_bytes()
    cut = ((str(k), good[: random.Random(k).randrange(len(good))]) for k in range(count // 10))
    counts = read_all(cut, path, lambda: list(open_labels([path]).rows(status=None)))
    assert counts["read"] == 0


@pytest.mark.fuzz
def test_runs_on_damaged_states(run_files: Path, tmp_path: Path) -> None:
    """A state that can be read is resumed."""
    good = TuningFiles(run_files / "t.sqlite").state.read_text()
    for k in range(40):
        directory = tmp_path / str(k)
        directory.mkdir()
        for file in run_files.iterdir():
            (directory / file.name).write_bytes(file.read_bytes())
        state = TuningFiles(directory / "t.sqlite").state
        state.write_text(damaged_json(random.Random(k), good), encoding="utf-8")
        try:
            assert asdict(tuned(directory, 2))["seconds"] > 0
        except AutoschedError:
            continue
