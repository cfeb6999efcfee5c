# SPDX-License-Identifier: Apache-2.0
# One entry for each job. `make demo` and `make test` set everything up by themselves in a bare clone.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PY := .venv/bin/python
STAMP := .venv/.penstock-installed

.PHONY: help setup demo test test-unit test-long check bench docs clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | awk -F'\t' '{printf "  make %-10s %s\n", $$1, $$2}'

setup: $(STAMP) ## virtual environment, pinned dependencies, Java 17 or newer, RabbitMQ

$(STAMP): pyproject.toml constraints.txt scripts/setup.sh scripts/java.sh scripts/rabbitmq.sh
	@bash scripts/setup.sh
	@touch $@

demo: setup ## watch a real streaming query on a real Spark being scaled
	@source scripts/java.sh && .venv/bin/penstock demo $(ARGS)

test: setup ## the tests: unit, contract, property, integration on a real cluster, end to end
	@source scripts/java.sh && $(PY) scripts/run_tests.py $(ARGS)

test-long: setup ## faults under load, real-time runs, restarts with another size: half an hour
	@source scripts/java.sh && $(PY) scripts/run_tests.py --part long $(ARGS)

test-unit: setup ## the tests that need no Spark, a minute or two
	@$(PY) scripts/run_tests.py --part computed $(ARGS)

check: setup ## formatting, lint, types, import contracts, generated docs
	@.venv/bin/ruff format --check . && .venv/bin/ruff check . && .venv/bin/mypy && .venv/bin/lint-imports && $(PY) scripts/docs.py --check

bench: setup ## all benchmarks, as ratios measured side by side (minutes)
	@source scripts/java.sh && for b in benchmarks/*/run.py; do echo "== $$b"; $(PY) $$b || exit 1; done

docs: setup ## write docs/reference from the code
	@$(PY) scripts/docs.py

clean: ## remove the environment, caches and runs
	rm -rf .venv runs build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache src/*.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
