// SPDX-License-Identifier: Apache-2.0
// A decision as people read it: what, why, what it was based on, what was not taken, what became of it.

import { html, table } from "./elements.js";
import { clockText, numberText, secondsText, sizeText } from "./wording.js";

/** "up" where the operator gets more, "down" where less, "" otherwise. */
export function directionOf(decision) {
  if (!decision.current)
    return (
      {
        "scale out": "up",
        "scale up": "up",
        "restart larger": "up",
        "scale in": "down",
        "scale down": "down",
        "restart smaller": "down",
      }[decision.verb] ?? ""
    );
  return Math.sign(decision.target.capacity - decision.current.capacity) === 0
    ? ""
    : decision.target.capacity > decision.current.capacity
      ? "up"
      : "down";
}

/** The sign of a decision in the strip above the plots. */
export function signOf(decision) {
  return { up: "▲", down: "▼", "": decision.verb === "hold" ? "○" : "◆" }[directionOf(decision)];
}

/** A decision in one line. */
export function headline(decision) {
  if (decision.verb === "hold") return `hold at ${sizeText(decision.current ?? decision.target)}`;
  const change = decision.current
    ? `${sizeText(decision.current)} → ${sizeText(decision.target)}`
    : `to ${sizeText(decision.target)}`;
  return `${decision.verb}: ${change}`;
}

function evidenceValue(name, value) {
  if (typeof value !== "number") return value === null ? "not known" : String(value);
  return name.endsWith("_seconds") ? secondsText(value) : numberText(value);
}

function plainName(name) {
  return name.replaceAll("_", " ");
}

/** What was measured under earlier plans, beside what they predicted; empty where none was judged. */
function judgedText(evidence) {
  const { predictions_judged: judged, prediction_coverage: coverage } = evidence;
  if (!judged || typeof coverage !== "number") return "";
  const within = `Of ${judged} plans so far, ${Math.round(judged * coverage)} were measured within their upper end (${numberText(coverage * 100)} %)`;
  const [predicted, low, high, measured] = ["predicted", "low", "high", "measured"].map(
    (part) => evidence[`last_${part}_seconds`],
  );
  if (typeof measured !== "number") return `${within}.`;
  return `${within}; the last predicted ${secondsText(predicted)} (${secondsText(low)} to ${secondsText(high)}), measured ${secondsText(measured)}.`;
}

/** The whole explanation as an element, headed by what was decided. */
export function explanation(decision) {
  const heading = html("h3", null, `${clockText(decision.at)}, ${decision.operator}: ${headline(decision)}`);
  return html("div", { class: "explanation-text" }, heading, groundsOf(decision));
}

/** Why it was decided, what it was based on, and what became of it. */
function groundsOf(decision) {
  const evidence = Object.entries(decision.evidence ?? {}).filter(([, value]) => value !== null);
  const parts = [
    html(
      "p",
      null,
      "Because ",
      html("b", null, decision.reason),
      decision.policy ? ` (policy ${decision.policy})` : "",
    ),
  ];
  if (decision.is_recommended_only && decision.verb !== "hold")
    parts.push(html("p", { class: "near" }, "Recommended only: it was not carried out."));
  if (decision.outcome) {
    const { status, after_seconds: after, detail } = decision.outcome;
    parts.push(
      html(
        "p",
        null,
        `What became of it: ${status}${after === null || after === undefined ? "" : ` after ${secondsText(after)}`}${detail ? `; ${detail}` : ""}.`,
      ),
    );
  }
  if (decision.prediction) {
    const { seconds, low_seconds: low, high_seconds: high, confidence, bound_seconds: bound, path } = decision.prediction;
    const predicted = seconds === null ? "without bound, because it could not keep up" : secondsText(seconds);
    const expected =
      typeof low === "number" && typeof high === "number"
        ? `; by earlier errors ${secondsText(low)} to ${secondsText(high)} (confidence ${numberText(confidence * 100)} %)`
        : "";
    parts.push(
      html(
        "p",
        null,
        `Predicted latency along ${path.join(" → ")}: ${predicted}${expected}; the objective allows ${secondsText(bound)}.`,
      ),
    );
  }
  const judged = judgedText(decision.evidence ?? {});
  if (judged) parts.push(html("p", null, judged));
  if (decision.workload) {
    const { arrivals_per_second: rate, growth } = decision.workload;
    parts.push(
      html(
        "p",
        null,
        `Expected arrivals: ${numberText(rate)} records/s${growth > 1 ? `, raised by ${numberText((growth - 1) * 100)} % because they rise` : ""}.`,
      ),
    );
  }
  if (decision.amended_by?.length) {
    parts.push(
      html("h3", null, "Changed by guards"),
      html(
        "ul",
        { class: "plain" },
        decision.amended_by.map((change) =>
          html(
            "li",
            null,
            `${change.guard}: ${sizeText(change.before)} → ${sizeText(change.after)}, because ${change.reason}`,
          ),
        ),
      ),
    );
  }
  if (evidence.length) {
    parts.push(
      html("h3", null, "What it was based on"),
      html(
        "dl",
        { class: "evidence" },
        evidence.flatMap(([name, value]) => [
          html("dt", null, plainName(name)),
          html("dd", null, evidenceValue(name, value)),
        ]),
      ),
    );
  }
  if (decision.rejected?.length) {
    parts.push(
      html("h3", null, "Considered and not taken"),
      table(
        "Considered and not taken",
        ["Size", "Why not"],
        decision.rejected.map(({ size, reason }) => [sizeText(size), reason]),
      ),
    );
  }
  return html("div", null, parts);
}

/** A decision in one line, which opens its explanation. */
export function foldedExplanation(decision) {
  const entry = html(
    "details",
    { class: "entry" },
    html(
      "summary",
      null,
      html("span", { class: "sign", "aria-hidden": "true" }, signOf(decision)),
      ` ${clockText(decision.at)} `,
      html("b", null, decision.operator),
      `: ${headline(decision)}`,
      html("span", { class: "muted" }, ` because ${decision.reason}`),
      decision.is_recommended_only && decision.is_change
        ? html("span", { class: "word near" }, "recommended only")
        : null,
      decision.outcome
        ? html("span", { class: `word ${decision.outcome.status === "failed" ? "bad" : ""}` }, decision.outcome.status)
        : null,
    ),
  );
  entry.addEventListener("toggle", () => {
    if (entry.open && entry.children.length === 1)
      entry.append(html("div", { class: "explanation-text" }, groundsOf(decision)));
  });
  return entry;
}
