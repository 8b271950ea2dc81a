// Order to acknowledgement: the percentiles now, their last minutes, and a heatmap below on the same axes.

import { byId, setFigure, setText } from "./dom.js";
import { duration, integer, plural } from "./format.js";
import { paintSoon } from "./frame.js";
import { drawHeat } from "./heatmap.js";
import { History } from "./history.js";
import { drawLines, PERCENTILES } from "./percentile_lines.js";
import { colourOf, Plot } from "./plot.js";

/** @typedef {import("./contract.js").Stats} Stats */

export class Latency {
  #history = new History();
  #paint = () => this.#show();
  #redraw = () => paintSoon(this.#paint);
  #lines = new Plot(canvas("latency-lines"), { timeLabels: false, onResize: this.#redraw });
  #heat = new Plot(canvas("latency-heat"), { timeLabels: true, onResize: this.#redraw });
  /** @type {number | null} the moment whose figures are read; null for now */
  #cursor = null;

  constructor() {
    for (const plot of [this.#lines, this.#heat]) {
      plot.canvas.addEventListener("pointermove", (event) => this.#read(plot.at(event.offsetX)));
      plot.canvas.addEventListener("pointerleave", () => this.#read(null));
    }
    this.#lines.canvas.addEventListener("keydown", (event) => this.#onKey(event));
    this.#lines.canvas.addEventListener("blur", () => this.#read(null));
    addEventListener("themechange", this.#redraw);
  }

  /** @param {Stats} stats @param {number} at in ms */
  update(stats, at) {
    this.#history.add(at, stats);
    this.#redraw();
  }

  clear() {
    this.#history.clear();
    this.#cursor = null;
    this.#redraw();
  }

  /** @param {number | null} at */
  #read(at) {
    this.#cursor = at === null || at >= this.#history.to ? null : Math.max(at, this.#history.from);
    this.#redraw();
  }

  /** @param {KeyboardEvent} event */
  #onKey(event) {
    const { samples, to } = this.#history;
    const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -20, PageDown: 20 }[event.key];
    if (event.key === "Escape") this.#read(null);
    if (step === undefined || samples.length === 0) return;
    event.preventDefault();
    const sample = this.#history.nearest(this.#cursor ?? to);
    const index = sample ? samples.indexOf(sample) + step : 0;
    this.#read(samples[Math.max(0, index)]?.at ?? null);
  }

  #show() {
    const { from, to, decades, samples, columns } = this.#history;
    const range = { from, to, ...decades };
    const hasTraffic = samples.some(({ percentiles }) => percentiles.count > 0);
    this.#lines.begin(range);
    drawLines(this.#lines, samples);
    this.#heat.begin(range);
    setFigure(byId("heat-most"), drawHeat(this.#heat, columns), integer);
    if (this.#cursor !== null) {
      for (const plot of [this.#lines, this.#heat])
        plot.cursor(this.#cursor, colourOf(byId("latency-title")));
    }
    for (const plot of [this.#lines, this.#heat]) {
      /** @type {HTMLElement} */ (plot.canvas.nextElementSibling).hidden = hasTraffic;
    }
    this.#showFigures();
  }

  #showFigures() {
    const sample = this.#cursor === null ? this.#history.samples.at(-1) : this.#history.nearest(this.#cursor);
    const when = this.#cursor === null || !sample ? "the last 10 s" : `10 s until ${clock(sample.at)}`;
    setText(byId("latency-when"), when);
    setFigure(byId("latency-count"), sample?.percentiles.count, (count) =>
      count === 0 ? "no traffic" : plural(count, "order"),
    );
    for (const [key] of PERCENTILES) setFigure(byId(key), sample?.percentiles[key], duration);
  }
}

/** @param {string} id */
const canvas = (id) => /** @type {HTMLCanvasElement} */ (byId(id));

/** @param {number} at in ms */
const clock = (at) => new Date(at).toLocaleTimeString("en-GB");
