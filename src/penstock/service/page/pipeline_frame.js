// SPDX-License-Identifier: Apache-2.0
// What stands above every view of a pipeline: its name, how it stands, why nothing or something happens, the orders for
// the whole of it, and the way to its views.

import { html, setAttribute } from "./elements.js";
import { addresses, goesOn, readOnlyReason } from "./facts.js";
import { OrderPanel } from "./order_panel.js";
import { problemBox } from "./problem_box.js";
import { WhyLine } from "./why_line.js";
import { clockText, secondsText, UNKNOWN } from "./wording.js";

const VIEWS = [
  ["", "Overview"],
  ["decisions", "Decisions"],
  ["policy", "Policy"],
  ["audit", "Audit"],
  ["backtest", "Backtest"],
];

/** The frame of one pipeline, around a view. */
export class PipelineFrame {
  constructor(session, name, say) {
    Object.assign(this, { session, name, say });
    this.facts = html("ul", { class: "facts" });
    this.why = new WhyLine();
    this.quick = html("div");
    this.orders = html("div");
    this.problems = html("div");
    this.links = VIEWS.map(([view, label]) =>
      html("a", { href: view ? addresses.view(name, view) : addresses.pipeline(name) }, label),
    );
    this.heading = html("h1", { tabindex: "-1" }, name);
    this.place = html("div");
    this.element = html(
      "div",
      null,
      html("div", { class: "heading" }, this.heading, this.quick),
      this.facts,
      this.why.element,
      this.problems,
      this.orders,
      html("nav", { class: "views", "aria-label": "Views of this pipeline" }, this.links),
      this.place,
    );
  }

  /** Put a view below; `part` is the first part of its address. */
  hold(view, part) {
    this.view = view;
    const current = part === "operators" ? "" : part;
    this.links.forEach((link, index) =>
      setAttribute(link, "aria-current", VIEWS[index][0] === current ? (part === "operators" ? "true" : "page") : null),
    );
    this.place.replaceChildren(view.element);
    for (const node of [this.orders, this.quick, this.why.element]) node.hidden = part === "operators"; // it has its own
    this.show();
  }

  /** Bring it up to date. */
  show() {
    const { pipeline, problem, role } = this.session;
    this.#showProblem(problem, pipeline);
    this.place.hidden = !pipeline; // an empty drawing would look like a pipeline without operators
    if (!pipeline) {
      if (problem) this.why.show("Nothing is known about this pipeline yet.", "");
      return;
    }
    this.why.show(pipeline.why, pipeline.paths.some((path) => path.is_met === false) ? "bad" : "");
    this.#showFacts(pipeline);
    const reason = readOnlyReason(pipeline, role);
    if (reason !== this.reason || !this.begun) this.#offer(pipeline, reason);
    this.panel?.show(pipeline, null);
    this.view?.show();
  }

  #offer(pipeline, reason) {
    this.begun = true;
    this.reason = reason;
    this.panel = reason === null ? new OrderPanel(pipeline, null, () => this.session.read(), this.say) : null;
    this.quick.replaceChildren(...(this.panel ? [this.panel.quick] : []));
    this.orders.replaceChildren(
      ...(this.panel ? [this.panel.message, this.panel.more] : [html("p", { class: "small read-only" }, reason)]),
    );
  }

  #showFacts(pipeline) {
    const ran = pipeline.started_at === null ? null : (pipeline.ended_at ?? this.session.now()) - pipeline.started_at;
    const entries = [
      ["Policy", pipeline.policy.name],
      ["Mode", pipeline.mode === "act" ? "act: decisions are carried out" : "recommend: decisions are only reported"],
      ["Started", clockText(pipeline.started_at, !goesOn(pipeline))],
      goesOn(pipeline)
        ? ["Running for", ran === null ? UNKNOWN : secondsText(Math.floor(ran / 60) * 60 || Math.floor(ran))]
        : ["Ended", clockText(pipeline.ended_at, true)],
      pipeline.phase && pipeline.is_live
        ? [
            "Phase",
            pipeline.progress === null ? pipeline.phase : `${pipeline.phase}, ${Math.round(pipeline.progress * 100)} %`,
          ]
        : null,
    ].filter(Boolean);
    const text = JSON.stringify(entries);
    if (text !== this.factsShown)
      this.facts.replaceChildren(
        ...entries.map(([name, value]) => html("li", null, `${name}: `, html("b", null, value))),
      );
    this.factsShown = text;
  }

  #showProblem(problem, pipeline) {
    const key = problem ? `${problem.status} ${problem.message}` : "";
    if (key === this.problemShown) return;
    this.problemShown = key;
    // Where old data are on the page and the service is merely away, the line at the top of the page says so.
    const isSaidElsewhere = problem?.isPassing && pipeline;
    this.problems.replaceChildren(...(problem && !isSaidElsewhere ? [problemBox(problem)] : []));
  }
}
