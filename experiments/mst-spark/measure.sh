#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Measures the nine applications one after the other, as experiments/mst-spark needs them; about 50 minutes on two idle
# cores. Run again, it goes on where it stopped. Names of applications as arguments: only these.
#   experiments/mst-spark/measure.sh [APPLICATION ...]
# PENSTOCK: the command (default: penstock, or that of .venv). RUNS: where measurements go (default: runs/mst-spark).
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
runs=${RUNS:-$root/runs/mst-spark}
source "$root/scripts/java.sh"
if [ -z "${PENSTOCK:-}" ]; then
  PENSTOCK=penstock
  if [ -x "$root/.venv/bin/penstock" ]; then PENSTOCK=$root/.venv/bin/penstock; fi
fi

applications=("$@")
if [ ${#applications[@]} -eq 0 ]; then
  applications=(word-count sol rolling-sort grep rolling-count unique-visitor page-view data-clean vht)
fi

# Five sizes of a fifth of a core each, started once, two samples of each start. Executors compile with C1 only and
# collect garbage with one thread: so they are warm after seconds, which is what makes 45 starts in 50 minutes possible.
settings=(
  --executors 1,2,4,6,8 --cpu-share 0.2 --repeats 1 --each 2 --tries 1
  --batch 3s --warm-up 8s --warm-up-most 45s --converge 40s --sample 9s --rest 2s --no-source-check
  --spark "spark.executor.extraJavaOptions=-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
)

mkdir -p "$runs" "$here/samples"
failed=()
for application in "${applications[@]}"; do
  folder=$runs/$application
  resume=()
  if [ -e "$folder/plan.json" ]; then resume=(--resume); fi
  echo "== $application"
  if "$PENSTOCK" measure "$application" "${settings[@]}" --folder "$folder" ${resume[@]+"${resume[@]}"}; then
    cp "$folder/samples.csv" "$here/samples/$application.csv"
  else
    code=$?
    if [ $code -eq 130 ]; then exit 130; fi
    failed+=("$application")
  fi
done
if [ ${#failed[@]} -gt 0 ]; then
  echo "not measured: ${failed[*]}; run it again to go on with these" >&2
  exit 1
fi
