// SPDX-License-Identifier: Apache-2.0
// What went wrong, and what to do about it.

import { html, withCode } from "./elements.js";

const FIXES = {
  401: "Open the page with the address that was printed at the start: it has the token in it.",
  403: "Open the page with the token of the role operate.",
};

/** A problem as a box; it is read out at once. */
export function problemBox(problem) {
  const { errors } = problem.body ?? {};
  const fix = FIXES[problem.status] || problem.fix; // the service speaks to programs, which send headers
  const mistakes = (errors ?? []).filter((text) => text !== problem.message);
  return html(
    "div",
    { class: "notice bad", role: "alert" },
    html("p", null, withCode(problem.message)),
    mistakes.length
      ? html(
          "ul",
          { class: "plain" },
          mistakes.map((text) => html("li", null, withCode(text))),
        )
      : null,
    fix ? html("p", { class: "fix" }, html("b", null, "What to do: "), withCode(fix)) : null,
  );
}
