# Everything a contributor needs. On a fresh machine with Python 3.11+ and make, `make demo` and `make test` set
# themselves up in .venv; nothing outside this directory is touched.

PYTHON ?= python3
WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1) # the tests wait a quarter of their time
ROWS ?= 10000000

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip -qq --disable-pip-version-check
RUNTIME := $(VENV)/.installed-runtime
DEV := $(VENV)/.installed-dev
BENCH := out/bench/$(ROWS)/adult.parquet
SMALL_BENCH := out/bench/1000000/adult.parquet

.DELETE_ON_ERROR:
.PHONY: help demo test test-long bench bench-engines format docs data clean

help:
	@echo 'make demo       the whole story on bundled data'
	@echo 'make test       format, lint, types, imports, tests: all that must hold'
	@echo 'make test-long  the tests too slow for every change'
	@echo 'make bench      generate ROWS=$(ROWS) Adult-like rows and time the queries on them'
	@echo 'make bench-engines  the same on every engine, and for individuals with many rows'
	@echo 'make format     reformat, and fix what can be fixed'
	@echo 'make docs       write the generated pages of docs/ again'
	@echo 'make data       write the bundled clinic table again'
	@echo 'make clean      remove what this Makefile made'

demo: $(RUNTIME)
	@$(BIN)/dosimeter demo

test test-long: export PYTHONDONTWRITEBYTECODE := # the tests start many processes, which share what is compiled
test: $(DEV)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/pytest -n $(WORKERS) --dist loadgroup

test-long: $(DEV)
	$(BIN)/pytest -m long --hypothesis-profile=long

bench: $(DEV) $(BENCH) $(SMALL_BENCH)
	$(BIN)/python bench/run.py $(BENCH)
	$(BIN)/python bench/latency.py $(SMALL_BENCH)
	$(BIN)/python bench/forms.py --rows $(ROWS)
	$(BIN)/python bench/facts.py --rows $(ROWS)
	$(BIN)/python bench/ledgers.py --databases SQLite

bench-engines: $(DEV)
	$(BIN)/python bench/engines.py --rows $(ROWS) --postgres-rows $$(( $(ROWS) / 10 ))
	$(BIN)/python bench/ledgers.py --databases PostgreSQL

out/bench/%/adult.parquet: bench/generate.py | $(RUNTIME)
	$(BIN)/python bench/generate.py --rows $* -o $@

format: $(DEV)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(DEV)
	$(BIN)/python tools/write_cli_docs.py
	$(BIN)/python tools/write_python_docs.py
	$(BIN)/python tools/make_pictures.py

data: $(RUNTIME)
	$(BIN)/python tools/generate_clinic.py

clean:
	rm -rf $(VENV) out build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src paper tests tools bench -name __pycache__ -type d -prune -exec rm -rf {} +

# ---------------------------------------------------------------- set-up: two stamps, renewed when a pyproject.toml changes

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo 'Dosimeter needs Python 3.11 or newer; "$(PYTHON)" is not. Try: make PYTHON=python3.12' >&2; exit 1; }
	@echo 'Making $(VENV) …'
	@$(PYTHON) -m venv $(VENV) || { \
	  rm -rf $(VENV); echo 'Python cannot make a virtual environment. On Debian: apt-get install python3-venv' >&2; exit 1; }

$(RUNTIME): pyproject.toml | $(BIN)/python
	@echo 'Installing Dosimeter into $(VENV) (a minute the first time) …'
	@$(PIP) install --upgrade 'pip>=25.1'
	@$(PIP) install --editable .
	@touch $@

$(DEV): pyproject.toml paper/pyproject.toml | $(RUNTIME)
	@echo 'Installing what the checks need into $(VENV) …'
	@$(PIP) install --editable '.[postgres]' --editable ./paper --group dev
	@touch $@
