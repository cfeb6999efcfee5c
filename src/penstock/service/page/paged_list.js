// SPDX-License-Identifier: Apache-2.0
// A list that the service gives in pages, newest first: "more" reads the next page, and new entries come on top.

import { get } from "./api.js";
import { button, html } from "./elements.js";
import { problemBox } from "./problem_box.js";

const PAGE = 50;

/** Decisions, or entries of the audit. */
export class PagedList {
  /** parts: where they are; key: their name in the answer; query(): what is asked for; row(entry): an element; id: the name of its id. */
  constructor({ parts, key, id, query, row, emptyText }) {
    Object.assign(this, { parts, key, id, query, emptyText });
    this.row = (entry) => {
      const made = row(entry);
      made.dataset.id = entry[id];
      return made;
    };
    this.before = null;
    this.list = html("ol", { class: "entries" });
    this.message = html("div", { role: "status" });
    this.moreButton = button("Show older ones", () => this.more());
    this.element = html("div", null, this.list, this.message, this.moreButton);
  }

  /** Begin again with the newest. */
  async restart() {
    this.before = null;
    await this.#read(true);
  }

  /** Add the next page. */
  async more() {
    await this.#read(false);
  }

  /** Put a new entry on top. */
  prepend(entry) {
    if ([...this.list.children].some((node) => node.dataset.id === entry[this.id])) return;
    this.list.prepend(this.row(entry));
    this.message.replaceChildren();
  }

  async #read(isFirst) {
    const asked = (this.asked = Symbol("asked"));
    try {
      const answer = await get(this.parts, { ...this.query(), before: this.before, limit: PAGE });
      if (asked !== this.asked) return; // another question was asked meanwhile
      const rows = answer[this.key].map(this.row);
      if (isFirst) this.list.replaceChildren(...rows);
      else this.list.append(...rows);
      this.before = answer.next_before;
      this.moreButton.hidden = this.before === null;
      this.message.replaceChildren(
        ...(this.list.children.length ? [] : [html("p", { class: "muted" }, this.emptyText)]),
      );
    } catch (problem) {
      this.message.replaceChildren(problemBox(problem));
    }
  }
}
