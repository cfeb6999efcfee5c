// SPDX-License-Identifier: Apache-2.0
// The plots of one operator: which there are, and what each shows.

import { boundOf, isWholePath, pathsOf } from "./facts.js";
import { Plot } from "./plot.js";

const BAND_GAP_SECONDS = 900; // predictions are made now and then: they are joined over this time

const line = (key, label, kind, more) => ({ key, label, kind, spread: [`${key} low`, `${key} high`], ...more });
const step = (key, label, kind) => ({ key, label, kind, isStep: true });

/** The plots of an operator, each with the bound that it shows. */
function definitions(pipeline, operator) {
  const statistic = operator.objective?.statistic ?? "p95";
  const isWhole = isWholePath(pipeline, operator);
  const hasPath = pathsOf(pipeline, operator).some((path) => path.operators.length > 1);
  const bound = boundOf(operator.objective);
  const latencies = ["p50", "p95", ...(["p50", "p95"].includes(statistic) ? [] : [statistic])];
  const kinds = {
    p50: "third",
    p95: "first",
    [statistic]: statistic === "p50" ? "third" : statistic === "p95" ? "first" : "second",
  };
  const predicted = (metric) => ({
    low: `${metric} predicted low`,
    high: `${metric} predicted high`,
    label: "predicted",
  });
  return [
    {
      title: "Arrivals and records done",
      unit: "records/s",
      band: { ...predicted("arrival_rate"), label: "expected arrivals" },
      lines: [line("arrival_rate", "arrive", "first"), line("processed_rate", "done", "second")],
    },
    { title: "Backlog", unit: "records", lines: [line("queue_length", "waiting or in work", "first")] },
    {
      title: "Latency at this operator",
      unit: "s",
      band: isWhole ? predicted(`latency_${statistic}`) : null,
      bound: isWhole ? bound : null,
      lines: latencies.map((name) => line(`latency_${name}`, name, kinds[name])),
    },
    hasPath && {
      title: "Latency since the first arrival",
      unit: "s",
      band: predicted(`path_latency_${statistic}`),
      bound,
      lines: [line(`path_latency_${statistic}`, statistic, "first")],
    },
    {
      title: "Executors",
      unit: "executors",
      lines: [step("executors planned", "planned", "second"), step("executors", "observed", "first")],
    },
    {
      title: "CPU share",
      unit: "fraction",
      lines: [step("cpu_share planned", "planned", "second"), step("cpu_share", "observed", "first")],
    },
    {
      title: "Load",
      unit: "fraction",
      lines: [
        line("cpu_utilisation", "CPU used of allowed", "first"),
        line("busy", "time in batches", "second"),
        line("back_pressure", "back pressure", "third"),
      ],
    },
    {
      title: "How far predictions were off",
      unit: "fraction",
      emptyText: "This policy predicts nothing in this time.",
      lines: [
        { key: "latency error", label: "latency", kind: "first" },
        { key: "arrival error", label: "arrivals", kind: "second" },
      ],
    },
  ].filter(Boolean);
}

/** All plots of an operator, with one cursor and one range. */
export class OperatorPlots {
  /** onChoose(from, to): a range was chosen; say(text): have values read out. */
  constructor(pipeline, operator, onChoose, say) {
    const onPoint = (at, spoken) => {
      for (const { plot } of this.all) plot.pointTo(at);
      if (spoken) say(spoken);
    };
    this.all = definitions(pipeline, operator).map((definition) => ({
      definition,
      plot: new Plot({ ...definition, onChoose, onPoint }),
    }));
    this.elements = this.all.map(({ plot }) => plot.element);
  }

  /** Draw series in a range. */
  show(series, from, to, { interval_seconds: interval, window_seconds: span }, emptyText) {
    // What is measured is measured over a window: looks that are closer together than that leave no gap.
    const gapSeconds = Math.max(2.5 * series.bucketSeconds, 5 * (interval ?? 1), span ?? 0);
    const marks = series.decisions.filter((one) => one.at >= from && one.at <= to);
    for (const { definition, plot } of this.all) {
      plot.show({
        from,
        to,
        times: series.times,
        values: series.values,
        gapSeconds,
        bandGapSeconds: Math.max(gapSeconds, BAND_GAP_SECONDS),
        bound: definition.bound ?? null,
        marks,
        emptyText: emptyText ?? definition.emptyText,
      });
    }
  }
}
