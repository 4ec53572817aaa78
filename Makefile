# Every target works in a fresh clone: the first one that needs it builds .venv.
# Choose the interpreter with PYTHON=..., pass options to pytest with PYTEST=...

VENV := .venv
BIN := $(VENV)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
PACKAGES := bayes_feasible models analysis
SOURCES := $(shell find $(PACKAGES) -name '*.py' 2>/dev/null)
PIP_INSTALL := -m pip install -qq --disable-pip-version-check

# Without bytecode every process would compile our modules again, and the tests start many.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help study paper docs screenshots test test-slow coverage lint format bench speed constraints dist clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' Makefile

study: $(VENV)/.compiled  ## run the study
	$(BIN)/bayes-feasible study

paper: $(VENV)/.compiled  ## run the experiments and claims of the paper (in paper/)
	$(BIN)/python -m bayes_feasible.analysis.paper --out paper

docs: $(VENV)/.installed  ## build the documentation (in docs/_build)
	$(BIN)/sphinx-build -W -q -b html docs docs/_build
	@echo "written: docs/_build/index.html"

screenshots: $(VENV)/.installed  ## take the pictures of a trial's page in docs/ (needs Chromium)
	$(BIN)/python -m bayes_feasible.analysis.live.screenshots docs

# In the order of the files: by number of tests, the files of few long ones would come last.
test: lint $(VENV)/.compiled  ## lint, check types and run the quick tests
	$(BIN)/pytest -m "not slow" -n auto --dist loadfile --no-loadscope-reorder $(PYTEST)

test-slow: $(VENV)/.compiled  ## run the slow tests
	$(BIN)/pytest -m slow -n auto --dist worksteal $(PYTEST)

coverage: $(VENV)/.compiled  ## which lines the quick tests run
	$(BIN)/pytest -m "not slow" -n auto --dist loadfile \
		--cov=bayes_feasible --cov=models --cov-report=term:skip-covered $(PYTEST)

lint: $(VENV)/.installed  ## check style and types
	$(BIN)/ruff check $(PACKAGES) tests
	$(BIN)/ruff format --check $(PACKAGES) tests
	$(BIN)/mypy

format: $(VENV)/.installed  ## format the code and apply the safe lint fixes
	$(BIN)/ruff check --fix $(PACKAGES) tests
	$(BIN)/ruff format $(PACKAGES) tests

bench: $(VENV)/.compiled  ## run the benchmarks
	$(BIN)/python -m bayes_feasible.analysis.benchmarks

speed: $(VENV)/.compiled  ## measure the README's table of speeds, draw its picture
	$(BIN)/python -m bayes_feasible.analysis.benchmarks.readme

# The stamp is written last and removed first, so an interrupted installation is never taken
# for a finished one: without a stamp the environment is built anew.
$(VENV)/.installed: pyproject.toml constraints.txt
	@if [ -e $@ ]; then \
		echo "updating $(VENV)" && rm $@; \
	else \
		python=$$(.ci/find-python) && \
		echo "setting up $(VENV) with $$python (a few minutes, once)" && \
		"$$python" -m venv --clear $(VENV); \
	fi
	@$(BIN)/python $(PIP_INSTALL) -c constraints.txt -e ".[dev,dask,docs,web]"
	@mkdir -p $(VENV)/typing/bayes_feasible
	@for folder in models analysis; do \
		ln -sfn ../../../$$folder $(VENV)/typing/bayes_feasible/$$folder; done
	@touch $@

# Numba's disk cache does not notice a change in an imported module, so any change empties it.
$(VENV)/.compiled: $(SOURCES) | $(VENV)/.installed
	@find $(PACKAGES) \( -name '*.nbi' -o -name '*.nbc' \) -delete
	@touch $@

# A fresh environment without constraints, frozen; the comment at the top of the file is kept.
constraints:  ## pin the newest versions of everything in constraints.txt
	@set -e; python=$$(.ci/find-python); fresh=$$(mktemp -d); trap 'rm -rf "$$fresh"' EXIT; \
	"$$python" -m venv "$$fresh"; \
	"$$fresh/bin/python" $(PIP_INSTALL) -e ".[dev,dask,docs,web]"; \
	grep '^#' constraints.txt > "$$fresh/pinned"; \
	"$$fresh/bin/python" -m pip freeze --exclude-editable >> "$$fresh/pinned"; \
	cp "$$fresh/pinned" constraints.txt

# The tests run from another folder, so that they see the wheel and not this tree.
dist:  ## build the wheel and the sdist (in dist/), and try the wheel in an empty environment
	@set -e; python=$$(.ci/find-python); fresh=$$(mktemp -d); trap 'rm -rf "$$fresh"' EXIT; \
	rm -rf dist; "$$python" -m venv "$$fresh/build"; \
	"$$fresh/build/bin/python" $(PIP_INSTALL) build; \
	"$$fresh/build/bin/python" -m build --outdir dist . > "$$fresh/log" 2>&1 || { cat "$$fresh/log"; exit 1; }; \
	"$$python" -m venv "$$fresh/try"; \
	"$$fresh/try/bin/python" $(PIP_INSTALL) -c constraints.txt dist/*.whl; \
	cp -r tests/package/smoke "$$fresh/smoke"; cd "$$fresh/smoke"; \
	../try/bin/bayes-feasible doctor; \
	../try/bin/python $(PIP_INSTALL) pytest; \
	../try/bin/pytest -q
	@ls dist/*

clean:  ## remove .venv, caches and build products
	rm -rf $(VENV) build dist docs/_build *.egg-info .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find $(PACKAGES) tests -name __pycache__ -prune -exec rm -rf {} +
