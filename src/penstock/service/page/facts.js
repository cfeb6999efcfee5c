// SPDX-License-Identifier: Apache-2.0
// What the answers of the service mean for the page: how an operator does, what its drawing shows, who may steer.

import { ageText, numberText, secondsText, shortSizeText, isSameSize, sizeText, valueText } from "./wording.js";

const NEAR_THE_BOUND = 0.8;
const PRESSED = 0.5; // docs/background/back-pressure.md: above it, records wait for too long, now or soon
const STALE_PASSES = 10;
const ARRIVALS = "arrivals";

/** The addresses of the page's views. */
export const addresses = {
  pipeline: (name) => `#/${encodeURIComponent(name)}`,
  operator: (name, operator) => `#/${encodeURIComponent(name)}/operators/${encodeURIComponent(operator)}`,
  view: (name, view) => `#/${encodeURIComponent(name)}/${view}`,
};

/** Whether a pipeline goes on, here or in another process. */
export function goesOn(pipeline) {
  return (pipeline.is_live || pipeline.is_followed) && pipeline.ended_at === null;
}

/** Give every operator its metrics by name, as `values`. */
export function withValues(pipeline) {
  for (const operator of pipeline.operators)
    operator.values = Object.fromEntries(operator.metrics.map(({ name, value }) => [name, value]));
  return pipeline;
}

/** Bring an operator up to date with an event of kind `observation`. */
export function observe(operator, seen) {
  Object.assign(operator, {
    values: { ...operator.values, ...seen.metrics },
    quality: seen.quality,
    missing: seen.missing,
    planned: seen.planned,
    requested: seen.requested,
    observed: seen.observed,
    observed_at: seen.at,
    why: seen.why ?? operator.why,
  });
}

/** How old the newest data of an operator are, in seconds; null where there are none. */
export function ageOf(operator, pipeline, now) {
  if (operator.observed_at === null) return null;
  return goesOn(pipeline) ? Math.max(0, now - operator.observed_at) : operator.age_seconds;
}

/** Why the page offers no controls; null where it does. */
export function readOnlyReason(pipeline, role) {
  if (pipeline.ended_at !== null) return "This run has ended: it can be looked at, not steered.";
  if (pipeline.is_followed) return "This run goes on in another process: it can be looked at here, not steered.";
  if (!pipeline.is_live) return "This is a stored run: it can be looked at, not steered.";
  if (!pipeline.can_steer) return "This run takes no orders: it can be looked at, not steered.";
  if (role !== "operate")
    return "Your token may only look. To steer, open the page with the token of the role operate.";
  return null;
}

/** The objective's bound in seconds, or null; where the objective is to keep up, the time to catch up. */
export function boundOf(objective) {
  return objective?.bound_seconds ?? objective?.catch_up_seconds ?? null;
}

/** The paths that an operator is on. */
export function pathsOf(pipeline, operator) {
  return pipeline.paths.filter((path) => path.operators.includes(operator.name));
}

/** Whether an operator is a path of its own: its latency is then what the objective bounds. */
export function isWholePath(pipeline, operator) {
  return pathsOf(pipeline, operator).some((path) => path.operators.length === 1);
}

/** The latency that is shown of an operator: the statistic of its objective, or the p95. */
export function latencyOf(operator) {
  const statistic = operator.objective?.statistic ?? "p95";
  return { statistic, seconds: operator.values[`latency_${statistic}`] ?? null };
}

/** Whether data of this age, in seconds, are too old to say how a pipeline stands that goes on. */
export function isStale(age, pipeline) {
  return age > Math.max(10, STALE_PASSES * (pipeline.interval_seconds ?? 1));
}

