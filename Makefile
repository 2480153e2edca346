# Everything a newcomer runs. `make up` and `make test` are enough; the others are their parts.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PINS := requirements/dev.txt
AGENTS := tests/agents/node_modules/.stamp
SETUP := $(VENV)/.stamp
WORKERS ?= 2

.PHONY: up test test-fast check bench setup agents pins clean help
.DEFAULT_GOAL := help

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

up: setup ## play the demo: a scripted agent works, asks and edits, no key needed
	@$(BIN)/tieline demo

setup: $(SETUP) ## a .venv with the package, all extras and the tools

$(SETUP): $(PINS) requirements/uv.txt pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/uv.txt
	@VIRTUAL_ENV=$(abspath $(VENV)) $(BIN)/uv pip sync --quiet --require-hashes $(PINS)
	@VIRTUAL_ENV=$(abspath $(VENV)) $(BIN)/uv pip install --quiet --no-deps --no-build-isolation -e .
	@$(BIN)/python -m compileall -q src
	@touch $@

agents: $(AGENTS) ## the pinned real agents that the tests drive

$(AGENTS): tests/agents/package-lock.json
	@cd tests/agents && npm install --no-save --ignore-scripts --loglevel=error && node node_modules/opencode-ai/postinstall.mjs
	@touch $@

test: setup agents ## every test, with the real agents
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

test-fast: setup ## the tests that start no real agent and take no time
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not real and not slow"

check: setup ## lint and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

bench: setup agents ## measure the ratios and write docs/benchmarks.md
	$(BIN)/python -m bench

pins: ## compile the requirement files anew
	$(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	    --no-emit-index-url --quiet requirements/uv.in -o requirements/uv.txt
	$(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	    --no-emit-index-url --quiet --all-extras pyproject.toml requirements/dev.in -o $(PINS)

clean: ## remove what was built
	rm -rf $(VENV) tests/agents/node_modules dist
