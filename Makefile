# Every target sets up .venv by itself. PYTHON picks the interpreter that makes it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Tests run in two processes, and small networks are no faster with more threads.
export OMP_NUM_THREADS ?= 1

.PHONY: demo test test-all lint docs record bench slurm clean

demo: $(VENV)/.demo
	$(BIN)/walkback demo

test: lint
	$(BIN)/pytest -n 2 -m "not slow"

test-all: $(VENV)/.dev
	$(BIN)/pytest -n 2

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

docs: $(VENV)/.dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

# Audits, studies, docs/EVIDENCE.md and the figures anew, from results/runs; nothing is trained.
record: $(VENV)/.dev
	$(BIN)/python tools/record.py

slurm: $(VENV)/.dev
	tools/slurm_here.sh > results/slurm.txt 2>&1; status=$$?; cat results/slurm.txt; exit $$status

bench: $(VENV)/.dev
	$(BIN)/python benchmarks/bench.py

$(VENV)/bin/pip:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip

$(VENV)/.demo: $(VENV)/bin/pip pyproject.toml constraints.txt
	$(BIN)/pip install --quiet -c constraints.txt -e ".[all]"
	touch $@

$(VENV)/.dev: $(VENV)/bin/pip pyproject.toml constraints.txt
	$(BIN)/pip install --quiet -c constraints.txt -e ".[test,lint]"
	touch $@ $(VENV)/.demo

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
