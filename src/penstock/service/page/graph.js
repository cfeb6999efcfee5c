// SPDX-License-Identifier: Apache-2.0
// The drawing of a pipeline: operators as boxes that are links, streams as lines between them. It is laid out when the
// operators change, and otherwise only its texts and colours are brought up to date.

import { html, setAttribute, setText, svg, button } from "./elements.js";
import { layout } from "./graph_layout.js";

const ROOMY = { width: 196, height: 78, gapX: 96, gapY: 22 };
const COMPACT = { width: 150, height: 46, gapX: 66, gapY: 12 };
const MOST_ROOMY = 24; // operators; more are drawn compactly
const EDGE = 10; // free space around the drawing
const ZOOM_STEP = 1.25;

const shortened = (text, letters) => (text.length <= letters ? text : `${text.slice(0, letters - 1)}…`);

/** The drawing of one pipeline. */
export class Graph {
  #shape = "";
  #nodes = new Map();
  #edges = new Map();
  #zoom = null;
  #size = { width: 1, height: 1 };

  constructor() {
    this.svg = svg("svg", { class: "graph", role: "group", "aria-label": "Operators and the streams between them" });
    this.frame = html("div", { class: "graph-frame scrolled" }, this.svg);
    this.element = html(
      "div",
      { class: "graph-box" },
      html(
        "div",
        { class: "tools", role: "group", "aria-label": "Size of the drawing" },
        button("−", () => this.#zoomTo(this.#shownZoom() / ZOOM_STEP), { "aria-label": "Draw smaller" }),
        button("+", () => this.#zoomTo(this.#shownZoom() * ZOOM_STEP), { "aria-label": "Draw larger" }),
        button("Fit", () => this.#zoomTo(null), { "aria-label": "Fit the drawing to the page" }),
      ),
      this.frame,
    );
    new ResizeObserver(() => this.#applyZoom()).observe(this.frame);
  }

  /**
   * nodes: [{name, address, state, glyph, title, lines: [text, text], load, spoken}], load from 0 to 1 or null.
   * edges: [{from, to, label, isBacklogged, weight, spoken}].
   */
  show(nodes, edges) {
    const shape = JSON.stringify([nodes.map((node) => node.name), edges.map((edge) => [edge.from, edge.to])]);
    if (shape !== this.#shape) this.#layOut(nodes, edges);
    this.#shape = shape;
    for (const node of nodes) this.#updateNode(node);
    for (const edge of edges) this.#updateEdge(edge);
  }

  #layOut(nodes, edges) {
    const isCompact = nodes.length > MOST_ROOMY;
    const box = isCompact ? COMPACT : ROOMY;
    const places = layout(
      nodes.map((node) => node.name),
      edges,
      box,
    );
    this.#size = { width: places.width + 2 * EDGE, height: places.height + 2 * EDGE };
    setAttribute(this.svg, "viewBox", `${-EDGE} ${-EDGE} ${this.#size.width} ${this.#size.height}`);
    this.#nodes.clear();
    this.#edges.clear();
    const lines = edges
      .filter((edge) => places.ways.has(`${edge.from} ${edge.to}`))
      .map((edge) => {
        const way = places.ways.get(`${edge.from} ${edge.to}`);
        const path = svg("path", { class: "stream", d: curve(way) });
        const middle = between(way);
        const label = svg("text", { class: "stream-label", x: middle.x, y: middle.y - 5, "text-anchor": "middle" });
        const backlog = svg("text", { class: "stream-label", x: middle.x, y: middle.y + 13, "text-anchor": "middle" });
        const title = svg("title");
        this.#edges.set(`${edge.from} ${edge.to}`, { path, label, backlog, title, isCompact });
        return svg("g", null, title, path, label, backlog);
      });
    const boxes = nodes.map((node) => {
      const { x, y } = places.nodes.get(node.name);
      const parts = {
        title: svg("title"),
        name: svg("text", { class: "node-name", x: 12, y: isCompact ? 19 : 21 }),
        glyph: svg("text", { class: "node-glyph", x: box.width - 10, y: isCompact ? 19 : 21, "text-anchor": "end" }),
        lines: (isCompact ? [34] : [40, 57]).map((at) => svg("text", { class: "node-line", x: 12, y: at })),
        load: svg("rect", { class: "node-load", x: 12, y: box.height - (isCompact ? 8 : 13), height: 4, rx: 2 }),
        isCompact,
        width: box.width,
      };
      parts.link = svg(
        "a",
        { class: "node", transform: `translate(${x} ${y})` },
        parts.title,
        svg("rect", { class: "node-box", width: box.width, height: box.height, rx: 8 }),
        svg("rect", { class: "node-edge", width: 5, height: box.height, rx: 2.5 }),
        svg("rect", {
          class: "node-track",
          x: 12,
          y: box.height - (isCompact ? 8 : 13),
          width: box.width - 24,
          height: 4,
          rx: 2,
        }),
        parts.load,
        parts.name,
        parts.glyph,
        ...parts.lines,
      );
      this.#nodes.set(node.name, parts);
      return parts.link;
    });
    this.svg.replaceChildren(...lines, ...boxes);
    this.#applyZoom();
  }

  #updateNode(node) {
    const parts = this.#nodes.get(node.name);
    setAttribute(parts.link, "href", node.address);
    setAttribute(parts.link, "class", `node ${node.state}`);
    setAttribute(parts.link, "aria-label", node.spoken);
    setText(parts.title, node.title);
    setText(parts.name, shortened(node.name, parts.isCompact ? 17 : 22));
    setText(parts.glyph, node.glyph);
    parts.lines.forEach((line, index) => setText(line, shortened(node.lines[index] ?? "", parts.isCompact ? 25 : 32)));
    setAttribute(parts.load, "width", Math.max(0, Math.min(1, node.load ?? 0)) * (parts.width - 24));
  }

  #updateEdge(edge) {
    const parts = this.#edges.get(`${edge.from} ${edge.to}`);
    if (!parts) return;
    setText(parts.label, parts.isCompact ? "" : edge.label);
    setText(parts.backlog, parts.isCompact ? "" : edge.backlogLabel);
    setAttribute(parts.backlog, "class", `stream-label${edge.isBacklogged ? " bad" : ""}`);
    setAttribute(parts.path, "class", `stream${edge.isBacklogged ? " bad" : ""}`);
    parts.path.style.strokeWidth = edge.weight;
    setText(parts.title, edge.spoken);
  }

  #shownZoom() {
    return this.svg.getBoundingClientRect().width / this.#size.width || 1;
  }

  #zoomTo(zoom) {
    this.#zoom = zoom === null ? null : Math.min(3, Math.max(0.2, zoom));
    this.#applyZoom();
  }

  #applyZoom() {
    // Fitted, but not so small that names cannot be read: then it scrolls.
    const fitted = Math.min(1, Math.max(0.72, (this.frame.clientWidth - 4) / this.#size.width));
    const zoom = this.#zoom ?? fitted;
    setAttribute(this.svg, "width", Math.round(this.#size.width * zoom));
    setAttribute(this.svg, "height", Math.round(this.#size.height * zoom));
  }
}

function curve(way) {
  let path = `M${way[0].x} ${way[0].y}`;
  for (let index = 1; index < way.length; index += 1) {
    const [a, b] = [way[index - 1], way[index]];
    const bend = (b.x - a.x) / 2;
    path += a.y === b.y ? `L${b.x} ${b.y}` : `C${a.x + bend} ${a.y} ${b.x - bend} ${b.y} ${b.x} ${b.y}`;
  }
  return path;
}

function between(way) {
  const index = Math.floor((way.length - 1) / 2);
  const [a, b] = [way[index], way[index + 1]];
  return { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 };
}
