// One line a percentile, with its name at the end.

import { byId } from "./dom.js";
import { colourOf } from "./plot.js";

const GAP_MS = 3000; // no line over a longer pause
const LABEL_PX = 12;

/** @typedef {import("./contract.js").Percentiles} Percentiles */
/** @typedef {import("./history.js").Sample} Sample */
/** @typedef {import("./plot.js").Plot} Plot */

/** @type {[keyof Percentiles, string][]} */
export const PERCENTILES = [
  ["p50_ns", "p50"],
  ["p90_ns", "p90"],
  ["p99_ns", "p99"],
  ["p999_ns", "p99.9"],
  ["max_ns", "max"],
];

/** @param {Plot} plot @param {Sample[]} samples */
export function drawLines(plot, samples) {
  const ends = [];
  for (const [key, name] of PERCENTILES) {
    const colour = colourOf(byId(key)); // that of the figure above, which so becomes the legend
    plot.context.strokeStyle = colour;
    plot.context.lineWidth = key === "p99_ns" ? 2.25 : 1.5;
    plot.context.setLineDash(key === "max_ns" ? [2, 3] : []);
    plot.context.stroke(path(plot, samples, key));
    const last = samples[samples.length - 1]?.percentiles[key];
    if (last) ends.push({ name, colour, y: plot.y(last) });
  }
  plot.context.setLineDash([]);
  plot.context.lineWidth = 1;
  drawNames(plot, ends);
}

/**
 * @param {Plot} plot
 * @param {Sample[]} samples
 * @param {keyof Percentiles} key
 */
function path(plot, samples, key) {
  const line = new Path2D();
  let before = -Infinity;
  for (const { at, percentiles } of samples) {
    const ns = percentiles[key];
    if (ns === null) continue;
    if (at - before > GAP_MS) line.moveTo(plot.x(at), plot.y(ns));
    else line.lineTo(plot.x(at), plot.y(ns));
    before = at;
  }
  return line;
}

/**
 * From the bottom up, none over another.
 * @param {Plot} plot
 * @param {{name: string, colour: string, y: number}[]} ends
 */
function drawNames(plot, ends) {
  plot.context.textAlign = "left";
  plot.context.textBaseline = "middle";
  let free = plot.bottom;
  for (const { name, colour, y } of ends) {
    const place = Math.min(y, free);
    plot.context.fillStyle = colour;
    plot.context.fillText(name, plot.right + 6, place);
    free = place - LABEL_PX;
  }
}
