# The two commands a newcomer needs are `make demo` and `make test`. Works with GNU make 3.81 and newer.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: help demo test bench faults check lint types layers notebooks clean

help:
	@echo "make demo    install into $(VENV) and show the main job, offline"
	@echo "make test    install into $(VENV) and run every check and test"
	@echo "make bench   measure memkit beside the raw engines, 50,000 records (about 3 minutes)"
	@echo "make faults  kill, starve and damage it, and count what is lost (about 20 minutes)"
	@echo "make check   only the static checks: ruff, mypy, import-linter"
	@echo "make clean   remove $(VENV) and what the demo wrote"

demo: $(VENV)/.installed
	$(BIN)/memkit demo

test: $(VENV)/.installed-dev check
	$(BIN)/python -m pytest --numprocesses=auto --dist=worksteal

bench: $(VENV)/.installed
	$(BIN)/python -m benchmarks

faults: $(VENV)/.installed
	$(BIN)/python -m faults

check: lint types layers

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed-dev
	$(BIN)/mypy

layers: $(VENV)/.installed-dev
	$(BIN)/lint-imports

# The environment is made anew when what it is made from changes. Two stamps, because the demo needs
# no test tools.
$(VENV)/.python: scripts/check-python.sh
	@PYTHON="$(PYTHON)" sh scripts/check-python.sh "$(VENV)"
	@touch $@

$(VENV)/.installed: $(VENV)/.python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable ".[langchain,llamaindex,openai]"
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --editable ".[all]" --group dev
	@touch $@

clean:
	rm -rf "$(VENV)" demo-data
