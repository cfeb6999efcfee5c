// SPDX-License-Identifier: Apache-2.0
// One operator: what it has, why nothing or something happens, its plots, its decisions.

import { get } from "./api.js";
import { DecisionStrip } from "./decision_strip.js";
import { html, setAttribute, setText } from "./elements.js";
import { addresses, ageOf, conditionOf, goesOn, orderText, readOnlyReason } from "./facts.js";
import { OperatorPlots } from "./operator_plots.js";
import { OperatorSeries } from "./operator_series.js";
import { OrderPanel } from "./order_panel.js";
import { problemBox } from "./problem_box.js";
import { TimeRange } from "./time_range.js";
import { WhyLine } from "./why_line.js";
import { ageText, clockText, sizeText } from "./wording.js";

const MOST_MARKS_EXPLAINED = 500;

/** The view of one operator. */
export class OperatorView {
  constructor(session, name, say) {
    Object.assign(this, { session, name, say, reason: undefined });
    this.facts = html("ul", { class: "facts" });
    this.why = new WhyLine();
    this.state = html("span", { class: "word" });
    this.age = html("span", { class: "small" });
    this.neighbours = html("p", { class: "small" });
    this.orders = html("div");
    this.quick = html("span");
    this.faults = html("div");
    this.problems = html("div");
    this.strip = new DecisionStrip((members) => this.#explained(members));
    this.range = new TimeRange(
      () => this.#latest(),
      () => this.#load(),
    );
    this.plotGrid = html("div", { class: "plots" });
    this.element = html(
      "section",
      { "aria-labelledby": "operator-name" },
      html(
        "div",
        { class: "heading" },
        html("h2", { id: "operator-name", class: "operator-name", tabindex: "-1" }, name),
        this.state,
        this.age,
        this.quick,
      ),
      this.neighbours,
      this.facts,
      this.why.element,
      this.faults,
      this.orders,
      this.range.element,
      this.problems,
      this.strip.element,
      this.plotGrid,
    );
  }

  get #operator() {
    return this.session.pipeline?.operators.find((one) => one.name === this.name) ?? null;
  }