/** How an operator does: {state, glyph, words}; `state` is a class of the style sheet. */
export function conditionOf(operator, pipeline, now) {
  const age = ageOf(operator, pipeline, now);
  if (operator.quality === null) return { state: "unknown", glyph: "…", words: "no data yet" };
  if (goesOn(pipeline) && age !== null && isStale(age, pipeline)) {
    return { state: "near", glyph: "?", words: `data are ${ageText(age)}` };
  }
  if (operator.quality !== "good")
    return { state: operator.quality === "warming up" ? "unknown" : "near", glyph: "?", words: operator.quality };
  if (operator.is_meeting_objective === false) return { state: "bad", glyph: "!", words: "above its objective" };
  const bound = boundOf(operator.objective);
  const { seconds } = latencyOf(operator);
  if (isWholePath(pipeline, operator) && bound !== null && seconds !== null && seconds > NEAR_THE_BOUND * bound) {
    return { state: "near", glyph: "~", words: "near its bound" };
  }
  if (operator.values.back_pressure > PRESSED) return { state: "near", glyph: "~", words: "more comes than it does" };
  if (operator.is_meeting_objective === null) return { state: "unknown", glyph: "–", words: "no judgement yet" };
  return { state: "good", glyph: "✓", words: "within its objective" };
}

/** What has been ordered for an operator, in few words; empty where nothing has. */
export function orderText({ steering }) {
  if (!steering?.is_steered) return "";
  if (steering.held_size) return `held at ${sizeText(steering.held_size.size)}`;
  if (steering.paused) return "paused";
  return steering.mode;
}

/** An operator for the drawing. */
function nodeOf(operator, pipeline, now) {
  const { state, glyph, words } = conditionOf(operator, pipeline, now);
  const { statistic, seconds } = latencyOf(operator);
  const bound = isWholePath(pipeline, operator) ? boundOf(operator.objective) : null;
  const latency = `${statistic} ${secondsText(seconds)}${bound === null ? "" : ` of ${secondsText(bound)}`}`;
  const change =
    operator.planned && !isSameSize(operator.planned, operator.observed) ? ` → ${shortSizeText(operator.planned)}` : "";
  const order = orderText(operator);
  const load = operator.values.cpu_utilisation ?? operator.values.busy ?? null;
  const lines = [
    latency,
    order
      ? `${shortSizeText(operator.observed)} · ${order}`
      : `${shortSizeText(operator.observed)}${change} · load ${valueText(load, "fraction")}`,
  ];
  return {
    name: operator.name,
    address: addresses.operator(pipeline.name, operator.name),
    state,
    load,
    lines,
    glyph: order ? `⏸ ${glyph}` : glyph,
    title: `${operator.name}: ${words}\n${operator.why}`,
    spoken: `${operator.name}: ${words}; ${latency}; load ${valueText(load, "fraction")}; ${sizeText(operator.observed)}${order ? `; ${order}` : ""}`,
  };
}

/** A pipeline for the drawing: {nodes, edges}. */
export function drawingOf(pipeline, now) {
  const known = new Map(pipeline.operators.map((operator) => [operator.name, operator]));
  const sources = [...new Set(pipeline.streams.map((stream) => stream.source))].filter((name) => !known.has(name));
  const nodes = [
    ...sources.map((name) => ({
      name,
      address: null,
      state: "source",
      glyph: "",
      load: null,
      lines: [name === ARRIVALS ? "what comes in" : "", ""],
      title: name,
      spoken: name,
    })),
    ...pipeline.operators.map((operator) => nodeOf(operator, pipeline, now)),
  ];
  const inputs = new Map();
  for (const { target } of pipeline.streams) inputs.set(target, (inputs.get(target) ?? 0) + 1);
  const edges = pipeline.streams.map(({ source, target, selectivity }) => {
    const reader = known.get(target);
    const writer = known.get(source);
    const isOnly = inputs.get(target) === 1;
    const written = writer ? product(writer.values.processed_rate, selectivity) : null;
    const rate = isOnly ? (reader?.values.arrival_rate ?? written) : written;
    const backlog = isOnly ? (reader?.values.queue_length ?? null) : null;
    return {
      from: source,
      to: target,
      label: rate === null || rate === undefined ? "" : `${numberText(rate)}/s`,
      backlogLabel: backlog === null ? "" : `${numberText(backlog)} waiting`,
      isBacklogged: isOnly && reader?.values.back_pressure > PRESSED,
      weight: rate ? Math.min(6, 1 + Math.log10(1 + rate)) : 1,
      spoken: `${source} to ${target}: ${valueText(rate, "records/s")}${backlog === null ? "" : `, ${numberText(backlog)} records waiting`}`,
    };
  });
  return { nodes, edges };
}

function product(rate, factor) {
  return rate === null || rate === undefined || factor === null || factor === undefined ? null : rate * factor;
}
