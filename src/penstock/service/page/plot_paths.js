// SPDX-License-Identifier: Apache-2.0
// Lines and areas of a plot as SVG path data. A value that is not known is left out, and values further apart than
// `gapSeconds` are not joined: a gap is not a line.

/** The value where it is a finite number, else null. */
export const numberOrNull = (value) => (typeof value === "number" && Number.isFinite(value) ? value : null);

/** A line through values at rising times; x and y turn an instant and a value into pixels. */
export function linePath(times, values, x, y, { isStep = false, gapSeconds = Infinity } = {}) {
  const pieces = [];
  let before = -Infinity;
  (values ?? []).forEach((value, index) => {
    if (numberOrNull(value) === null) return;
    const [px, py] = [x(times[index]).toFixed(1), y(value).toFixed(1)];
    const isJoined = times[index] - before <= gapSeconds;
    if (!isJoined)
      pieces.push(`M${px} ${py}h.01`); // with a length, so that one value alone is a dot
    else pieces.push(isStep ? `H${px}V${py}` : `L${px} ${py}`);
    before = times[index];
  });
  return pieces.join("");
}

/** The area between two series. */
export function areaPath(times, low, high, x, y, gapSeconds = Infinity) {
  const pieces = [];
  let run = [];
  const spot = (index, values) => `${x(times[index]).toFixed(1)} ${y(values[index]).toFixed(1)}`;
  const close = () => {
    const there = run.map((index) => spot(index, high));
    const back = run.toReversed().map((index) => spot(index, low));
    if (run.length) pieces.push(`M${[...there, ...back].join("L")}Z`);
    run = [];
  };
  times.forEach((at, index) => {
    if (numberOrNull(low?.[index]) === null || numberOrNull(high?.[index]) === null) return;
    if (run.length && at - times[run.at(-1)] > gapSeconds) close();
    run.push(index);
  });
  close();
  return pieces.join("");
}
