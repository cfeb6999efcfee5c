// SPDX-License-Identifier: Apache-2.0
// Who ordered what, when and why, newest first.

import { html } from "./elements.js";
import { PagedList } from "./paged_list.js";
import { clockText } from "./wording.js";

/** The view of the audit. */
export class AuditView {
  constructor(session) {
    this.list = new PagedList({
      parts: ["pipelines", session.name, "audit"],
      key: "entries",
      id: "audit_id",
      emptyText: "Nobody has ordered anything yet.",
      query: () => ({}),
      row: auditEntry,
    });
    this.element = html(
      "section",
      { "aria-label": "Audit" },
      html("h2", { class: "unseen" }, "Audit"),
      html("p", { class: "muted" }, "Every order is written down before it is in force."),
      this.list.element,
    );
    this.list.restart();
  }

  /** It changes with events alone. */
  show() {}

  onEvent(kind, { entry }) {
    if (kind === "audit") this.list.prepend(entry);
  }
}

function auditEntry(entry) {
  const details = html(
    "details",
    { class: "entry" },
    html("summary", null, html("span", { class: "muted" }, `${clockText(entry.at)} `), entry.text),
  );
  details.addEventListener("toggle", () => {
    if (!details.open || details.children.length > 1) return;
    const shown = (value) => html("pre", { tabindex: "0" }, JSON.stringify(value, null, 2));
    details.append(
      html(
        "div",
        { class: "before-after" },
        html("div", null, html("h3", null, "Before"), shown(entry.before)),
        html("div", null, html("h3", null, "After"), shown(entry.after)),
      ),
    );
  });
  return html("li", null, details);
}
