# make demo   two pipelines scheduled, compiled, run on a photograph and checked; results in out/
# make test   the test suite that needs no GPU, without the long runs (marked `fuzz`)
# make test-fast      tests of language, analysis and schedules that need no compiler
# make lint   ruff and mypy
# make test-cluster   measuring on a local Ray cluster of two nodes (installs Ray)
# make test-report    reports in headless Chromium (installs it with apt-get where it is missing)
# make test-install   each install line of README.md in an empty environment, with README's first example (minutes each)
# make fuzz   the long runs: 2,000 random pipelines under random schedules, the largest apps (over 20 minutes on two cores)
# make fuzz-programs  random programs under random and searched schedules; goes on where it was interrupted
# make snapshot       digests of the compiler's output for three apps, in tests/golden/snapshot.json
# make check-suite    200 random schedules of every suite app
# make check-strategies a schedule of 500 random pipelines from every strategy
# make test-torch     the backend of torch.compile with the oldest PyTorch that it takes, in an environment of its own
# make operators      the backend of torch.compile on PyTorch's own samples of operators; goes on where it was interrupted
# make check-features transactions of random schedules against what the emulator counts
# make docs           the site, in build/docs
# make gallery        pictures of the image apps for docs/reference/gallery.md
# make reference      tables and loop nests of docs/reference that are made from code
# make peak-memory    every suite app at the paper's size: time and peak memory of the C backend
# make prove-division all float32 dividends for each kind of constant
# make bench  lowering, interpreter, C backend, emulator
#
# Needs Python 3.11 or newer and a C compiler. Choose the interpreter with
# `make test PYTHON=/path/to/python3.11`; everything is installed into VENV.

VENV ?= .venv
# More than two cores: tests wait for compilers much of their time.
JOBS ?= 3
# For example TORCH_FLAGS="--index-url https://download.pytorch.org/whl/cpu" to avoid the CUDA build.
TORCH_FLAGS ?=
SUDO := $(shell test "$$(id -u)" = 0 || echo sudo)

ifndef PYTHON
PYTHON := $(shell for python in python3.11 python3.12 python3.13 python3; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo $$python && break; done)
endif

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
TORCH := $(shell sed -n '/^torch==/p' constraints.txt)
DEMO_EXTRAS := nvrtc,report
DEV_EXTRAS := nvrtc,report,train,dev

.PHONY: snapshot demo test test-fast test-cluster test-torch test-report test-install lint fuzz fuzz-programs check-suite check-strategies check-features operators docs gallery reference peak-memory prove-division bench clean
.DELETE_ON_ERROR:

demo: $(VENV)/.demo-installed
	mkdir -p out
	$(BIN)/python scripts/demo.py

# Bytecode is written even where the environment says otherwise: tests start hundreds of processes that read it.
test test-fast fuzz: export PYTHONDONTWRITEBYTECODE =

test: $(VENV)/.dev-installed
	$(BIN)/python -m pytest -n $(JOBS) -m "not fuzz and not gpu" --durations 25

# Tests in the folders of test-fast that run a C compiler.
COMPILING := tests/analysis/test_atomic_updates.py tests/analysis/test_horizontal_fusion.py tests/analysis/test_macro_names.py \
	tests/analysis/test_rfactor.py tests/analysis/test_uninitialised_reads.py tests/analysis/test_window_doubling.py \
	tests/lang/test_idioms.py tests/lang/test_median.py tests/schedule/test_reassociation.py tests/schedule/test_roots.py

test-fast: $(VENV)/.dev-installed
	$(BIN)/python -m pytest -n $(JOBS) -m "not fuzz and not gpu and not slow" tests/lang tests/analysis tests/schedule \
		$(addprefix --ignore=,$(COMPILING)) --deselect tests/analysis/test_to_index.py::test_random_expressions_have_sound_ranges_and_exact_indices

test-cluster: $(VENV)/.dev-installed
	$(PIP) install --quiet -c constraints.txt -e ".[ray]"
	$(BIN)/python -m pytest tests/measure/test_cluster.py

