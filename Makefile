# Every target makes .venv on first use: nothing but python3, pip and make is needed.
VENV   := .venv
PYTHON := $(VENV)/bin/python
READY  := $(VENV)/.ready

.PHONY: demo test test-quick torture lint format bench docs constraints sbom clean
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
	@echo "make constraints  find the newest versions that fit, with checksums of their files"
	@echo "make sbom         write a bill of materials: dist/epiclick.cdx.json"

$(READY): pyproject.toml constraints.txt
	@python3 -c 'import sys; sys.exit(sys.version_info < (3, 11) and "epiclick needs Python 3.11 or newer")'
	@echo "== making $(VENV) and installing epiclick with its tools (once; a minute or two)"
	@python3 -m venv $(VENV)
	@# the tested versions, whose files are checked; then the project, and what its platform needs beside them
	@$(PYTHON) -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r constraints.txt
	@$(PYTHON) -m pip install --quiet --disable-pip-version-check --no-build-isolation -e ".[dev]"
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
	@echo "== mkdocs: site/, a folder for each version"
	@$(PYTHON) supply/site.py

constraints:
	@python3 -m venv .uv && .uv/bin/python -m pip install --quiet --disable-pip-version-check "uv>=0.9,<1"
	@printf "hatchling\neditables\n" | .uv/bin/uv pip compile --quiet --universal --python-version 3.11.5 --extra dev --generate-hashes \
	  --no-annotate --no-header --upgrade --output-file constraints.txt pyproject.toml -
	@rm -rf .uv

sbom: $(READY)
	@mkdir -p dist
	@$(PYTHON) supply/components.py sbom > dist/.epiclick.cdx.json
	@mv dist/.epiclick.cdx.json dist/epiclick.cdx.json

clean:
	rm -rf $(VENV) demo site dist .pytest_cache .ruff_cache .mypy_cache .hypothesis
