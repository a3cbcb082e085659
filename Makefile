# Every target sets up .venv by itself. PYTHON picks the interpreter that makes it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Tests run in two processes, and small networks are no faster with more threads.
export OMP_NUM_THREADS ?= 1

.PHONY: demo test test-all lint docs record bench slurm fuzz mutants torture audit-deps reliability dist pythons clean

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
	$(BIN)/bandit -q -c pyproject.toml -r src
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

# Each of these goes on where it was stopped, and leaves its record in results.
INPUTS ?= 100000
fuzz: $(VENV)/.dev
	$(BIN)/python tests/fuzz/fuzz_run.py --inputs $(INPUTS); status=$$?; $(BIN)/python tools/reliability.py; exit $$status

SEED ?= 0
mutants: $(VENV)/.torture
	$(BIN)/python tools/mutants.py --seed $(SEED) $(if $(SAMPLE),--sample $(SAMPLE)) $(if $(MODULES),--modules $(MODULES)) \
		$(if $(TESTS),--tests $(TESTS))
	$(BIN)/python tools/reliability.py

KILLS ?= 100
torture: $(VENV)/.dev
	$(BIN)/python tools/torture.py --kills $(KILLS); status=$$?; $(BIN)/python tools/reliability.py; exit $$status

# Known vulnerabilities of what is installed. Needs the network; a library that cannot be looked up is a failure.
audit-deps: $(VENV)/.torture
	$(BIN)/pip-audit --strict --skip-editable

# Both need the network. dist leaves dist/ and results/dist.json, pythons a row for each session in results/pythons.json.
dist: $(VENV)/.release
	$(BIN)/python tools/dist.py

# Interpreters of pyenv are found where they are; SESSIONS="core-3.12 lowest" runs some.
pythons: $(VENV)/.release
	PATH="$$PATH$$(printf ':%s' "$$HOME"/.pyenv/versions/*/bin)" $(BIN)/nox $(if $(SESSIONS),-s $(SESSIONS))

reliability: $(VENV)/.dev
	$(BIN)/python tools/reliability.py

$(VENV)/bin/pip:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip

$(VENV)/.demo: $(VENV)/bin/pip pyproject.toml constraints.txt
	$(BIN)/pip install --quiet -c constraints.txt -e ".[all]"
	touch $@

$(VENV)/.dev: $(VENV)/bin/pip pyproject.toml constraints.txt
	$(BIN)/pip install --quiet -c constraints.txt -e ".[test,lint]"
	touch $@ $(VENV)/.demo

$(VENV)/.torture: $(VENV)/.dev
	$(BIN)/pip install --quiet -c constraints.txt -e ".[torture]"
	touch $@

$(VENV)/.release: $(VENV)/bin/pip pyproject.toml
	$(BIN)/pip install --quiet "build>=1.2" "twine>=6.1" "nox>=2024.10"
	touch $@

clean:
	rm -rf .nox dist .mutants .torture $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
