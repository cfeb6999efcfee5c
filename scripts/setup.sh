#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes .venv with the pinned dependencies. Called by make; safe to call again.
set -euo pipefail
cd "$(dirname "$0")/.."

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
source scripts/rabbitmq.sh

if [ ! -x .venv/bin/python ]; then
  echo "penstock: making .venv with $("$python" --version)"
  if ! "$python" -m venv .venv; then
    echo "penstock: the venv module failed; mend it: sudo apt-get install python3-venv" >&2
    rm -rf .venv
    exit 2
  fi
fi
echo "penstock: installing pinned dependencies (a few minutes the first time: Spark is 400 MB)"
.venv/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[spark,rabbitmq,kafka,report,dev]'
echo "penstock: ready. Java: $JAVA_HOME"
