// SPDX-License-Identifier: Apache-2.0
// One plot over time, drawn as SVG: lines, steps, a band, a bound, decisions as vertical lines. SVG rather than a canvas
// because colours then come from the style sheet, and its text is text. The service thins series to some hundred points.

import { timeTicks, valueTicks } from "./axes.js";
import { html, newId, setAttribute, setAttributes, setText, svg, table } from "./elements.js";
import { areaPath, linePath, numberOrNull } from "./plot_paths.js";
import { clockText, valueText } from "./wording.js";

const MARGIN = { left: 70, right: 10, top: 8, bottom: 22 };
const HEIGHT = 170;
const FEWEST_PIXELS_CHOSEN = 6;
const COUNTED = ["executors", "records"]; // there is no half of them
const HALF_LABEL = 22; // of an axis, in pixels

/** The index of the last time at or before `at` in rising times; -1: there is none. */
export function indexAt(times, at) {
  let low = 0;
  let high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] <= at) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** A plot of one or more lines with one unit. */
export class Plot {
  /**
   * title, unit: texts. lines: [{key, label, kind}], `kind` is a class of the style sheet; `isStep` draws steps, and
   * `spread: [low, high]` are the keys of its extremes. band: {low, high, label} or null: two keys of a prediction. onChoose(from, to): the user chose a range. onPoint(at or null): the
   * pointer or the keyboard is at an instant, so that all plots can show it.
   */
  constructor({ title, unit, lines, band = null, onChoose, onPoint }) {
    Object.assign(this, { title, unit, lines, band, onChoose, onPoint });
    this.data = { from: 0, to: 1, times: [], values: {}, bound: null, marks: [] };
    this.pointAt = null;
    this.width = 600; // until it is measured: asking for it while drawing would lay the page out again each time
    const heading = newId("plot");
    this.legend = html("ul", { class: "legend" });
    this.readouts = new Map();
    for (const line of lines) this.#addReadout(line.key, line.label, `key ${line.kind}${line.isStep ? " step" : ""}`);
    if (band) this.#addReadout("band", band.label, "key band");
    this.boundEntry = this.#addReadout("bound", "bound", "key bound");
    this.svg = svg("svg", { class: "plot", height: HEIGHT, role: "img", tabindex: "0" });
    this.#drawOnce();
    this.empty = html("p", { class: "empty" });
    this.details = html("details", { class: "values" }, html("summary", null, "Values as a table"));
    this.details.addEventListener("toggle", () => this.#fillTable());
    this.element = html(
      "figure",
      { class: "plot-box", "aria-labelledby": heading },
      html("figcaption", null, html("h3", { id: heading }, title), this.legend),
      html("div", { class: "plot-area" }, this.svg, this.empty),
      this.details,
    );
    this.#listen();
    new ResizeObserver(([{ contentRect }]) => {
      if (contentRect.width === 0) return; // not on the page any more
      this.width = Math.max(200, contentRect.width);
      this.#draw();
    }).observe(this.svg);
  }

  #addReadout(key, label, kind) {
    const value = html("b");
    const entry = html("li", null, html("span", { class: kind, "aria-hidden": "true" }), `${label} `, value);
    this.legend.append(entry);
    this.readouts.set(key, value);
    return entry;
  }

