# `make` alone lists the commands.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready
LOCKS := envs/analysis.txt envs/torch.txt envs/dev.txt

.DEFAULT_GOAL := help
.PHONY: help setup demo two-by-two test test-fast lint benchmark lock
.DELETE_ON_ERROR:

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-11s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

setup: $(READY) ## make .venv with the pinned packages and the refork command

demo: $(READY) ## run the demo study on a small language model, about 6 minutes
	$(BIN)/snakemake --cores 2 --configfile config/demo.yaml
	@echo "The report: results/demo/report.html"

two-by-two: $(READY) ## measure what batch and re-feeding do to tokens, by kernels; about half an hour
	$(BIN)/snakemake --cores 2 --configfile config/studies/two-by-two.yaml
	$(BIN)/refork agreement results/two-by-two

test: $(READY) ## run all tests, about 30 minutes
	NUMBA_DISABLE_JIT=1 $(BIN)/pytest -q -m "not model and not workflow and not slow" tests/stats tests/study \
		--cov=refork.stats --cov=refork.study --cov-report=term-missing:skip-covered --cov-fail-under=95
	$(BIN)/pytest

test-fast: $(READY) ## run the tests that need no model and no workflow
	$(BIN)/pytest -q -m "not model and not workflow and not slow" --ignore=tests/benchmarks

lint: $(READY) ## check style, types, import floors and the workflow
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/snakefmt --check Snakefile rules
	$(BIN)/snakemake --lint

benchmark: $(READY) ## measure speed and memory
	$(BIN)/pytest tests/benchmarks

lock: $(READY) ## write envs/ anew from what is installed in .venv
	$(BIN)/python envs/lock.py

$(READY): $(LOCKS) pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "refork needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
		{ echo "Python's venv is missing. On Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	@echo "Setting up $(VENV) with the pinned packages; the first time this takes some minutes."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check $(LOCKS:%=-r %)
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@
