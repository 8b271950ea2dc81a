// How many orders took how long, when: one cell a bucket of the histogram and two seconds.

import { byId } from "./dom.js";
import { colourOf } from "./plot.js";

const CELL = 10 ** 0.1; // the buckets are a tenth of a decade high
const FAINTEST = 0.12;

/**
 * @param {import("./plot.js").Plot} plot @param {import("./history.js").Column[]} columns
 * @returns {number} the largest count
 */
export function drawHeat(plot, columns) {
  const most = Math.max(1, ...columns.flatMap(({ counts }) => [...counts.values()]));
  const { context } = plot;
  context.fillStyle = colourOf(byId("heat-colour"));
  for (const { from, to, counts } of columns) {
    const left = Math.round(Math.max(plot.x(from), plot.left));
    const width = Math.max(1, Math.round(Math.min(plot.x(to), plot.right)) - left);
    for (const [le_ns, count] of counts) {
      const [top, bottom] = [Math.round(plot.y(le_ns)), Math.round(plot.y(le_ns / CELL))];
      context.globalAlpha = most === 1 ? 1 : FAINTEST + (1 - FAINTEST) * (Math.log(count) / Math.log(most));
      context.fillRect(left, top, width, Math.max(1, bottom - top));
    }
  }
  context.globalAlpha = 1;
  return most;
}