  #drawOnce() {
    const clip = newId("clip");
    this.clip = svg("rect");
    this.grid = svg("g", { class: "grid" });
    this.markLayer = svg("g", { class: "marks" });
    this.bandPath = svg("path", { class: "band" });
    this.boundLine = svg("line", { class: "bound" });
    this.paths = new Map(this.lines.map((line) => [line.key, svg("path", { class: `line ${line.kind}` })]));
    this.spreads = new Map(
      this.lines.filter((line) => line.spread).map((line) => [line.key, svg("path", { class: `spread ${line.kind}` })]),
    );
    this.cursor = svg("line", { class: "cursor" });
    this.choice = svg("rect", { class: "choice" });
    this.svg.append(
      svg("defs", null, svg("clipPath", { id: clip }, this.clip)),
      this.grid,
      svg(
        "g",
        { "clip-path": `url(#${clip})` },
        this.bandPath,
        ...this.spreads.values(),
        this.markLayer,
        this.boundLine,
        ...this.paths.values(),
        this.cursor,
        this.choice,
      ),
    );
  }

  /**
   * Show data: {from, to, times, values: {key: [...]}, gapSeconds, bandGapSeconds, bound, marks: [{at}], emptyText}.
   * Values further apart than `gapSeconds` are not joined: a gap is not a line.
   */
  show(data) {
    this.data = {
      bound: null,
      marks: [],
      emptyText: "No data in this time.",
      gapSeconds: Infinity,
      bandGapSeconds: Infinity,
      ...data,
    };
    this.#draw();
    if (this.details.open) this.#fillTable();
  }

  /** Show the values at an instant in the legend, and a line there; null: the newest values. */
  pointTo(at) {
    this.pointAt = at;
    this.#drawCursor();
    this.#writeReadouts();
  }

  #x(at) {
    const { from, to } = this.data;
    return MARGIN.left + ((at - from) / (to - from || 1)) * (this.width - MARGIN.left - MARGIN.right);
  }

  #at(x) {
    const { from, to } = this.data;
    const part = (x - MARGIN.left) / (this.width - MARGIN.left - MARGIN.right);
    return from + Math.min(1, Math.max(0, part)) * (to - from);
  }

  #draw() {
    const bottom = HEIGHT - MARGIN.bottom;
    const ticks = valueTicks(this.#top(), { areWhole: COUNTED.includes(this.unit) });
    const y = (value) => bottom - (value / ticks.at(-1)) * (bottom - MARGIN.top);
    setAttribute(this.svg, "viewBox", `0 0 ${this.width} ${HEIGHT}`);
    setAttributes(this.clip, {
      x: MARGIN.left,
      y: 0,
      width: this.width - MARGIN.left - MARGIN.right,
      height: bottom + 1,
    });
    this.#drawAxes(ticks, y, bottom);
    this.#drawLines(y);
    this.#drawBound(y);
    this.markLayer.replaceChildren(
      ...this.data.marks.map(({ at }) => svg("line", { x1: this.#x(at), x2: this.#x(at), y1: 0, y2: bottom })),
    );
    const isEmpty = !this.lines.some(({ key }) =>
      (this.data.values[key] ?? []).some((value) => numberOrNull(value) !== null),
    );
    this.empty.hidden = !isEmpty;
    setText(this.empty, isEmpty ? (this.data.emptyText ?? "No data in this time.") : "");
    this.#drawCursor();
    this.#writeReadouts();
    if (document.activeElement !== this.svg) setAttribute(this.svg, "aria-label", this.summary()); // not while it is read
  }

  #drawAxes(ticks, y, bottom) {
    const unit = ["s", "fraction"].includes(this.unit) ? this.unit : ""; // others stand in the legend
    const instants = timeTicks(this.data.from, this.data.to, Math.max(2, Math.floor(this.width / 90)));
    this.grid.replaceChildren(
      ...ticks.flatMap((tick) => [
        svg("line", { x1: MARGIN.left, x2: this.width - MARGIN.right, y1: y(tick), y2: y(tick) }),
        svg("text", { x: MARGIN.left - 6, y: y(tick) + 4, "text-anchor": "end" }, valueText(tick, unit)),
      ]),
      ...instants.flatMap(({ at, text }) => [
        svg("line", { x1: this.#x(at), x2: this.#x(at), y1: MARGIN.top, y2: bottom }),
        this.#x(at) > this.width - HALF_LABEL // it would be cut off
          ? null
          : svg("text", { x: this.#x(at), y: HEIGHT - 6, "text-anchor": "middle" }, text),
      ].filter(Boolean)),
    );
  }

  #drawLines(y) {
    const { times, values, gapSeconds, bandGapSeconds } = this.data;
    const x = (at) => this.#x(at);
    for (const { key, isStep, spread } of this.lines) {
      setAttribute(this.paths.get(key), "d", linePath(times, values[key], x, y, { isStep, gapSeconds }));
      if (!spread) continue;
      const [low, high] = spread;
      setAttribute(this.spreads.get(key), "d", areaPath(times, values[low], values[high], x, y, gapSeconds));
    }
    if (!this.band) return;
    const { low, high } = this.band;
    setAttribute(this.bandPath, "d", areaPath(times, values[low], values[high], x, y, bandGapSeconds));
  }

  #drawBound(y) {
    const bound = numberOrNull(this.data.bound);
    this.boundEntry.hidden = bound === null;
    this.boundLine.style.display = bound === null ? "none" : "";
    if (bound !== null) setAttributes(this.boundLine, { x1: MARGIN.left, x2: this.width, y1: y(bound), y2: y(bound) });
  }

  #top() {
    const keys = [
      ...this.lines.map((line) => line.key),
      ...this.lines.flatMap((line) => line.spread?.[1] ?? []),
      ...(this.band ? [this.band.high] : []),
    ];
    let top = numberOrNull(this.data.bound) ?? 0;
    for (const key of keys)
      for (const value of this.data.values[key] ?? []) if (numberOrNull(value) !== null && value > top) top = value;
    return this.unit === "fraction" && top <= 1 ? 1 : top;
  }

  #drawCursor() {
    this.cursor.style.display = this.pointAt === null ? "none" : "";
    if (this.pointAt === null) return;
    const x = this.#x(this.pointAt);
    setAttributes(this.cursor, { x1: x, x2: x, y1: 0, y2: HEIGHT - MARGIN.bottom });
  }

  /** The newest value of a key at the pointed instant, or at the end; one older than the gap is no longer known. */
  #valueAt(key, gapSeconds) {
    const { times, values } = this.data;
    const own = values[key] ?? [];
    const end = this.pointAt === null ? times.length - 1 : indexAt(times, this.pointAt);
    for (let index = end; index >= 0 && times[end] - times[index] <= gapSeconds; index -= 1)
      if (numberOrNull(own[index]) !== null) return own[index];
    return null;
  }

  #writeReadouts() {
    const { gapSeconds, bandGapSeconds } = this.data;
    for (const { key } of this.lines)
      setText(this.readouts.get(key), valueText(this.#valueAt(key, gapSeconds), this.unit));
    if (this.band) {
      const [low, high] = [this.band.low, this.band.high].map((key) => this.#valueAt(key, bandGapSeconds));
      setText(
        this.readouts.get("band"),
        low === high ? valueText(low, this.unit) : `${valueText(low, this.unit)} to ${valueText(high, this.unit)}`,
      );
    }
    setText(this.readouts.get("bound"), valueText(this.data.bound, this.unit));
  }

  /** The plot in a sentence or two, for whoever cannot see it. */
  summary() {
    const { from, to, bound } = this.data;
    const parts = this.lines.map((line) => {
      const known = (this.data.values[line.key] ?? []).filter((value) => numberOrNull(value) !== null);
      if (!known.length) return `${line.label}: no data`;
      const [low, high] = [known.reduce((a, b) => Math.min(a, b)), known.reduce((a, b) => Math.max(a, b))];
      return `${line.label}: last ${valueText(known.at(-1), this.unit)}, between ${valueText(low, this.unit)} and ${valueText(high, this.unit)}`;
    });
    const limit = numberOrNull(bound) === null ? "" : ` The bound is ${valueText(bound, this.unit)}.`;
    return `${this.title} from ${clockText(from)} to ${clockText(to)}. ${parts.join(". ")}.${limit}`;
  }

  #fillTable() {
    if (!this.details.open) return;
    const { times, values } = this.data;
    const columns = [
      ...this.lines.map((line) => [line.key, line.label]),
      ...(this.band
        ? [
            [this.band.low, "predicted, low"],
            [this.band.high, "predicted, high"],
          ]
        : []),
    ];
    const step = Math.max(1, Math.ceil(times.length / 200)); // a table of a day's every point helps nobody
    const rows = times
      .map((at, index) => index)
      .filter((index) => (times.length - 1 - index) % step === 0)
      .reverse()
      .map((index) => [clockText(times[index]), ...columns.map(([key]) => valueText(values[key]?.[index], this.unit))]);
    const built = table(`${this.title}, newest first`, ["Time", ...columns.map(([, label]) => label)], rows, {
      class: "numbers",
    });
    this.details.replaceChildren(this.details.firstElementChild, built);
  }

  #listen() {
    let start = null;
    const place = (event) => event.clientX - this.svg.getBoundingClientRect().left;
    this.svg.addEventListener("pointerdown", (event) => {
      if (event.button !== 0 || event.pointerType === "touch") return; // a finger scrolls the page
      start = place(event);
      this.svg.setPointerCapture(event.pointerId);
    });
    this.svg.addEventListener("pointermove", (event) => {
      this.onPoint(this.#at(place(event)));
      if (start === null) return;
      const [left, right] = [start, place(event)].sort((a, b) => a - b);
      setAttributes(this.choice, { x: left, y: 0, width: right - left, height: HEIGHT - MARGIN.bottom });
    });
    const finish = (event, isChosen) => {
      if (start === null) return;
      const [left, right] = [start, place(event)].sort((a, b) => a - b);
      start = null;
      setAttribute(this.choice, "width", 0);
      if (isChosen && right - left >= FEWEST_PIXELS_CHOSEN) this.onChoose(this.#at(left), this.#at(right));
    };
    this.svg.addEventListener("pointerup", (event) => finish(event, true));
    this.svg.addEventListener("pointercancel", (event) => finish(event, false));
    this.svg.addEventListener("pointerleave", () => this.onPoint(null));
    this.svg.addEventListener("blur", () => this.onPoint(null));
    this.svg.addEventListener("keydown", (event) => {
      const { times } = this.data;
      const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 }[event.key];
      if (event.key === "Escape") this.onPoint(null);
      if (steps === undefined || !times.length) return;
      event.preventDefault();
      const now = this.pointAt === null ? times.length : indexAt(times, this.pointAt);
      const next = times[Math.min(times.length - 1, Math.max(0, now + steps))];
      this.onPoint(next, this.spoken(next));
    });
  }

  /** The values at an instant, to be read out. */
  spoken(at) {
    const index = indexAt(this.data.times, at);
    const values = this.lines.map(
      (line) => `${line.label} ${valueText(this.data.values[line.key]?.[index], this.unit)}`,
    );
    return `${clockText(at)}: ${values.join(", ")}`;
  }
}
