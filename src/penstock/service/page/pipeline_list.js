// SPDX-License-Identifier: Apache-2.0
// All pipelines, with one sentence about each.

import { AgentList } from "./agent_list.js";
import { html, table } from "./elements.js";
import { addresses } from "./facts.js";
import { clockText, countText } from "./wording.js";

const FEWEST_TO_FILTER = 8;
const TICKS_BETWEEN_READS = 10;
const TICKS_BETWEEN_AGENTS = 3;

/** The list of pipelines. */
export class PipelineList {
  constructor(session) {
    this.session = session;
    this.title = "Pipelines";
    this.filter = html("input", { type: "search", size: "24" });
    this.filter.addEventListener("input", () => this.show());
    this.filterTools = html("div", { class: "tools" }, html("label", null, "Show names with", this.filter));
    this.body = html("div");
    this.agents = new AgentList(session);
    this.element = html(
      "div",
      null,
      html("h1", null, "Pipelines"),
      this.filterTools,
      this.body,
      this.agents.element,
    );
    this.agents.read();
  }

  /** Once a second: its sentences are read again now and then. */
  tick() {
    this.ticks = (this.ticks ?? 0) + 1;
    if (this.ticks % TICKS_BETWEEN_READS === 0) this.session.readList();
    if (this.ticks % TICKS_BETWEEN_AGENTS === 0) this.agents.read();
  }

  /** Bring it up to date. */
  show() {
    const all = this.session.pipelines;
    this.filterTools.hidden = !all || all.length < FEWEST_TO_FILTER;
    if (!all) return;
    if (!all.length) {
      this.body.replaceChildren(html("p", { class: "notice" }, whyEmpty(this.session)));
      return;
    }
    const wanted = this.filter.value.trim().toLowerCase();
    const shown = all.filter((one) => one.name.toLowerCase().includes(wanted));
    this.body.replaceChildren(
      html(
        "p",
        { class: "small" },
        shown.length === all.length
          ? countText(all.length, "pipeline")
          : `${shown.length} of ${countText(all.length, "pipeline")}`,
      ),
      table(
        "Pipelines",
        ["Name", "State", "Policy", "Operators", "Why"],
        shown.map((one) => [
          html("a", { href: addresses.pipeline(one.name) }, one.name),
          stateText(one),
          one.policy,
          String(one.operators.length),
          one.why,
        ]),
      ),
    );
  }
}

function whyEmpty({ isLeading, trouble }) {
  if (isLeading !== false) return "There is no pipeline yet. One appears here when a run starts, or a query is attached.";
  return trouble === null
    ? "This master does not lead, so it shows no pipeline. They appear here when it takes over."
    : `This master cannot lead: ${trouble}. Queries go on, and are not scaled from here until its store is mended.`;
}

function stateText(one) {
  if (one.is_followed && one.ended_at === null) return "running in another process";
  if (!one.is_live) return `stored, from ${clockText(one.started_at, true)}`;
  if (one.ended_at !== null) return `ended at ${clockText(one.ended_at)}`;
  return one.is_steered
    ? "running, steered by hand"
    : one.mode === "recommend"
      ? "running, recommends only"
      : "running";
}