# The newest PyTorch is the one of constraints.txt, with which `make test` runs these tests.
OLDEST_TORCH := 2.11.0
test-torch:
	$(PYTHON) -m venv $(VENV)-torch
	$(VENV)-torch/bin/python -m pip --disable-pip-version-check install --quiet $(TORCH_FLAGS) torch==$(OLDEST_TORCH) -e ".[$(DEV_EXTRAS)]"
	$(VENV)-torch/bin/python -m pytest -n $(JOBS) -m "not fuzz and not gpu" tests/torch_backend

test-report: $(VENV)/.dev-installed
	command -v chromium || { $(SUDO) apt-get update && $(SUDO) apt-get install --yes --no-install-recommends chromium; }
	$(BIN)/python -m pytest tests/report

test-install: export TORCH_FLAGS := $(TORCH_FLAGS)
test-install: $(BIN)/python
	$(BIN)/python scripts/try_installs.py

# mypy reads a regular install, where every package lies in its installed place, and runs beside it
# so that the checkout's own autosched/ does not shadow it.
lint: $(VENV)/.dev-installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	rm -rf build
	$(PIP) install --quiet --no-deps --target build/site .
	cd build/site && $(abspath $(BIN))/mypy --config-file ../../pyproject.toml --cache-dir ../../.mypy_cache -p autosched

fuzz: $(VENV)/.dev-installed
	$(BIN)/python -m pytest -n $(JOBS) -m fuzz

# Several processes; each compiles most of its time.
fuzz-programs: $(VENV)/.dev-installed
	$(BIN)/python scripts/fuzz_programs.py --first $(or $(FIRST),0) --count $(or $(COUNT),20000) --jobs $(JOBS) --out $(or $(OUT),out/fuzzing)

snapshot: $(VENV)/.dev-installed
	$(BIN)/python -m tests.golden.snapshot --write --apps blur,hist,depthwise_separable_conv

# Several shards side by side: make operators SHARD=3/16
operators: $(VENV)/.dev-installed
	$(BIN)/python scripts/check_operators.py --shard $(or $(SHARD),1/1) --out $(or $(OUT),out/operators)

check-features: $(VENV)/.dev-installed
	$(BIN)/python scripts/check_features.py

prove-division: $(VENV)/.dev-installed
	$(BIN)/python scripts/prove_division.py

check-suite: $(VENV)/.dev-installed
	$(BIN)/python scripts/check_suite.py

check-strategies: $(VENV)/.dev-installed
	$(BIN)/python scripts/check_strategies.py

docs: $(VENV)/.dev-installed
	$(PIP) install --quiet --constraint constraints.txt --editable ".[docs]"
	$(BIN)/python -m sphinx -W --keep-going -b html docs build/docs

gallery: $(VENV)/.dev-installed
	$(BIN)/python scripts/gallery.py

reference: $(VENV)/.dev-installed
	$(BIN)/python scripts/reference_pages.py
	$(BIN)/python scripts/describe_random_pipelines.py --page docs/reference/random-pipelines.md
	$(BIN)/python -m tests.schedule.directives

peak-memory: $(VENV)/.dev-installed
	$(BIN)/python scripts/peak_memory.py

bench: $(VENV)/.dev-installed
	$(BIN)/python scripts/bench_lowering.py
	$(BIN)/python scripts/bench_interpreter.py
	$(BIN)/python scripts/bench_cpu.py
	$(BIN)/python scripts/benchmark_emulator.py

clean:
	rm -rf build out *.egg-info

# Each stamp says that its install finished; a changed requirement repeats it. PyTorch goes first and
# alone: resolved by itself, the wheel pip finds nearby wins over one that drags in the CUDA libraries.
$(VENV)/.demo-installed: $(VENV)/.torch-installed pyproject.toml
	$(PIP) install --constraint constraints.txt --editable ".[$(DEMO_EXTRAS)]"
	touch $@

$(VENV)/.dev-installed: $(VENV)/.torch-installed pyproject.toml
	$(PIP) install --constraint constraints.txt --editable ".[$(DEV_EXTRAS)]"
	touch $@

$(VENV)/.torch-installed: constraints.txt | $(BIN)/python
	$(PIP) install --constraint constraints.txt $(TORCH_FLAGS) "$(TORCH)"
	touch $@

$(BIN)/python:
	@$(if $(PYTHON),"$(PYTHON)",false) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	{ echo "autosched needs Python 3.11 or newer; name one: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	"$(PYTHON)" -m venv $(VENV)
