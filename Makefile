# One environment, .venv, serves every target. It is made on first use and
# refreshed only when something that goes into the package has changed.

PYTHON ?= python3
EXTRAS ?= dev,cli
PYTEST_ARGS ?=
TEST_JOBS ?= 2

VENV := .venv
ifeq ($(OS),Windows_NT)
BIN := $(VENV)/Scripts
else
BIN := $(VENV)/bin
endif
READY := $(VENV)/.ready
DOCS_READY := $(VENV)/.ready-docs

# Directories are listed too: their time changes when a file is removed.
SOURCES := pyproject.toml meson.build $(shell find src -name __pycache__ -prune -o \
	\( -type d -o -name '*.py' -o -name '*.pyi' -o -name '*.pyx' -o -name '*.pxd' -o -name '*.pxi' \
	-o -name '*.c' -o -name '*.h' -o -name '*.gz' -o -name '*.rst' -o -name '*.json' -o -name '*.html' \
	-o -name '*.css' -o -name '*.js' -o -name meson.build -o -name py.typed \) -print)

.DEFAULT_GOAL := help
.PHONY: help demo test lint format bench docs figures clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-10s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# A plain install, not an editable one, so that tests see what a user gets.
# The stamp is made before the install starts: an edit made meanwhile is then newer.
$(READY): $(SOURCES) | $(BIN)/python
	@touch $@.new
	$(BIN)/python -m pip install --disable-pip-version-check ".[$(EXTRAS)]"
	@mv $@.new $@

demo: $(READY) ## Six ways to screen mail at a tolerance of 1 %: a table, pictures, a report
	$(BIN)/taufpl demo

# Thousands of small fits: threads of OpenMP and BLAS would wait for each other, and on a busy machine that costs minutes.
test: export OMP_WAIT_POLICY := passive
test: export OMP_NUM_THREADS ?= 1
test: export OPENBLAS_NUM_THREADS ?= 1
test: $(READY) ## Run the tests, then the examples in the docstrings
	$(BIN)/python -m pytest -n $(TEST_JOBS) --dist loadfile $(PYTEST_ARGS)
	$(BIN)/python -m pytest --doctest-modules --pyargs taufpl

lint: $(READY) ## Check format, lint rules and types
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m ruff check .
	$(BIN)/python -m mypy

format: $(READY) ## Rewrite the sources in the house format
	$(BIN)/python -m ruff format .
	$(BIN)/python -m ruff check --fix .

bench: $(READY) ## Time the projection against its rivals
	$(BIN)/python benchmarks/projection.py

$(DOCS_READY): $(SOURCES) | $(BIN)/python
	@touch $@.new
	$(BIN)/python -m pip install --disable-pip-version-check ".[docs]"
	@mv $@.new $@

docs: $(DOCS_READY) ## Build the site in docs/_build/html; a warning is an error
	$(BIN)/python -m sphinx -b html -W --keep-going -n docs docs/_build/html
	@echo "Open docs/_build/html/index.html"

figures: $(DOCS_READY) ## Draw the pictures of docs/mathematics.md anew
	$(BIN)/python docs/figures/make_figures.py

clean: ## Remove everything that the other targets made
	rm -rf $(VENV) docs/_build docs/auto build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find src tests benchmarks docs -name __pycache__ -prune -exec rm -rf {} +
