// SPDX-License-Identifier: Apache-2.0
// Lists what has no name, or is not in order: plain checks of what WCAG 2.2 asks for (1.3.1, 2.4.1, 2.4.6, 4.1.2),
// without a tool that would have to be fetched.
() => {
  const faults = [];
  const named = (node) =>
    node.getAttribute("aria-label") ||
    node.labels?.length ||
    node.textContent.trim() ||
    document.getElementById(node.getAttribute("aria-labelledby"))?.textContent;
  const shown = (node) => node.getClientRects().length > 0;
  for (const node of document.querySelectorAll("button, a[href], input, select, textarea, svg[role], figure, nav"))
    if (shown(node) && !named(node)) faults.push(node.outerHTML.slice(0, 120));
  for (const tag of ["main", "header", "h1"])
    if ([...document.querySelectorAll(tag)].filter(shown).length !== 1) faults.push(`not one ${tag}`);
  const ids = [...document.querySelectorAll("[id]")].map((node) => node.id);
  if (new Set(ids).size !== ids.length) faults.push("an id is there twice");
  if (!document.documentElement.lang || !document.title) faults.push("no language or title");
  const levels = [...document.querySelectorAll("h1, h2, h3, h4")].filter(shown).map((node) => Number(node.tagName[1]));
  levels.forEach((level, index) => {
    if (index && level > levels[index - 1] + 1) faults.push(`h${level} follows h${levels[index - 1]}`);
  });
  return faults;
};
