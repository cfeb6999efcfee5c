// SPDX-License-Identifier: Apache-2.0
// Round numbers and times for the axes of plots.

const TIME_STEPS = [
  1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800,
];

/** Round values from 0 up to at least `top`, about `count` of them, on demand whole ones; the last is the axis's end. */
export function valueTicks(top, { count = 4, areWhole = false } = {}) {
  if (!(top > 0) || !Number.isFinite(top)) return [0, 1];
  const rough = top / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const steps = [1, 2, 2.5, 5, 10].map((factor) => factor * power);
  const step = steps.find((one) => one >= rough * 0.999 && (!areWhole || Number.isInteger(one))) ?? 1;
  const ticks = [0];
  while (ticks.at(-1) < top) ticks.push(Number((ticks.length * step).toPrecision(12)));
  return ticks;
}

/** Instants at round local times between two instants, at most `count`, each with its text. */
export function timeTicks(from, to, count) {
  const step = TIME_STEPS.find((candidate) => (to - from) / candidate <= count) ?? TIME_STEPS.at(-1);
  const offset = new Date(from * 1000).getTimezoneOffset() * 60; // round in local time
  const ticks = [];
  for (let at = Math.ceil((from - offset) / step) * step + offset; at <= to; at += step)
    ticks.push({ at, text: tickText(at, step) });
  return ticks;
}

function tickText(at, step) {
  const when = new Date(at * 1000);
  if (step >= 86400) return when.toLocaleDateString("en-GB", { day: "numeric", month: "short" });
  const seconds = step < 60 ? { second: "2-digit" } : {};
  return when.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", ...seconds });
}
