# Every target makes .venv on first use: nothing but python3, pip and make is needed.
VENV   := .venv
PYTHON := $(VENV)/bin/python
READY  := $(VENV)/.ready

.PHONY: demo test test-quick torture lint format bench docs clean
.DEFAULT_GOAL := help

help:
	@echo "make demo         simulate a click log, fit, check against the truth, compare rankers; demo/report.html"
	@echo "make test         run all tests"
	@echo "make test-quick   run the fast tests, in about a minute"
	@echo "make torture      attack the command line for hours; resumes, prints a table"
	@echo "make lint         format check, lint, types, import order"
	@echo "make format       format the code"
	@echo "make bench        measure speed; prints JSON"
	@echo "make docs         build the documentation into site/"

$(READY): pyproject.toml constraints.txt
	@python3 -c 'import sys; sys.exit(sys.version_info < (3, 11) and "epiclick needs Python 3.11 or newer")'
	@echo "== making $(VENV) and installing epiclick with its tools (once; a minute or two)"
	@python3 -m venv $(VENV)
	@$(PYTHON) -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	@touch $@

demo: $(READY)
	@$(VENV)/bin/epiclick demo

# tests start many programs, which load faster from compiled files, also where writing these is off
test test-quick: export PYTHONDONTWRITEBYTECODE =

test: $(READY)
	@echo "== all tests, on two processes"
	@$(PYTHON) -m pytest -n 2 --dist worksteal

test-quick: $(READY)
	@echo "== fast tests, on two processes"
	@$(PYTHON) -m pytest -n 2 --dist worksteal -m "not slow"

torture: $(READY)
	@$(PYTHON) -m torture --out torture-run

lint: $(READY)
	@echo "== ruff: format and lint"
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/ruff check .
	@echo "== mypy: types"
	@$(VENV)/bin/mypy
	@echo "== import-linter: data flows one way"
	@$(VENV)/bin/lint-imports --no-cache

format: $(READY)
	@$(VENV)/bin/ruff format .
	@$(VENV)/bin/ruff check --fix .

bench: $(READY)
	@$(PYTHON) benchmarks/run.py

docs: $(READY)
	@echo "== mkdocs: site/"
	@$(PYTHON) -m mkdocs build --strict --quiet

clean:
	rm -rf $(VENV) demo site dist .pytest_cache .ruff_cache .mypy_cache .hypothesis
