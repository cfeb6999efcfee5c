// SPDX-License-Identifier: Apache-2.0
// All decisions of a pipeline, newest first; each opens its explanation.

import { html } from "./elements.js";
import { foldedExplanation } from "./explanation.js";
import { PagedList } from "./paged_list.js";

/** The view of decisions. */
export class DecisionsView {
  constructor(session) {
    this.session = session;
    this.operator = html("select", null, html("option", { value: "" }, "all operators"));
    this.withHolds = html("input", { type: "checkbox" });
    this.list = new PagedList({
      parts: ["pipelines", session.name, "decisions"],
      key: "decisions",
      id: "decision_id",
      emptyText: "Nothing has been decided yet.",
      query: () => ({ operator: this.operator.value, changes_only: this.withHolds.checked ? "" : true }),
      row: (decision) => html("li", null, foldedExplanation(decision)),
    });
    for (const field of [this.operator, this.withHolds]) field.addEventListener("change", () => this.list.restart());
    this.element = html(
      "section",
      { "aria-label": "Decisions" },
      html("h2", { class: "unseen" }, "Decisions"),
      html(
        "div",
        { class: "tools" },
        html("label", null, "Decisions about", this.operator),
        html("label", null, this.withHolds, "also where everything stays as it is"),
      ),
      this.list.element,
    );
    this.list.restart();
  }

  /** Bring it up to date. */
  show() {
    const { pipeline } = this.session;
    if (!pipeline || this.operator.options.length > 1) return;
    this.operator.append(...pipeline.operators.map(({ name }) => html("option", { value: name }, name)));
  }

  /** A new decision comes on top. */
  onEvent(kind, { decision }) {
    if (kind !== "decision" || (this.operator.value && this.operator.value !== decision.operator)) return;
    if (decision.is_change || this.withHolds.checked) this.list.prepend(decision);
  }
}
