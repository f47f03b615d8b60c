# Every target sets up what it needs by itself; a set-up that is done costs a moment.
# Paths stay relative, so that a checkout may lie in a folder with spaces in its name.

.DEFAULT_GOAL := help
.PHONY: help setup setup-tests run test quick check gen bench conformance soak fuzz demo sbom clean

python := .venv/bin/python
# Tests wait more than they compute: more workers than cores. A fourth one on two gains nothing, the
# cores are busy with three. One that is done takes the next module (tests/support/order.py), so that
# what its tests share is started once.
# Bytecode is written, so that not every worker and every process of a test compiles anew.
pytest := env -u PYTHONDONTWRITEBYTECODE .venv/bin/pytest
by_module := --dist loadfile --no-loadscope-reorder
all_tests := $(pytest) -n 3 $(by_module)

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

setup: ## Install Python, the locked packages and a browser, as far as they are missing
	@scripts/setup

setup-tests:
	@scripts/setup --tests

run: setup ## Serve Pilothouse on http://127.0.0.1:4000
	@.venv/bin/pilothouse serve

# Loops that kill, race or wait run PILOTHOUSE_CHAOS rounds: one here, all of them in soak.
test: export PILOTHOUSE_CHAOS ?= 1
test: setup-tests ## Run every test, with a real Chromium
	$(javascript_tests)
	@$(all_tests) $(ARGS)

quick: setup ## Run the tests that start no process: what to run while writing
	@$(pytest) -n 2 $(by_module) -m 'not process' tests/unit tests/contract $(ARGS)

soak: export PILOTHOUSE_CHAOS ?= 50
soak: setup-tests ## Run every test with all its rounds (long)
	$(javascript_tests)
	@$(all_tests) --timeout 1800 $(ARGS)

# SECONDS=60 and SEED=7 are settable; a run prints its seed.
fuzz: SECONDS ?= 600
fuzz: setup-tests ## Fuzz every tool and every socket, for ten minutes
	@$(python) -m tests.fuzz --seconds $(SECONDS) $(if $(SEED),--seed $(SEED)) $(ARGS)

define javascript_tests
@node --test extension/tests/*.test.*js
@node --import ./web/tests/typescript.mjs --test web/tests/*.test.ts
endef

check: setup ## Lint, formatting, types, and that generated files are fresh
	@.venv/bin/ruff check
	@.venv/bin/ruff format --check
	@.venv/bin/mypy --strict
	@$(python) scripts/gen.py --check

gen: setup ## Write every generated file anew
	@$(python) scripts/gen.py

bench: setup-tests ## Measure against the peers, side by side, in one run
	@$(python) -m bench $(ARGS)

conformance: setup ## Run the official MCP conformance suite
	@scripts/conformance

demo: setup ## An agent finds the fault in a small shop, in less than a minute
	@$(python) -m scripts.demo $(ARGS)

sbom: setup ## Write the software bill of materials, CycloneDX, to dist/
	@$(python) scripts/sbom.py $(ARGS)

clean: ## Remove the environment, the tools and every cache
	rm -rf .venv .tools .mypy_cache .pytest_cache .ruff_cache .hypothesis dist demo-output
	find src tests scripts bench -name __pycache__ -type d -prune -exec rm -rf {} +
