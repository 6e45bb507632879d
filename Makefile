# make demo | test | check: each does all the set-up it needs. On a fresh Debian: git, python3, make, gcc, and root.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TOOLS := $(VENV)/.tools
BUILT := $(VENV)/.built
PEERS := $(VENV)/.peers
NATIVE := setup.py $(shell find csrc -name '*.[ch]' -o -name '*.py')

.DELETE_ON_ERROR:
.PHONY: help setup demo test test-vm check model model-check crash soak endurance masked mutants mutants-check mutants-generated bench lint format c-check docs wheel clean

help:
	@echo 'make setup | demo | test | test-vm | check | model | crash | soak | endurance | masked | mutants | bench | lint | format | c-check | docs | wheel | clean'

setup: $(BUILT)

# Tools and libraries; again when the project's own list of them changes.
$(TOOLS): tools/setup pyproject.toml
	@PYTHON='$(PYTHON)' tools/setup
	@touch $@

# The project itself, editable: the extension and the static program are built into src/.
$(BUILT): $(TOOLS) $(NATIVE)
	@echo 'building spurproc'
	@$(BIN)/python -m pip install --quiet --no-build-isolation --editable '.[all]'
	@touch $@

demo: $(BUILT)
	@$(BIN)/python -m examples.demo

test: $(BUILT)
	@env -u SPURPROC_STRICT SPURPROC_TEST_SIDE_BY_SIDE=1 $(BIN)/python -m pytest

check: lint c-check docs model-check
	@SPURPROC_TEST_SIDE_BY_SIDE=1 $(BIN)/python -m pytest

# The models of protocol/: all configurations and all faults. MODEL='BUG_CONSUME --trace' shows how that one comes about.
model: $(TOOLS)
	@$(BIN)/python -m protocol $(MODEL)

model-check: $(TOOLS)
	@$(BIN)/python -m protocol --quick

# In a guest with Linux 6.1, systemd and pure cgroup v2; as root. VM_TESTS=tests/kernel/test_wait.py runs that alone.
test-vm: wheel
	@PYTHON=$(BIN)/python tests/vm/run $(VM_TESTS)

# The whole crash matrices, of a step and of the agent, of which `make test` plays a part. CRASH=everywhere: with each place of a step in
# each scene, not only in the first that passes it.
crash: $(BUILT)
	@$(if $(CRASH),SPURPROC_TEST_CRASH_EVERYWHERE=1) $(BIN)/python -m pytest tests/crash tests/agent_crash

# Random histories of a node, five minutes of them, or for SOAK_S seconds; SEED=7: that one again. `make test` plays a short one.
soak: $(BUILT)
	@SPURPROC_TEST_SOAK_S=$(or $(SOAK_S),300) SPURPROC_TEST_SOAK_SEED=$(SEED) $(BIN)/python -m pytest -rP tests/soak

# What is measured over minutes, and printed.
endurance: $(BUILT)
	@$(BIN)/python -m pytest -s tests/endurance

masked: $(BUILT)
	@tools/check-masked $(BIN)/python

mutants: $(BUILT)
	@$(BIN)/python -m tests.mutation $(MUTANTS)

mutants-check: $(BUILT)
	@$(BIN)/python -m tests.mutation --check

mutants-generated: $(BUILT)
	@$(BIN)/python -m tests.mutation --trust --generated 120 --budget-s 1200 $(MUTANTS)

# What is compared with; again when the list of it changes.
$(PEERS): $(BUILT) pyproject.toml
	@if $(BIN)/python -m pip install --quiet --group bench; then touch $@; else echo 'what could not be installed is left out' >&2; fi

# All of them, and their documents; BENCH=liveness measures that one. BENCH_FLAGS: see `python -m benchmarks --help`.
bench: $(PEERS)
	@$(BIN)/python -m benchmarks $(BENCH) $(BENCH_FLAGS)

lint: $(BUILT)
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo >$(VENV)/layers || { cat $(VENV)/layers; exit 1; }

format: $(TOOLS)
	@$(BIN)/ruff format --quiet .
	@$(BIN)/ruff check --quiet --fix .

c-check: $(TOOLS)
	@tools/c-check

# Into site/; a warning is an error.
docs: $(BUILT)
	@$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going --doctree-dir .cache/doctrees docs site

wheel: $(TOOLS)
	@rm -rf dist
	@$(BIN)/python -m build --outdir dist . >$(VENV)/wheel.log 2>&1 || { cat $(VENV)/wheel.log; exit 1; }
	@ls dist/*

clean:
	rm -rf $(VENV) .cache build dist site src/*.egg-info src/spurproc/core/bin src/spurproc/core/_spurcore*.so src/spurproc/core/_spurcore.c
	rm -rf .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
