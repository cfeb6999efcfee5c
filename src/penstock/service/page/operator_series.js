// SPDX-License-Identifier: Apache-2.0
// The series of one operator as the plots take them: read for a range, extended by each observation, with the planned
// sizes and the errors of predictions that are computed from what was read.

import { get } from "./api.js";
import { indexAt } from "./plot.js";

const MOST_POINTS = 700;
const MOST_APPENDED = 240; // then the range is read again, thinned by the service
const LONGEST_PREDICTION_SECONDS = 900;

/** What is plotted, from the catalogue of metrics. */
export function metricsFor(operator) {
  const statistic = operator.objective?.statistic ?? "p95";
  return [
    ...new Set([
      "arrival_rate",
      "processed_rate",
      "queue_length",
      "latency_p50",
      "latency_p95",
      `latency_${statistic}`,
      `path_latency_${statistic}`,
      "executors",
      "cpu_share",
      "cpu_utilisation",
      "busy",
      "back_pressure",
    ]),
  ];
}

/** Series in one range of time. */
export class OperatorSeries {
  #giveUp = null;
  #appended = 0;

  /** startedAt: when the run began, before which nothing was planned; null: that is not known. */
  constructor(pipelineName, operator, startedAt) {
    this.pipelineName = pipelineName;
    this.startedAt = startedAt;
    this.operator = operator;
    this.metrics = metricsFor(operator);
    this.clear();
  }

  /** Forget everything. */
  clear() {
    this.times = [];
    this.values = {};
    this.decisions = [];
    this.plannedBefore = null; // the size that was planned when the range began
    this.bucketSeconds = 0;
    this.isCut = false;
    this.#appended = 0;
  }

  /** Whether so much was appended that the service had better thin it. */
  get isFull() {
    return this.#appended >= MOST_APPENDED;
  }

  /** Read a range; a read that is overtaken by another one gives false. */
  async read(from, to, intervalSeconds) {
    this.#giveUp?.abort();
    const giveUp = new AbortController();
    this.#giveUp = giveUp;
    // A bucket shorter than the time between two looks would be empty every other time.
    const points = Math.max(20, Math.min(MOST_POINTS, Math.floor((to - from) / Math.max(0.5, intervalSeconds ?? 1))));
    try {
      const where = ["pipelines", this.pipelineName];
      const [answer, before] = await Promise.all([
        get(
          [...where, "series"],
          { operator: this.operator.name, metrics: this.metrics.join(","), from, to, points },
          giveUp.signal,
        ),
        get(
          [...where, "decisions"],
          { operator: this.operator.name, before: from, limit: 1, changes_only: true },
          giveUp.signal,
        ),
      ]);
      this.#take(answer, before.decisions.find((one) => !one.is_recommended_only) ?? null);
    } catch (problem) {
      if (giveUp.signal.aborted) return false;
      throw problem;
    }
    return true;
  }

  #take(answer, before) {
    this.clear();
    this.bucketSeconds = answer.bucket_seconds;
    this.isCut = answer.is_cut;
    this.times = answer.bucket_at.map((at) => Math.min(answer.to_at, at + answer.bucket_seconds / 2));
    for (const { metric, min, max, mean, predicted } of answer.series) {
      this.values[metric] = mean;
      this.values[`${metric} low`] = min;
      this.values[`${metric} high`] = max;
      if (predicted) {
        this.values[`${metric} predicted`] = predicted.mean;
        this.values[`${metric} predicted low`] = predicted.min;
        this.values[`${metric} predicted high`] = predicted.max;
      }
    }
    this.decisions = answer.decisions.map((one) => ({ ...one, operator: this.operator.name }));
    this.plannedBefore = before?.target ?? this.operator.original;
    this.#derive();
  }

  /** Add what an event of kind `observation` says. */
  append({ at, metrics }) {
    if (this.times.length && at <= this.times.at(-1)) return;
    const before = this.times.length;
    this.times.push(at);
    for (const metric of this.metrics) {
      for (const key of [metric, `${metric} low`, `${metric} high`]) {
        (this.values[key] ??= Array(before).fill(null)).push(metrics[metric] ?? null);
      }
      for (const key of [`${metric} predicted`, `${metric} predicted low`, `${metric} predicted high`])
        this.values[key]?.push(null);
    }
    this.#appended += 1;
    this.#derive();
  }

  /** Add a decision that has just been made. */
  decide(decision) {
    if (decision.is_change && !this.decisions.some((one) => one.decision_id === decision.decision_id))
      this.decisions.push(decision);
    const { workload, prediction } = decision;
    const last = this.times.length - 1;
    const statistic = this.operator.objective?.statistic;
    const put = (metric, value, low = value, high = value) => {
      for (const [what, end] of [
        ["predicted", value],
        ["predicted low", low],
        ["predicted high", high],
      ]) {
        const own = (this.values[`${metric} ${what}`] ??= Array(this.times.length).fill(null));
        if (last >= 0 && typeof end === "number") own[last] = end;
      }
    };
    if (workload) put("arrival_rate", workload.arrivals_per_second);
    if (prediction && statistic) {
      const { seconds, path } = prediction;
      const ends = [prediction.low_seconds ?? seconds, prediction.high_seconds ?? seconds];
      put(`path_latency_${statistic}`, seconds, ...ends);
      if (path.length === 1) put(`latency_${statistic}`, seconds, ...ends);
    }
    this.#derive();
  }

  #derive() {
    const carried = this.decisions.filter((one) => !one.is_recommended_only).sort((a, b) => a.at - b.at);
    const instants = carried.map((one) => one.at);
    const planned = this.times.map((at) =>
      at < (this.startedAt ?? -Infinity) ? null : (carried[indexAt(instants, at)]?.target ?? this.plannedBefore),
    );
    this.values["executors planned"] = planned.map((size) => size?.executors ?? null);
    this.values["cpu_share planned"] = planned.map((size) => size?.cpu_share ?? null);
    const statistic = this.operator.objective?.statistic;
    this.values["arrival error"] = this.#errors("arrival_rate");
    this.values["latency error"] = statistic
      ? this.#errors(
          this.values[`path_latency_${statistic} predicted`] && this.#hasValues(`path_latency_${statistic}`)
            ? `path_latency_${statistic}`
            : `latency_${statistic}`,
        )
      : [];
  }

  #hasValues(key) {
    return (this.values[key] ?? []).some((value) => value !== null);
  }

  /** How far the newest prediction was from what was then measured, as a part of what was measured. */
  #errors(metric) {
    const predicted = this.values[`${metric} predicted`];
    const measured = this.values[metric];
    if (!predicted || !measured) return [];
    let latest = null;
    let latestAt = -Infinity;
    return this.times.map((at, index) => {
      if (typeof predicted[index] === "number") [latest, latestAt] = [predicted[index], at];
      const seen = measured[index];
      if (latest === null || at - latestAt > LONGEST_PREDICTION_SECONDS || typeof seen !== "number" || seen <= 0)
        return null;
      return Math.abs(latest - seen) / seen;
    });
  }
}
