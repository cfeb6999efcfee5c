# SPDX-License-Identifier: Apache-2.0
# One entry for each job. `make demo` and `make test` set everything up by themselves in a bare clone.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PY := .venv/bin/python

# Each step is done once and leaves a stamp; a later step needs the ones before it.
RUN := .venv/.penstock-run
DEV := .venv/.penstock-dev
BROKERS := .venv/.penstock-brokers

.PHONY: help setup setup-dev setup-test demo test test-unit test-real test-long test-kubernetes test-yarn test-cgroup-v2 test-versions check bench soak docs site dist clean

help: ## show this list
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | awk -F'\t' '{printf "  make %-15s %s\n", $$1, $$2}'

setup: $(RUN) ## virtual environment with Spark, Java 17 or newer: what the demo needs
setup-dev: $(DEV) ## besides: the tools of `make check`, clients of Kafka and RabbitMQ
setup-test: $(BROKERS) ## besides: RabbitMQ, Kafka, PostgreSQL, Prometheus and Chromium for the tests

$(RUN): pyproject.toml constraints.txt scripts/setup.sh scripts/java.sh scripts/apt.sh
	@bash scripts/setup.sh run
	@touch $@

$(DEV): $(RUN)
	@bash scripts/setup.sh dev
	@touch $@

$(BROKERS): $(DEV) scripts/rabbitmq.sh scripts/postgresql.sh scripts/prometheus.sh scripts/chromium.sh scripts/fetch_kafka.py
	@bash scripts/setup.sh brokers
	@touch $@

demo: export PENSTOCK_FIRST_START := demo
demo: setup ## watch a real streaming query on a real Spark being scaled
	@source scripts/java.sh && .venv/bin/penstock demo $(ARGS)

test: setup-test ## the computed tests, random inputs, and on a real Spark, kernel and broker those that say most
	@source scripts/java.sh && $(PY) scripts/run_tests.py $(ARGS)

test-unit: setup-dev ## the tests that need no Spark: a few minutes
	@$(PY) scripts/run_tests.py --part computed $(ARGS)

test-real: setup-test ## the other tests on a real Spark, kernel and broker
	@source scripts/java.sh && $(PY) scripts/run_tests.py --part real $(ARGS)

test-long: setup-test ## faults under load, real-time runs, restarts with another size: hours
	@source scripts/java.sh && $(PY) scripts/run_tests.py --part long $(ARGS)

test-kubernetes: setup-dev ## on a real Kubernetes of one node; its first start builds it, a quarter of an hour of CPU
	@source scripts/java.sh && $(PY) scripts/run_tests.py --part kubernetes $(ARGS)

test-cgroup-v2: setup-dev ## CPU shares on a real kernel with cgroup v2, in a small virtual machine that the first start makes
	@source scripts/qemu.sh && $(PY) scripts/test_cgroup_v2.py $(ARGS)

test-yarn: setup-dev ## on a real YARN with several nodes; its first start fetches 65 MB
	@source scripts/java.sh && $(PY) scripts/run_tests.py --part yarn $(ARGS)

test-versions: setup-test ## what every supported Spark has to pass, on each (ARGS="3.5 4.0" for some); 400 MB each, once
	@source scripts/java.sh && $(PY) scripts/test_versions.py $(ARGS)

check: setup-dev ## formatting, lint, types, import contracts, generated docs, the site and its links
	@.venv/bin/ruff format --check . && .venv/bin/ruff check . && .venv/bin/mypy && .venv/bin/lint-imports && $(PY) scripts/docs.py --check && $(PY) scripts/site.py --check

# They take an hour or more, keep what they have measured, and go on from there: each is run by itself.
LONG_BENCHMARKS := $(patsubst %,benchmarks/%/run.py,soak promise spark_latency)

bench: setup-test ## all benchmarks but the longest, as ratios measured side by side (minutes)
	@source scripts/java.sh && for b in $(filter-out $(LONG_BENCHMARKS),$(wildcard benchmarks/*/run.py)); do echo "== $$b"; $(PY) $$b || exit 1; done

soak: setup-test ## a pipeline that is scaled every minute for hours: is it flat? (ARGS="--hours 8")
	@source scripts/java.sh && $(PY) benchmarks/soak/run.py $(ARGS)

docs: setup-dev ## write docs/reference from the code
	@$(PY) scripts/docs.py

site: setup-dev ## the documentation as a site, in build/site
	@$(PY) scripts/site.py

dist: setup-dev ## source distribution and wheel, in dist
	@$(PY) -m build --outdir dist .

clean: ## remove the environment, caches and runs
	rm -rf .venv runs build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache src/*.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
