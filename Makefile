# One environment, .venv, serves every target. It is made on first use and
# refreshed only when something that goes into the package has changed.

PYTHON ?= python3
PYTEST_ARGS ?=
TEST_JOBS ?= 2
# Versions that the tests passed with; `CONSTRAINTS=` takes the newest. For pip wherever it is called, builds included.
CONSTRAINTS ?= constraints.txt
ifneq ($(CONSTRAINTS),)
export PIP_CONSTRAINT := $(CONSTRAINTS)
export PIP_BUILD_CONSTRAINT := $(CONSTRAINTS)
else
unexport PIP_CONSTRAINT PIP_BUILD_CONSTRAINT
endif

VENV := .venv
ifeq ($(OS),Windows_NT)
BIN := $(VENV)/Scripts
else
BIN := $(VENV)/bin
endif
LOG := $(VENV)/install.log
# Stamps: the package as a user gets it, or linked to src; what tests, linters and the site need besides.
READY := $(VENV)/.ready
LINKED := $(VENV)/.linked
TEST_READY := $(VENV)/.ready-test
DEV_READY := $(VENV)/.ready-dev
DOCS_READY := $(VENV)/.ready-docs
PACKAGE := $(if $(wildcard $(LINKED)),$(LINKED),$(READY))
comma := ,

# Directories are listed too: their time changes when a file is removed.
SOURCES := pyproject.toml meson.build $(CONSTRAINTS) $(shell find src -name __pycache__ -prune -o \
	\( -type d -o -name '*.py' -o -name '*.pyi' -o -name '*.pyx' -o -name '*.pxd' -o -name '*.pxi' \
	-o -name '*.c' -o -name '*.h' -o -name '*.gz' -o -name '*.rst' -o -name '*.json' -o -name '*.html' \
	-o -name '*.css' -o -name '*.js' -o -name meson.build -o -name py.typed \) -print)

.DEFAULT_GOAL := help
.PHONY: help demo test test-all test-one test-latest test-rounding test-processors mutants fuzz constraints dev lint format bench docs \
	figures clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

# $(call install,what is installed,arguments of pip): one line on the screen, the rest in a log that a failure shows.
define install
	@echo "Installing $(1) (log: $(LOG)) ..."
	@$(BIN)/python -m pip install --disable-pip-version-check $(2) >$(LOG) 2>&1 || \
		{ cat $(LOG); echo "pip failed: what it said stands above, and in $(LOG)."; exit 1; }
endef

$(BIN)/python:
	@echo "Making $(VENV) with $$($(PYTHON) --version) ..."
	@$(PYTHON) -m venv $(VENV)

# A plain install, not an editable one, so that tests see what a user gets.
# The stamp is made before the install starts: an edit made meanwhile is then newer.
$(READY): $(SOURCES) | $(BIN)/python
	@touch $@.new
	$(call install,taufpl and what its command and pictures need: a minute or two,".[cli$(comma)plot]")
	@rm -f $(LINKED)
	@mv $@.new $@

# pip leaves the package that is there alone, however it was installed, and adds what the extra names.
$(TEST_READY) $(DEV_READY) $(DOCS_READY): pyproject.toml $(CONSTRAINTS) | $(PACKAGE)
	$(call install,what the extra $(patsubst .ready-%,%,$(notdir $@)) names,"taufpl[$(patsubst .ready-%,%,$(notdir $@))]")
	@touch $@

# Modules are taken from src, and what is compiled is compiled anew by the import that follows an edit: the tools stay.
# They are found by their paths, so that nothing needs to be activated.
$(LINKED): export PATH := $(CURDIR)/$(BIN):$(PATH)
$(LINKED): export CYTHON := $(CURDIR)/$(BIN)/cython
$(LINKED): pyproject.toml $(CONSTRAINTS) | $(BIN)/python
	$(call install,the tools that compile,"meson-python>=0.20" "Cython>=3.1" ninja)
	$(call install,taufpl linked to src with all that tests and linters need,--no-build-isolation --editable ".[dev]")
	@rm -f $(READY)
	@touch $(TEST_READY) $(DEV_READY) $@

demo: $(READY) ## Six ways to screen mail at a tolerance of 1 %: a table, pictures, a report
	$(BIN)/taufpl demo

