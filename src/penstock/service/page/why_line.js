// SPDX-License-Identifier: Apache-2.0
// The sentence that says why nothing, or something, happens. Its figures change every few seconds: what is read out is
// only a sentence that says something else than before.

import { html, setAttribute, setText } from "./elements.js";

/** A sentence, seen and heard. */
export class WhyLine {
  #heard = null;

  constructor() {
    this.seen = html("p", { class: "why" }, "Loading…");
    this.live = html("p", { class: "unseen", "aria-live": "polite" });
    this.element = html("div", { role: "group", "aria-label": "Why" }, this.seen, this.live);
  }

  /** state: a class of the style sheet, or "". */
  show(text, state) {
    setText(this.seen, text);
    setAttribute(this.seen, "class", `why ${state}`);
    const meaning = text.replace(/[\d.,]+/g, "0");
    if (this.#heard !== null && meaning !== this.#heard) setText(this.live, text); // the first is read with the page
    this.#heard = meaning;
  }
}