  /** The end of what there is to see: now, or the newest record of a stored run. */
  #latest() {
    const { pipeline } = this.session;
    if (!pipeline || goesOn(pipeline)) return this.session.now();
    return pipeline.ended_at ?? this.#operator?.observed_at ?? this.session.now();
  }

  /** Bring it up to date. */
  show() {
    const { pipeline, role } = this.session;
    const operator = this.#operator;
    if (!pipeline) return;
    if (!operator) {
      this.element.replaceChildren(html("p", { class: "notice" }, `This pipeline has no operator ${this.name}.`));
      return;
    }
    if (!this.plots) this.#begin(pipeline, operator);
    const reason = readOnlyReason(pipeline, role);
    if (reason !== this.reason) this.#offer(pipeline, operator, reason);
    this.series.operator = operator;
    const { state, words } = conditionOf(operator, pipeline, this.session.now());
    setText(this.state, words);
    setAttribute(this.state, "class", `word ${state}`);
    const age = ageOf(operator, pipeline, this.session.now());
    setText(this.age, age === null ? "" : `newest data ${ageText(age)}`);
    this.why.show(operator.why, state === "bad" ? "bad" : orderText(operator) ? "near" : "");
    this.#showFacts(operator);
    this.panel?.show(pipeline, operator);
    const faults = operator.faults.map((fault) =>
      html(
        "p",
        null,
        `${clockText(fault.last_at)}: ${fault.text}${fault.count > 1 ? ` (${fault.count} times since ${clockText(fault.at)})` : ""}`,
      ),
    );
    const text = JSON.stringify(operator.faults);
    if (text !== this.faultsShown)
      this.faults.replaceChildren(...(faults.length ? [html("div", { class: "notice" }, faults)] : []));
    this.faultsShown = text;
  }

  #offer(pipeline, operator, reason) {
    this.reason = reason;
    this.panel = reason === null ? new OrderPanel(pipeline, operator, () => this.session.read(), this.say) : null;
    this.quick.replaceChildren(...(this.panel ? [this.panel.quick] : []));
    this.orders.replaceChildren(
      ...(this.panel ? [this.panel.message, this.panel.more] : [html("p", { class: "small read-only" }, reason)]),
    );
  }

  #begin(pipeline, operator) {
    this.series = new OperatorSeries(pipeline.name, operator, pipeline.started_at);
    this.plots = new OperatorPlots(pipeline, operator, (from, to) => this.range.choose(from, to), this.say);
    this.plotGrid.append(...this.plots.elements);
    const links = (names) =>
      names.flatMap((name, index) => [
        index ? ", " : "",
        pipeline.operators.some((one) => one.name === name)
          ? html("a", { href: addresses.operator(pipeline.name, name) }, name)
          : name,
      ]);
    const above = pipeline.streams.filter((one) => one.target === this.name).map((one) => one.source);
    const below = pipeline.streams.filter((one) => one.source === this.name).map((one) => one.target);
    this.neighbours.append(
      "Reads from ",
      ...links(above),
      below.length ? "; is read by " : "; nobody reads what it writes",
      ...links(below),
      ".",
    );
    this.range.begin(pipeline.started_at, goesOn(pipeline));
  }

  #showFacts(operator) {
    const entries = [
      ["Objective", operator.objective?.text ?? "none"],
      ["Observed", sizeText(operator.observed)],
      ["Planned", sizeText(operator.planned)],
      ["Requested", sizeText(operator.requested)],
      ["At the start", sizeText(operator.original)],
      [
        "Limits",
        `${operator.limits.min_executors} to ${operator.limits.max_executors} executors, CPU ${operator.limits.cpu_shares.map((one) => `${Math.round(one * 100)} %`).join(", ")}`,
      ],
    ];
    if (operator.cost) entries.push(["Cost so far", operator.cost.text]);
    if (orderText(operator)) entries.unshift(["Ordered", orderText(operator)]);
    const text = JSON.stringify(entries);
    if (text !== this.factsShown)
      this.facts.replaceChildren(
        ...entries.map(([name, value]) => html("li", null, `${name}: `, html("b", null, value))),
      );
    this.factsShown = text;
  }

  async #load() {
    if (!this.plots) return;
    const { from, to } = this.range;
    this.#draw(this.series.times.length ? undefined : "Loading…");
    try {
      if (!(await this.series.read(from, to, this.session.pipeline?.interval_seconds))) return;
      this.problems.replaceChildren(
        ...(this.series.isCut
          ? [
              html(
                "p",
                { class: "notice" },
                "There are more records in this time than are read at once: the oldest are left out. Choose a shorter time to see them.",
              ),
            ]
          : []),
      );
    } catch (problem) {
      this.problems.replaceChildren(problemBox(problem));
    }
    this.#draw();
  }

  #draw(emptyText) {
    const { from, to } = this.range;
    this.plots.show(this.series, from, to, this.session.pipeline ?? {}, emptyText);
    this.strip.show(from, to, this.series.decisions, this.series.decisions.length < MOST_MARKS_EXPLAINED);
    this.range.write();
  }

  /** Take in an event; it is drawn with the next tick. */
  onEvent(kind, data) {
    if (!this.plots || !this.range.isLive) return;
    if (kind === "observation" && data.operator === this.name) this.series.append(data);
    else if (kind === "decision" && data.decision.operator === this.name) this.series.decide(data.decision);
    if (this.series.isFull) this.#load();
  }

  /** Once a second: ages, and the axis of a live plot, go on without events too. */
  tick() {
    this.show();
    if (this.plots && this.range.isLive && this.session.pipeline && goesOn(this.session.pipeline)) this.#draw();
  }

  /** The decisions behind marks, with reason and evidence; the series has only their heads. */
  async #explained(members) {
    const newest = Math.max(...members.map((one) => one.at));
    const wanted = new Set(members.map((one) => one.decision_id));
    const answer = await get(["pipelines", this.session.name, "decisions"], {
      operator: this.name,
      before: newest + 0.001,
      limit: Math.min(500, members.length + 20),
      changes_only: true,
    });
    return answer.decisions.filter((one) => wanted.has(one.decision_id));
  }
}