# Thousands of small fits: threads of OpenMP and BLAS would wait for each other, and on a busy machine that costs minutes.
test test-all test-one test-rounding test-processors fuzz: export OMP_WAIT_POLICY := passive
test test-all test-one fuzz: export OMP_NUM_THREADS ?= 1
test test-all test-one fuzz: export OPENBLAS_NUM_THREADS ?= 1
test: PYTEST_MARKS := -m "not slow"
# The kernels of a device import Triton, which is there with CUDA alone; they have no examples.
test test-all: $(READY) $(TEST_READY)
	$(BIN)/python -m pytest -q -n $(TEST_JOBS) --doctest-modules --ignore-glob='*/_row_kernels.py' --pyargs taufpl
	$(BIN)/python -m pytest -n $(TEST_JOBS) --dist loadscope --no-loadscope-reorder $(PYTEST_MARKS) $(PYTEST_ARGS)

test: ## Run the tests but for the slow ones, and the examples in documentation and docstrings
test-all: ## Run all tests and examples
test-one: $(LINKED) ## Run the tests of FILE=tests/... on src as it is, in seconds
	$(BIN)/python -m pytest -q $(FILE) $(PYTEST_ARGS)

test-latest: ## Run the quick tests with the newest versions of everything, in an environment of their own
	rm -rf .venv-latest
	$(MAKE) test VENV=.venv-latest CONSTRAINTS=

test-rounding: $(READY) $(TEST_READY) ## Run the tests that look at rounding with two further kernels of OpenBLAS
	$(BIN)/python tools/processors.py --rounding --jobs $(TEST_JOBS)

test-processors: $(READY) $(TEST_READY) ## Run all tests as on four other processors, with one to four threads: half an hour
	$(BIN)/python tools/processors.py --jobs $(TEST_JOBS)

mutants: $(READY) $(TEST_READY) ## Change IN=thresholding at SAMPLE=40 places, and see whether its tests notice
	$(call install,what changes code at random,cosmic-ray coverage)
	$(BIN)/python tools/mutants.py $(IN) --sample $(or $(SAMPLE),40) --seed $(or $(SEED),0)

# uv resolves for all versions of Python and all systems at once. Write the file anew, run the tests, then commit it.
fuzz: $(READY) $(TEST_READY) ## Change N=20000 model files at random, by SEED=0, load them and predict: some 10 minutes
	$(BIN)/python tests/persistence/fuzzer.py --files $(or $(N),20000) --seed $(or $(SEED),0)

constraints: $(BIN)/python ## Write constraints.txt anew, with the newest versions of everything
	$(BIN)/python -m pip install --disable-pip-version-check -q uv
	printf '%s\n' 'meson-python>=0.20' 'Cython>=3.1' ninja cosmic-ray coverage torch==2.13.0 | $(BIN)/uv pip compile \
		--universal --python-version 3.11 --extra dev --extra docs --upgrade --no-annotate --no-header \
		--quiet --output-file constraints.txt pyproject.toml -

dev: $(LINKED) ## Link .venv to src, so that pytest sees an edit at once

lint: $(DEV_READY) ## Check format, lint rules and types
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m ruff check .
	$(BIN)/python -m mypy

format: $(DEV_READY) ## Rewrite the sources in the house format
	$(BIN)/python -m ruff format .
	$(BIN)/python -m ruff check --fix .

bench: $(PACKAGE) $(TEST_READY) ## Time the projection against its rivals
	$(BIN)/python benchmarks/projection.py

docs: $(PACKAGE) $(DOCS_READY) ## Build the site in docs/_build/html; a warning is an error
	$(BIN)/python -m sphinx -b html -W --keep-going -n docs docs/_build/html
	$(BIN)/python docs/check_links.py docs/_build/html
	@echo "Open docs/_build/html/index.html"

figures: $(PACKAGE) $(DOCS_READY) ## Draw the pictures of docs/mathematics.md anew
	$(BIN)/python docs/figures/make_figures.py

clean: ## Remove everything that the other targets made
	rm -rf $(VENV) .venv-latest docs/_build docs/auto build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find src tests benchmarks docs -name __pycache__ -prune -exec rm -rf {} +
