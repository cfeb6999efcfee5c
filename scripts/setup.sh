#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Sets up one step: `run`, what the demo needs; `dev`, the tools of the checks and tests; `brokers`, what the tests start.
# Called by make, each step after the one before it; safe to call again.
set -euo pipefail
cd "$(dirname "$0")/.."

# The first start is when the environment was never completed before.
if [ "${PENSTOCK_FIRST_START:-}" = demo ] && [ ! -e .venv/.penstock-run ]; then
  echo "penstock: first start: about 3 minutes to install (Spark is 400 MB), then the demo runs (5 minutes, or as ARGS says)"
fi

install() { .venv/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[$1]"; }

case "${1:-run}" in
  run)
    python=""
    for candidate in "${PYTHON:-}" python3.11 python3.12 python3.13 python3; do
      [ -n "$candidate" ] && command -v "$candidate" >/dev/null || continue
      if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then python=$candidate; break; fi
    done
    if [ -z "$python" ]; then
      echo "penstock: Python 3.11 or newer is needed and was not found." >&2
      echo "  mend it: sudo apt-get install python3 python3-venv   (or set PYTHON=/path/to/python3.11)" >&2
      exit 2
    fi
    source scripts/java.sh
    if [ ! -x .venv/bin/python ]; then
      echo "penstock: making .venv with $("$python" --version)"
      if ! "$python" -m venv .venv; then
        echo "penstock: the venv module failed; mend it: sudo apt-get install python3-venv" >&2
        rm -rf .venv
        exit 2
      fi
    fi
    echo "penstock: installing Spark and the other pinned dependencies"
    install spark,report,service
    echo "penstock: ready. Java: $JAVA_HOME"
    ;;
  dev)
    echo "penstock: installing the tools for checks and tests"
    install spark,report,kafka,rabbitmq,kubernetes,postgresql,service,dev
    ;;
  brokers)
    source scripts/java.sh
    source scripts/rabbitmq.sh
    source scripts/postgresql.sh
    source scripts/prometheus.sh
    source scripts/chromium.sh
    echo "penstock: fetching Kafka if it is not there yet (110 MB)"
    .venv/bin/python scripts/fetch_kafka.py
    ;;
  *)
    echo "penstock: unknown step '$1'; there are run, dev and brokers" >&2
    exit 2
    ;;
esac
