// SPDX-License-Identifier: Apache-2.0
// Tries policies on what was recorded of this pipeline, beside what happened: may another one be switched on?

import { get, post } from "./api.js";
import { html, table } from "./elements.js";
import { problemBox } from "./problem_box.js";
import { clockText, countText, secondsText, UNKNOWN } from "./wording.js";

const ASK_AGAIN_MS = 1500;
const STATIC = "static";
const FAR_OFF = 0.25; // how far the simulator may be from what was measured before a warning

/** The view of backtests. */
export class BacktestView {
  constructor(session, say) {
    Object.assign(this, { session, say });
    this.form = html("form", { class: "box", "aria-label": "Try policies on the recorded history" });
    this.problems = html("div");
    this.results = html("div", { role: "status" });
    this.element = html(
      "section",
      { "aria-label": "Backtest" },
      html("h2", null, "What would another policy have done?"),
      html(
        "p",
        { class: "small" },
        "The arrivals that were recorded, and the demand that was learnt, in the simulator. Nothing of the run is changed.",
      ),
      this.form,
      this.problems,
      this.results,
    );
  }

  /** Bring it up to date. */
  show() {
    if (this.begun || !this.session.pipeline) return;
    this.begun = true;
    this.#begin(this.session.pipeline);
    this.#read();
  }

  async #begin(pipeline) {
    try {
      const { policies } = await get(["policies"]);
      this.operator = html(
        "select",
        null,
        pipeline.operators.map(({ name }) => html("option", { value: name }, name)),
      );
      const chosen = new Set([STATIC, pipeline.policy.name, ...policies.filter((one) => one.default_for).map((one) => one.name)]);
      this.choices = [STATIC, ...policies.map(({ name }) => name)]
        .filter((name) => name !== "rules" && name !== "fixed" && name !== "schedule") // they need options
        .map((name) => html("input", { type: "checkbox", value: name, checked: chosen.has(name) }));
      this.form.replaceChildren(
        html("div", { class: "tools" }, html("label", null, "Operator", this.operator)),
        html(
          "fieldset",
          { class: "tools" },
          html("legend", null, "Policies, with their defaults"),
          this.choices.map((box) => html("label", null, box, box.value === STATIC ? "static: the top allocation" : box.value)),
        ),
        html(
          "div",
          { class: "tools" },
          html("button", { class: "main", type: "submit" }, "Backtest"),
          html("span", { class: "small" }, "It runs beside the pipeline at the lowest priority, and may take minutes."),
        ),
      );
      this.form.addEventListener("submit", (event) => {
        event.preventDefault();
        this.#start();
      });
    } catch (problem) {
      this.problems.replaceChildren(problemBox(problem));
    }
  }

  async #start() {
    const policies = this.choices.filter((box) => box.checked).map((box) => ({ policy: box.value }));
    try {
      await post(["pipelines", this.session.name, "backtests"], { operator: this.operator.value, policies });
      this.problems.replaceChildren();
      this.say("The backtest has begun.");
      await this.#read();
    } catch (problem) {
      this.problems.replaceChildren(problemBox(problem));
    }
  }

  async #read() {
    clearTimeout(this.timer);
    try {
      const { backtests } = await get(["pipelines", this.session.name, "backtests"]);
      this.results.replaceChildren(...backtests.map(resultOf));
      const isRunning = backtests.some((one) => one.state === "running");
      if (this.wasRunning && !isRunning) this.say("The backtest is done.");
      this.wasRunning = isRunning;
      if (isRunning && this.element.isConnected) this.timer = setTimeout(() => this.#read(), ASK_AGAIN_MS);
    } catch (problem) {
      this.problems.replaceChildren(problemBox(problem));
    }
  }

  onEvent() {}
}

function resultOf(one) {
  const heading = html("h2", null, `${one.operator ?? "the operator"}: ${one.policies.join(", ")}, at ${clockText(one.started_at)}`);
  if (one.state === "running") return html("div", null, heading, html("p", { class: "muted" }, "Running…"));
  if (one.state === "failed")
    return html("div", null, heading, html("p", { class: "notice bad" }, one.detail || "It failed."));
  const { result } = one;
  return html(
    "div",
    { class: "backtest" },
    heading,
    html("p", { class: "small" }, `${countText(result.arrivals.records, "arrival")}, ${result.arrivals.how}`),
    table(
      "What happened, and what each policy would have done",
      ["", "Mean", "p95", "p99", "Objective", "Time broken", "Cost of the top", "Changes"],
      [measuredRow(result), ...result.results.map(simulatedRow)],
    ),
    result.objective.why_impossible
      ? html("p", { class: "notice bad" }, `No policy keeps the objective: ${result.objective.why_impossible}.`)
      : null,
    html("p", { class: "small" }, trustText(result)),
  );
}

function measuredRow({ measured, objective }) {
  const latency = measured.latency;
  const value = latency && objective.statistic ? latency[`${objective.statistic}_seconds`] : null;
  const isMet = value === null || objective.seconds === null ? null : value <= objective.seconds;
  return [
    html("b", null, "measured"),
    secondsText(latency?.mean_seconds ?? null),
    secondsText(latency?.p95_seconds ?? null),
    secondsText(latency?.p99_seconds ?? null),
    metText(isMet),
    percentText(measured.violation_time_share),
    percentText(measured.cost_against_static),
    String(measured.changes),
  ];
}

function simulatedRow(one) {
  return [
    one.policy,
    secondsText(one.latency.mean),
    secondsText(one.latency.p95),
    secondsText(one.latency.p99),
    metText(one.met),
    percentText(one.violation_time_share),
    percentText(one.cost_against_static),
    String(one.decisions),
  ];
}

function metText(isMet) {
  return isMet === null ? UNKNOWN : isMet ? "met" : "not met";
}

function percentText(part) {
  return part === null || part === undefined ? UNKNOWN : `${(100 * part).toFixed(1)} %`;
}

function trustText({ simulator_error: error }) {
  if (error === null)
    return "The run did not measure latency, so nothing shows how near the simulator is to it.";
  const off = `Under the run's own allocations, the simulator is ${error < 0 ? "" : "+"}${Math.round(100 * error)} % off what was measured`;
  return Math.abs(error) > FAR_OFF ? `${off}: do not rely on the other rows.` : `${off}.`;
}
