# Everything a newcomer runs. `make up` and `make test` are enough; the others are their parts.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PINS := requirements/dev.txt
AGENTS := tests/agents/node_modules/.stamp
MORE_AGENTS := tests/more_agents/node_modules/.stamp
PYTHON_AGENTS := tests/more_agents/python/.venv/.stamp
PYTHON_AGENT_PINS := $(wildcard tests/more_agents/python/*.txt)
SETUP := $(VENV)/.stamp
WEB := web/node_modules/.stamp
# What Vite wants (`engines` in web/package.json): said before npm fails in the middle.
NODE_FITS := const [major, minor] = process.versions.node.split(".").map(Number); \
	process.exit(major === 20 && minor >= 19 || major === 22 && minor >= 12 || major > 22 ? 0 : 1)
SEEN := tests/drivers/seen_features.json
PAGE := src/tieline/hub/static/index.html
# What the page is made from; its types come from the protocol's own values.
PAGE_SOURCES := $(shell find web/src web/public web/index.html web/*.ts web/*.json web/*.mjs -type f ! -path 'web/src/generated/*' 2>/dev/null) \
	$(wildcard src/tieline/protocol/*.py) src/tieline/events.py src/tieline/policy.py src/tieline/envelopes.py src/tieline/ask_parts.py src/tieline/visible_text.py \
	src/tieline/sessions/records.py src/tieline/sessions/ask_rules.py src/tieline/sessions/transcript.py src/tieline/sessions/session_worktrees.py
WORKERS ?= 4
FAST_WORKERS ?= 4
# Which Pythons `make test-pythons` takes: all, or `--only 3.13`, or `--others` than the one of .venv.
PYTHONS ?=
# With bytecode, wherever else it is not wanted: what pytest makes of 250 test modules is made once, not by each worker.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest
# A folder in memory with a gigabyte to spare, where programs may be run; empty where there is none. The tests without agents
# sync thousands of small files, and a disk takes milliseconds for each. Agents bring sandboxes with a /dev of their own.
IN_MEMORY := $(shell awk '$$2 == "/dev/shm" && $$3 == "tmpfs" && $$4 !~ /noexec/ {print $$2}' /proc/mounts 2>/dev/null | tail -1 | \
	xargs -r df -Pk | awk 'NR == 2 && $$4 > 1000000 {print $$6}')
# Debian's packages, as root or by sudo.
INSTALL := SUDO=; test "$$(id -u)" = 0 || SUDO=sudo; $$SUDO apt-get update -qq && $$SUDO apt-get install -y -qq --no-install-recommends
DIST ?= dist

.PHONY: up wheel test test-agents seen test-fast test-page test-pythons check docs screenshots pictures chaos bench setup agents browser terminal pins clean help
.DEFAULT_GOAL := help

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

up: setup ## start the hub with this machine's agents; prints its address
	@$(BIN)/tieline up
	@command -v tieline >/dev/null || echo 'Here: `. $(BIN)/activate` lets this shell find `tieline`.'

wheel: setup ## the package with the page, as one file below dist/; `uvx --from dist/…whl tieline up` runs it
	@$(BIN)/hatchling build -t wheel -d $(DIST)

setup: $(SETUP) $(PAGE) ## a .venv with the package, all extras and the tools, and the page (needs npm)

$(SETUP): $(PINS) requirements/uv.txt pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/uv.txt
	@VIRTUAL_ENV=$(abspath $(VENV)) $(BIN)/uv pip sync --quiet --compile-bytecode --require-hashes $(PINS)
	@VIRTUAL_ENV=$(abspath $(VENV)) $(BIN)/uv pip install --quiet --no-deps --no-build-isolation -e .
	@$(BIN)/python -m compileall -q src
	@touch $@

$(WEB): web/package-lock.json
	@command -v npm >/dev/null || { echo "The page is built with npm: install Node.js 20.19+ or 22.12+." >&2; exit 1; }
	@node -e '$(NODE_FITS)' || { echo "The page is built with Node.js 20.19+ or 22.12+; this is $$(node --version)." >&2; exit 1; }
	@cd web && npm ci --ignore-scripts --loglevel=error
	@touch $@

$(PAGE): $(SETUP) $(WEB) $(PAGE_SOURCES)
	@cd web && PYTHON=$(abspath $(BIN)/python) npm run --silent build
	@touch $@

browser: ## a Chromium for the tests, where there is none
	@command -v chromium >/dev/null || { $(INSTALL) chromium >/dev/null; }

terminal: ## a tmux for the tests, where there is none
	@command -v tmux >/dev/null || { $(INSTALL) tmux >/dev/null; }

agents: $(AGENTS) ## the pinned real agents that the tests drive

$(AGENTS): tests/agents/package-lock.json
	@cd tests/agents && npm install --no-save --ignore-scripts --loglevel=error && node node_modules/opencode-ai/postinstall.mjs
	@cd tests/agents/node_modules && COPILOT_PKG_CACHE_HOME=$$PWD/.cache/copilot COPILOT_SEA_EXTRACT_ONLY=1 .bin/copilot --binary-version
	@touch $@

test: setup agents browser terminal test-page ## every test, with the real agents and a real browser
	$(PYTEST) -n $(WORKERS) --dist worksteal

test-agents: setup agents browser terminal $(MORE_AGENTS) $(PYTHON_AGENTS) ## agents that are not part of the set-up, and the longer tests of those that are; writes what it saw
	$(PYTEST) -n $(WORKERS) --dist worksteal --record-seen $(SEEN) tests/more_agents

seen: setup agents $(MORE_AGENTS) $(PYTHON_AGENTS) ## the driver contract with every agent; writes what it saw of each, for `make docs`
	$(PYTEST) -n $(WORKERS) --dist worksteal --record-seen $(SEEN) -m real -k "not test_policy" tests/drivers tests/more_agents

$(MORE_AGENTS): tests/more_agents/package-lock.json
	@cd tests/more_agents && npm install --no-save --ignore-scripts --loglevel=error
	@touch $@

$(PYTHON_AGENTS): $(SETUP) $(PYTHON_AGENT_PINS)
	@$(BIN)/python tests/more_agents/python/install.py
	@touch $@

test-page: setup ## the page's own unit tests
	@cd web && npm test --silent

test-fast: setup test-page ## the tests that start no real agent and take no time
	$(if $(IN_MEMORY),PYTEST_DEBUG_TEMPROOT=$(IN_MEMORY)) $(PYTEST) -n $(FAST_WORKERS) --dist worksteal -m "not real and not slow"

test-pythons: setup ## the fast tests on each supported Python that is on this machine, each in an environment below .pythons/
	@$(BIN)/python tests/packaging/pythons.py --workers $(FAST_WORKERS) $(PYTHONS)

check: setup ## lint and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

docs: setup ## write docs/configuration.md and the tables of docs/harnesses.md and docs/agents.md from the code
	$(BIN)/python -m tieline.cli.doc_generators.configuration > docs/configuration.md
	$(BIN)/python -m tieline.cli.doc_generators.harnesses docs/harnesses.md
	$(BIN)/python -m tieline.cli.doc_generators.agents docs/agents.md $(SEEN)

screenshots: setup browser ## pictures of all that the page shows, in both themes, into artifacts/screenshots
	@$(BIN)/python -m tests.browser.screenshots artifacts/screenshots

pictures: setup browser terminal ## the pictures in the documents, made again from the page and the terminal
	@$(BIN)/python -m tests.browser.pictures docs/images

chaos: setup ## a minute of a link that breaks, hubs and nodes that are killed; on SQLite and on NATS
	CHAOS_SECONDS=60 $(PYTEST) -q tests/node/test_chaos.py

bench: setup agents ## measure the ratios and write docs/benchmarks.md
	$(BIN)/python -m bench

pins: ## compile the requirement files anew
	$(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	    --no-emit-index-url --quiet requirements/uv.in -o requirements/uv.txt
	$(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	    --no-emit-index-url --quiet --all-extras pyproject.toml requirements/dev.in -o $(PINS)
	for agent in $(PYTHON_AGENT_PINS:.txt=); do $(BIN)/uv pip compile --universal --python-version 3.12 --generate-hashes \
	    --no-header --no-annotate --no-emit-index-url --quiet $$agent.in -o $$agent.txt || exit 1; done

clean: ## remove what was built
	rm -rf $(VENV) tests/agents/node_modules tests/more_agents/node_modules tests/more_agents/python/.venv web/node_modules src/tieline/hub/static artifacts dist .pythons
