// SPDX-License-Identifier: Apache-2.0
// Numbers, times and sizes as people read them. What is not known is a dash, never a zero.

export const UNKNOWN = "–";

const known = (value) => typeof value === "number" && !Number.isNaN(value);

/** A number with three figures that count: 1,234 or 12.3 or 0.0123. */
export function numberText(value) {
  if (!known(value)) return UNKNOWN;
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "-∞";
  const size = Math.abs(value);
  if (size >= 1e9) return `${shortened(value / 1e9)} G`;
  if (size >= 1e6) return `${shortened(value / 1e6)} M`;
  if (size >= 1e5) return `${shortened(value / 1e3)} k`;
  return shortened(value);
}

function shortened(value) {
  const size = Math.abs(value);
  const digits = size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : size >= 0.1 ? 3 : 4;
  return value.toLocaleString("en-GB", { maximumFractionDigits: digits });
}

/** A length of time: 250 ms, 1.25 s, 3 min 20 s, 2 h 5 min. */
export function secondsText(value) {
  if (!known(value)) return UNKNOWN;
  if (!Number.isFinite(value)) return "∞";
  const size = Math.abs(value);
  if (size !== 0 && size < 0.9995) return `${shortened(value * 1000)} ms`;
  if (size < 60) return `${shortened(value)} s`;
  const whole = Math.round(size);
  const sign = value < 0 ? "-" : "";
  if (whole < 3600) return `${sign}${Math.floor(whole / 60)} min${whole % 60 ? ` ${whole % 60} s` : ""}`;
  const minutes = Math.round(size / 60);
  if (minutes < 1440) return `${sign}${Math.floor(minutes / 60)} h${minutes % 60 ? ` ${minutes % 60} min` : ""}`;
  const hours = Math.round(size / 3600);
  return `${sign}${Math.floor(hours / 24)} d${hours % 24 ? ` ${hours % 24} h` : ""}`;
}

/** A value with the unit that the catalogue of metrics gives it. */
export function valueText(value, unit) {
  if (!known(value)) return UNKNOWN;
  if (unit === "s") return secondsText(value);
  if (unit === "fraction") return `${shortened(value * 100)} %`;
  const noun = value === 1 && /^[a-z]+s$/.test(unit) ? unit.slice(0, -1) : unit; // 1 executor, 2 executors
  return noun ? `${numberText(value)} ${noun}` : numberText(value);
}

/** How old something is: "3 s old". */
export function ageText(seconds) {
  return known(seconds) ? `${secondsText(Math.max(0, Math.round(seconds)))} old` : "of unknown age";
}

/** The time of day of an instant, with the date where that is not today. */
export function clockText(at, withDate = false) {
  if (!known(at)) return UNKNOWN;
  const when = new Date(at * 1000);
  const time = when.toLocaleTimeString("en-GB");
  const isToday = when.toDateString() === new Date().toDateString();
  return isToday && !withDate ? time : `${isoDay(when)} ${time}`;
}

function isoDay(when) {
  return `${when.getFullYear()}-${String(when.getMonth() + 1).padStart(2, "0")}-${String(when.getDate()).padStart(2, "0")}`;
}

/** A size in words, as the service writes it. */
export function sizeText(size) {
  return size ? size.text.replace(" x ", " × ") : UNKNOWN;
}

/** The same in the few letters that fit a node of the drawing. */
export function shortSizeText(size) {
  return size ? `${size.executors} × ${shortened(size.cpu_share * 100)} %` : UNKNOWN;
}

/** Whether two sizes are known and the same. */
export function isSameSize(one, other) {
  return Boolean(one) && Boolean(other) && one.text === other.text;
}

/** "1 operator", "2 operators". */
export function countText(count, noun) {
  return `${numberText(count)} ${noun}${count === 1 ? "" : "s"}`;
}
