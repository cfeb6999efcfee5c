// SPDX-License-Identifier: Apache-2.0
// Lists texts whose contrast to what is behind them is below 4.5 to 1: relative luminance and contrast as WCAG 2.2 defines
// them (1.4.3).
() => {
  const numbers = (text) => text.match(/[\d.]+/g).map(Number);
  const luminance = ([r, g, b]) => {
    const [x, y, z] = [r, g, b]
      .map((one) => one / 255)
      .map((one) => (one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4));
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const behind = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const box = at.matches?.("a.node") ? at.querySelector(".node-box") : null;
      const ground = box ? getComputedStyle(box).fill : getComputedStyle(at).backgroundColor;
      if (ground !== "none" && (numbers(ground)[3] ?? 1) > 0.5) return numbers(ground);
    }
    return [255, 255, 255];
  };
  const faults = [];
  for (const node of document.querySelectorAll("body *")) {
    const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
    if (!own || !node.getClientRects().length || node.closest(".unseen, title, option, .skip")) continue;
    const style = getComputedStyle(node);
    const [a, b] = [
      luminance(numbers(node instanceof SVGElement ? style.fill : style.color)),
      luminance(behind(node)),
    ].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5)
      faults.push(
        `${node.className.baseVal ?? node.className}: ${node.textContent.trim().slice(0, 40)} ${((a + 0.05) / (b + 0.05)).toFixed(2)}`,
      );
  }
  return faults;
};
