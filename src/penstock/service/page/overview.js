// SPDX-License-Identifier: Apache-2.0
// A pipeline at a glance: its drawing, its paths against their objectives, and every operator in a table.

import { html, setAttribute, setText, table } from "./elements.js";
import { addresses, conditionOf, drawingOf, latencyOf, orderText } from "./facts.js";
import { Graph } from "./graph.js";
import { clockText, countText, secondsText, sizeText, valueText } from "./wording.js";

const FEWEST_TO_FILTER = 12;
const WORST_FIRST = { bad: 0, near: 1, unknown: 2, good: 3 };
const COLUMNS = ["Operator", "State", "Arrivals", "Backlog", "Latency", "Load", "Size observed", "Size planned", "Why"];

const KINDS = { State: "state-words", Why: "words" }; // of columns that are wrapped

/** The overview of one pipeline. */
export class Overview {
  constructor(session) {
    this.session = session;
    this.graph = new Graph();
    this.paths = html("div");
    this.cost = html("p", { class: "small cost", hidden: "" });
    this.count = html("p", { class: "small" });
    this.filter = html("input", { type: "search", size: "20" });
    this.filter.addEventListener("input", () => this.#fillTable());
    this.worstFirst = html("input", { type: "checkbox" });
    this.worstFirst.addEventListener("change", () => this.#fillTable());
    this.filterTools = html(
      "div",
      { class: "tools" },
      html("label", null, "Show names with", this.filter),
      html("label", null, this.worstFirst, "Worst first"),
    );
    this.body = html("tbody");
    this.rows = new Map();
    this.notes = html("section", { "aria-label": "Notes" });
    const heading = html("h2", { tabindex: "-1" }, "Operators");
    const skip = html(
      "button",
      { type: "button", class: "skip-drawing", onclick: () => heading.focus() },
      "Skip the drawing: the table says the same",
    );
    this.element = html(
      "div",
      null,
      skip,
      this.graph.element,
      this.paths,
      this.cost,
      heading,
      this.filterTools,
      this.count,
      html(
        "div",
        { class: "scrolled box", tabindex: "0", role: "region", "aria-label": "Operators" },
        html(
          "table",
          null,
          html("caption", { class: "unseen" }, "Operators"),
          html(
            "thead",
            null,
            html(
              "tr",
              null,
              COLUMNS.map((name) => html("th", { scope: "col" }, name)),
            ),
          ),
          this.body,
        ),
      ),
      this.notes,
    );
  }

  /** Bring it up to date. */
  show() {
    const { pipeline } = this.session;
    if (!pipeline) return;
    const { nodes, edges } = drawingOf(pipeline, this.session.now());
    this.graph.show(nodes, edges);
    this.filterTools.hidden = pipeline.operators.length < FEWEST_TO_FILTER;
    this.#fillTable();
    this.#showPaths(pipeline);
    this.cost.hidden = !pipeline.cost; // without prices nothing is shown
    setText(this.cost, pipeline.cost ? `Cost so far: ${pipeline.cost.text}` : "");
    this.#showNotes(pipeline);
  }

  #showPaths(pipeline) {
    const text = JSON.stringify(pipeline.paths);
    if (text === this.pathsShown) return;
    this.pathsShown = text;
    this.paths.replaceChildren(
      html("h2", null, pipeline.paths.length === 1 ? "Objective" : "Objectives"),
      html(
        "div",
        { class: "box" },
        table(
          "Paths and their objectives",
          ["Path", "Objective", "Measured", ""],
          pipeline.paths
            .slice(0, 200)
            .map((path) => [
              path.operators.join(" → "),
              html("span", { class: "nowrap" }, path.objective.text),
              secondsText(path.latency_seconds),
              verdict(path.is_met),
            ]),
        ),
      ),
    );
  }

  #showNotes({ notes }) {
    const text = JSON.stringify(notes);
    if (text === this.notesShown) return;
    this.notesShown = text;
    this.notes.replaceChildren(
      ...(notes.length
        ? [
            html("h2", null, "Notes"),
            html(
              "ul",
              { class: "plain" },
              notes.map((note) =>
                html(
                  "li",
                  null,
                  html(
                    "span",
                    { class: "muted" },
                    `${clockText(note.last_at)} ${note.operator}${note.count > 1 ? `, ${note.count} times` : ""}: `,
                  ),
                  note.text,
                ),
              ),
            ),
          ]
        : []),
    );
  }

  #fillTable() {
    const { pipeline } = this.session;
    if (!pipeline) return;
    const now = this.session.now();
    const wanted = this.filter.value.trim().toLowerCase();
    const shown = pipeline.operators
      .filter((one) => one.name.toLowerCase().includes(wanted))
      .map((one) => [one, conditionOf(one, pipeline, now)]);
    if (this.worstFirst.checked) shown.sort(([, a], [, b]) => WORST_FIRST[a.state] - WORST_FIRST[b.state]);
    setText(
      this.count,
      shown.length === pipeline.operators.length
        ? countText(shown.length, "operator")
        : `${shown.length} of ${countText(pipeline.operators.length, "operator")}`,
    );
    const rows = shown.map(([operator, condition]) => this.#row(pipeline, operator, condition));
    // Rows are moved only where the order changed: a row that is moved loses the focus.
    if (rows.length !== this.body.children.length || rows.some((row, index) => this.body.children[index] !== row))
      this.body.replaceChildren(...rows);
  }

  #row(pipeline, operator, { state, words }) {
    if (!this.rows.has(operator.name)) {
      const made = html(
        "tr",
        null,
        COLUMNS.map((name) => html("td", { class: KINDS[name] ?? "nowrap" })),
      );
      made.firstChild.append(html("a", { href: addresses.operator(pipeline.name, operator.name) }, operator.name));
      this.rows.set(operator.name, made);
    }
    const row = this.rows.get(operator.name);
    setAttribute(row, "class", state);
    const { statistic, seconds } = latencyOf(operator);
    const order = orderText(operator);
    const texts = [
      order ? `${words}; ${order}` : words,
      valueText(operator.values.arrival_rate, "records/s"),
      valueText(operator.values.queue_length, ""),
      `${statistic} ${secondsText(seconds)}`,
      valueText(operator.values.cpu_utilisation ?? operator.values.busy, "fraction"),
      sizeText(operator.observed),
      sizeText(operator.planned),
      operator.why,
    ];
    texts.forEach((text, index) => setText(row.children[index + 1], text));
    return row;
  }
}

function verdict(isMet) {
  if (isMet === null) return html("span", { class: "word" }, "not known yet");
  return isMet ? html("span", { class: "word good" }, "✓ met") : html("span", { class: "word bad" }, "! not met");
}
