// SPDX-License-Identifier: Apache-2.0
// The agents of a master: who leads, who is connected, and the newest of what they report.

import { get } from "./api.js";
import { html, table } from "./elements.js";
import { countText, valueText } from "./wording.js";

const MOST_SHOWN = 200;
const OLD_SECONDS = 30;

/** What a master's agents say; empty where the service is no master. */
export class AgentList {
  constructor(session) {
    this.session = session;
    this.body = html("div");
    this.element = html("section", { hidden: true }, html("h2", null, "Agents"), this.body);
  }

  /** Read it again. */
  async read() {
    this.element.hidden = !this.session.hasAgents;
    if (this.element.hidden) return;
    try {
      this.#show(await get(["agents"]));
    } catch (problem) {
      this.body.replaceChildren(html("p", { class: "notice" }, problem.message));
    }
  }

  #show({ agents, leader, is_leading: isLeading, fence, away, refused, other_page: otherPage }) {
    const there = otherPage === null ? "" : ` Its page is ${otherPage}.`;
    const leads = isLeading
      ? `This master leads, with fencing number ${fence}.${otherPage === null ? "" : ` ${otherPage} would take over.`}`
      : leader === null
        ? "No master leads at the moment."
        : `This master does not lead; ${leader} does.${there}`;
    const lines = [leads, `${countText(agents.length, "agent")} connected.`];
    if (away.length) lines.push(`Not connected: ${away.join(", ")}.`);
    for (const [name, why] of Object.entries(refused)) lines.push(`${name} was refused: ${why}`);
    this.body.replaceChildren(
      ...lines.map((line) => html("p", { class: "small" }, line)),
      agents.length
        ? table(
            "Agents",
            ["Name", "Host", "CPU shares", "Reports", "Dropped", "Newest"],
            agents
              .slice(0, MOST_SHOWN)
              .map((one) => [
                one.name,
                one.host,
                sharesText(one.shares),
                String(one.reports),
                String(one.dropped),
                newestText(one),
              ]),
          )
        : "",
    );
  }
}

/** What the agent of a host holds; of others, nothing. */
function sharesText(shares) {
  if (shares === null) return "";
  if (shares.why_not !== null) return `holds none: ${shares.why_not}`;
  const held = Object.entries(shares.held).filter(([, { executors, faults }]) => executors.length || faults.length);
  if (!held.length) return "can hold executors";
  return held
    .map(([application, { executors, quota_cores: quota, faults }]) => {
      const cap = quota === null ? "no cap" : valueText(quota, "cores");
      return `${application}: ${[`executors ${executors.join(", ") || "none"}`, cap, ...faults].join("; ")}`;
    })
    .join(". ");
}

function newestText({ metrics, offers }) {
  const units = new Map(offers.map((offer) => [offer.name, offer.unit]));
  return Object.entries(metrics)
    .map(([name, { value, age_seconds: age }]) => {
      const unit = units.get(name) ?? "";
      const text = value === null ? "not known" : valueText(value, unit);
      return `${name}: ${text}${age > OLD_SECONDS ? ` (${Math.round(age)} s old)` : ""}`;
    })
    .join(", ");
}
