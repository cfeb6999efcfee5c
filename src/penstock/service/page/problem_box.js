// SPDX-License-Identifier: Apache-2.0
// What went wrong, and what to do about it.

import { html } from "./elements.js";

const FIXES = {
  401: "Open the page with the address that was printed at the start: it has the token in it.",
  403: "Open the page with the token of the role operate.",
};

/** A problem as a box; it is read out at once. */
export function problemBox(problem) {
  const { errors } = problem.body ?? {};
  const fix = problem.fix || FIXES[problem.status] || "";
  const mistakes = (errors ?? []).filter((text) => text !== problem.message);
  return html(
    "div",
    { class: "notice bad", role: "alert" },
    html("p", null, problem.message),
    mistakes.length
      ? html(
          "ul",
          { class: "plain" },
          mistakes.map((text) => html("li", null, text)),
        )
      : null,
    fix ? html("p", { class: "fix" }, html("b", null, "What to do: "), fix) : null,
  );
}
