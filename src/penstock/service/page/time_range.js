// SPDX-License-Identifier: Apache-2.0
// Which time the plots show: the last minutes, moving on (live), or a piece of the past that stands still.

import { button, html, setAttribute, setText } from "./elements.js";
import { clockText, secondsText } from "./wording.js";

const SPANS = [300, 1800, 7200, 21600, 86400];
const FIRST_SPAN = 1800;
const SHORTEST_SPAN = 10;
const LONGEST_SPAN = 31 * 86400;

/** The choice of a time range, with its controls. */
export class TimeRange {
  /** now(): the service's clock in seconds; onChange(): the range is another one. */
  constructor(now, onChange) {
    this.now = now;
    this.onChange = onChange;
    this.span = FIRST_SPAN;
    this.end = null; // null: live
    this.moves = true; // false: nothing new comes
    this.spanButtons = SPANS.map((span) =>
      button(secondsText(span), () => this.#set(span, this.end), { "aria-label": `Show ${secondsText(span)}` }),
    );
    this.liveButton = button("Live", () => this.goLive());
    this.text = html("span", { class: "small" });
    this.field = html("input", { type: "datetime-local", step: "1", "aria-label": "Show the time up to" });
    this.field.addEventListener("change", () => {
      const chosen = new Date(this.field.value).getTime() / 1000;
      if (Number.isFinite(chosen)) this.#set(this.span, chosen);
    });
    this.element = html(
      "div",
      { class: "tools range", role: "group", "aria-label": "Time shown in the plots" },
      button("◀", () => this.#set(this.span, this.to - this.span / 2), { "aria-label": "Earlier" }),
      button("▶", () => this.#set(this.span, this.to + this.span / 2), { "aria-label": "Later" }),
      button("−", () => this.#set(this.span * 2, this.end === null ? null : this.end + this.span / 2), {
        "aria-label": "Show twice the time",
      }),
      button("+", () => this.#set(this.span / 2, this.end === null ? null : this.end - this.span / 4), {
        "aria-label": "Show half the time",
      }),
      ...this.spanButtons,
      this.liveButton,
      html("label", null, "up to", this.field),
      this.text,
    );
    this.write();
  }

  /** Begin with what fits the run: its last minutes where it goes on, all of it where it has ended. */
  begin(startedAt, moves) {
    this.moves = moves;
    const age = startedAt === null ? FIRST_SPAN : this.now() - startedAt;
    setText(this.liveButton, moves ? "Live" : "Newest");
    this.#set(moves ? SPANS.find((span) => span >= Math.min(age, FIRST_SPAN)) : Math.max(60, age * 1.02), null);
  }

  /** Whether the newest data are shown as they come. */
  get isLive() {
    return this.end === null && this.moves;
  }

  get to() {
    return this.end ?? this.now();
  }

  get from() {
    return this.to - this.span;
  }

  /** Show the newest data again. */
  goLive() {
    this.#set(Math.min(this.span, SPANS.at(-1)), null);
  }

  /** Show exactly this piece of time. */
  choose(from, to) {
    this.#set(to - from, to);
  }

  #set(span, end) {
    this.span = Math.min(LONGEST_SPAN, Math.max(SHORTEST_SPAN, span));
    this.end = end !== null && end >= this.now() ? null : end; // the future has no data: that is live
    this.write();
    this.onChange();
  }

  /** Bring the controls up to date. */
  write() {
    this.spanButtons.forEach((node, index) => setAttribute(node, "aria-pressed", SPANS[index] === this.span));
    setAttribute(this.liveButton, "aria-pressed", this.end === null);
    setText(
      this.text,
      this.isLive ? `Live: the last ${secondsText(this.span)}` : `${clockText(this.from)} to ${clockText(this.to)}`,
    );
    if (document.activeElement !== this.field) this.field.value = this.isLive ? "" : localText(this.to);
  }
}

function localText(at) {
  const when = new Date(at * 1000);
  return new Date(at * 1000 - when.getTimezoneOffset() * 60000).toISOString().slice(0, 19);
}
