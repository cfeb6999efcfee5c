// SPDX-License-Identifier: Apache-2.0
// The strip above the plots in which each change of size is a button that opens its explanation. One Tab reaches the
// strip; arrow keys go from decision to decision.

import { html, setText } from "./elements.js";
import { directionOf, explanation, foldedExplanation, headline, signOf } from "./explanation.js";
import { problemBox } from "./problem_box.js";
import { clockText, countText } from "./wording.js";

const CLOSEST_PIXELS = 24;

/** Decisions over time. */
export class DecisionStrip {
  /** explain(members): gives the decisions of a mark in full. */
  constructor(explain) {
    this.explain = explain;
    this.strip = html("div", {
      class: "strip",
      role: "group",
      "aria-label": "Decisions in this time; arrow keys go from one to the next",
    });
    this.text = html("p", { class: "small" });
    this.opened = html("section", {
      class: "box explanation",
      "aria-label": "The decision explained",
      tabindex: "-1",
      hidden: true,
    });
    this.element = html(
      "section",
      { class: "strip-box", "aria-label": "Decisions over time" },
      this.strip,
      this.text,
      this.opened,
    );
    this.current = null; // the decision_id that is open
    this.strip.addEventListener("keydown", (event) => this.#move(event));
    this.opened.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.#close();
    });
    new ResizeObserver(() => this.#draw()).observe(this.strip);
    this.shown = { from: 0, to: 1, decisions: [] };
  }

  /** Show the changes among `decisions` from one instant to another; what is open stays open. */
  show(from, to, decisions, isWhole) {
    this.shown = { from, to, isWhole, decisions: decisions.filter((one) => one.at >= from && one.at <= to) };
    this.#draw();
  }

  #groups() {
    // Decisions closer than a finger become one button, which opens all of them.
    const { from, to, decisions } = this.shown;
    const width = this.strip.clientWidth || 600;
    const groups = [];
    for (const decision of [...decisions].sort((a, b) => a.at - b.at)) {
      const x = ((decision.at - from) / (to - from || 1)) * width;
      const last = groups.at(-1);
      if (last && x - last.x < CLOSEST_PIXELS) last.members.push(decision);
      else groups.push({ x, members: [decision] });
    }
    return groups;
  }

  #makeButtons(groups) {
    const focused = this.strip.contains(document.activeElement) ? document.activeElement.dataset.first : null;
    const buttons = groups.map(({ members }) => {
      const [first] = members;
      const isOpen = members.some((one) => one.decision_id === this.current);
      const node = html(
        "button",
        {
          type: "button",
          tabindex: "-1",
          class: members.length === 1 ? directionOf(first) : "",
          "aria-expanded": String(isOpen),
          "data-first": first.decision_id,
          "aria-label":
            members.length === 1
              ? `${clockText(first.at)}: ${headline(first)}`
              : `${countText(members.length, "decision")} from ${clockText(first.at)}`,
          title: members.length === 1 ? headline(first) : countText(members.length, "decision"),
        },
        members.length === 1 ? signOf(first) : String(members.length),
      );
      node.addEventListener("click", () => this.#toggle(members));
      return node;
    });
    this.strip.replaceChildren(...buttons);
    const reached = buttons.find((node) => node.dataset.first === focused) ?? buttons.at(-1);
    if (reached) reached.tabIndex = 0;
    if (focused && reached) reached.focus();
  }

  #draw() {
    const groups = this.#groups();
    const made = JSON.stringify([this.current, groups.map(({ members }) => members.map((one) => one.decision_id))]);
    if (made !== this.made) this.#makeButtons(groups);
    this.made = made; // otherwise they only move on: a button that is made anew would be read out again
    groups.forEach(({ x }, index) => (this.strip.children[index].style.left = `${x}px`));
    const { from, to, decisions, isWhole } = this.shown;
    const span = `from ${clockText(from)} to ${clockText(to)}`;
    const more = isWhole === false ? ", the newest of more" : "";
    setText(
      this.text,
      decisions.length === 0
        ? `No change of size ${span}.`
        : `${countText(decisions.length, "change")} of size ${span}${more}. ▲ more, ▼ less, ◆ other; press one to see why.`,
    );
  }

  #toggle(members) {
    if (members.some((one) => one.decision_id === this.current)) this.#close();
    else this.open(members);
  }

  /** Explain decisions, newest first. */
  async open(members) {
    this.current = members[0].decision_id;
    this.opened.replaceChildren(html("p", { class: "muted" }, "Loading…"));
    this.opened.hidden = false;
    this.#draw();
    let parts;
    try {
      const whole = await this.explain(members);
      parts = whole.length
        ? whole.map(whole.length === 1 ? explanation : foldedExplanation)
        : [html("p", null, "The service no longer has this decision.")];
    } catch (problem) {
      parts = [problemBox(problem)];
    }
    if (this.current !== members[0].decision_id) return;
    this.opened.replaceChildren(
      ...parts,
      html(
        "button",
        {
          type: "button",
          onclick: () => this.#close(),
        },
        "Close",
      ),
    );
    this.opened.focus({ preventScroll: true });
    this.opened.scrollIntoView({ block: "nearest" });
  }

  #close() {
    if (this.current === null) return;
    const id = this.current;
    this.current = null;
    this.opened.hidden = true;
    this.#draw();
    [...this.strip.children].find((node) => node.dataset.first === id)?.focus();
  }

  #move(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
    if (event.key === "Escape") this.#close();
    const nodes = [...this.strip.children];
    const now = nodes.indexOf(document.activeElement);
    if (step === undefined || now < 0) return;
    event.preventDefault();
    const next = nodes[Math.min(nodes.length - 1, Math.max(0, now + step))];
    for (const node of nodes) node.tabIndex = node === next ? 0 : -1;
    next.focus();
  }
}
