// SPDX-License-Identifier: Apache-2.0
// Builds elements of the page. Text from the service only ever becomes text, never markup.

const SVG = "http://www.w3.org/2000/svg";

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** An HTML element; an attribute `onclick` and the like is a listener, and null leaves an attribute out. */
export function html(tag, attributes, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** An element of a drawing. */
export function svg(tag, attributes, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

/** Write a text where it differs: what is the same must not be read out again, nor lose a selection. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** A text of the service, with what stands between two backticks as code. */
export function withCode(text) {
  return text.split(/`([^`]+)`/).map((part, place) => (place % 2 ? html("code", null, part) : part));
}

/** Set an attribute where it differs; null takes it away. */
export function setAttribute(node, name, value) {
  if (value === null || value === undefined) node.removeAttribute(name);
  else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value);
}

/** Set several attributes where they differ. */
export function setAttributes(node, attributes) {
  for (const [name, value] of Object.entries(attributes)) setAttribute(node, name, value);
}

/** A table with a header; a cell is a text or an element. */
export function table(caption, columns, rows, attributes) {
  return html(
    "div",
    { class: "scrolled", tabindex: "0", role: "region", "aria-label": caption },
    html(
      "table",
      attributes,
      html("caption", { class: "unseen" }, caption),
      html(
        "thead",
        null,
        html(
          "tr",
          null,
          columns.map((name) => html("th", { scope: "col" }, name)),
        ),
      ),
      html(
        "tbody",
        null,
        rows.map((cells) =>
          html(
            "tr",
            null,
            cells.map((cell) => html("td", null, cell ?? "–")),
          ),
        ),
      ),
    ),
  );
}

/** A button that cannot be pressed twice while its work is under way. */
export function button(label, work, attributes) {
  const node = html("button", { type: "button", ...attributes }, label);
  node.addEventListener("click", async (event) => {
    if (node.getAttribute("aria-disabled") === "true") return;
    node.setAttribute("aria-disabled", "true"); // `disabled` would take the focus away
    try {
      await work(event);
    } finally {
      node.removeAttribute("aria-disabled");
    }
  });
  return node;
}

let lastId = 0;

/** An id that no other element has. */
export function newId(prefix) {
  lastId += 1;
  return `${prefix}-${lastId}`;
}
