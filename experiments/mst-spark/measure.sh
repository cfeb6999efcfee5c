#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Measures the nine applications one after the other, as experiments/mst-spark needs them; about 80 minutes on two idle
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

# Five sizes of a quarter of a core each, started once, two samples of each start; 6 x 0.25 leaves half a core to the
# driver. Executors compile with C1 only and collect garbage with one thread: so they are warm within seconds, which is
# what makes 45 starts in 80 minutes possible.
settings=(
  --executors 1,2,3,4,6 --cpu-share 0.25 --repeats 1 --each 2 --tries 1
  --batch 2500ms --warm-up 5s --warm-up-most 40s --converge 35s --sample 7s --rest 1s --no-source-check
  --spark "spark.executor.extraJavaOptions=-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
)
# The driver of vht joins the tree after each batch, and wants more than the half core that six quarters leave. So its
# executors have a fifth of a core each: that leaves it four fifths. What is fixed in a batch takes more of a smaller share,
# so its batches are longer in proportion.
vht_settings=(--cpu-share 0.2 --batch 6s --sample 13s --converge 45s)

mkdir -p "$runs" "$here/samples"
failed=()
for application in "${applications[@]}"; do
  folder=$runs/$application
  resume=()
  if [ -e "$folder/plan.json" ]; then resume=(--resume); fi
  own=()
  if [ "$application" = vht ]; then own=("${vht_settings[@]}"); fi
  echo "== $application"
  if "$PENSTOCK" measure "$application" "${settings[@]}" ${own[@]+"${own[@]}"} --folder "$folder" ${resume[@]+"${resume[@]}"}; then
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
