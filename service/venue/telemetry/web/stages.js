// What an order's time is spent on: one row a stage, on one logarithmic axis.

import { byId, make, setCount, setFigure, setText, setVariable } from "./dom.js";
import { decade, duration, words } from "./format.js";
import { paintSoon } from "./frame.js";

/** @typedef {import("./contract.js").Percentiles} Percentiles */

export class Stages {
  /** @type {[string, Percentiles][]} */
  #stages = [];
  #paint = () => this.#show();

  /** @param {Record<string, Percentiles>} stages in the order of the path */
  update(stages) {
    this.#stages = Object.entries(stages);
    paintSoon(this.#paint);
  }

  #show() {
    const axis = decades(this.#stages.map(([, stage]) => stage));
    const body = byId("stages");
    setCount(body, this.#stages.length, row);
    this.#stages.forEach(([name, stage], i) =>
      showStage(/** @type {HTMLElement} */ (body.children[i]), name, stage, axis),
    );
    showStrip(this.#stages);
    showAxis(axis);
    byId("stages-empty").hidden = this.#stages.some(([, stage]) => stage.count > 0);
  }
}

/**
 * The decades that hold everything: powers of ten in ns.
 * @param {Percentiles[]} stages @returns {{first: number, last: number}}
 */
function decades(stages) {
  const lows = stages.flatMap(({ p50_ns }) => (p50_ns ? [Math.log10(p50_ns)] : []));
  const highs = stages.flatMap(({ max_ns }) => (max_ns ? [Math.log10(max_ns)] : []));
  const first = Math.floor(Math.min(...lows, lows.length ? Infinity : 2));
  return { first, last: Math.max(first + 1, Math.ceil(Math.max(...highs, highs.length ? -Infinity : 6))) };
}

function row() {
  const bar = make("div", "range", make("i", "typical"), make("i", "rare"));
  return make(
    "tr",
    "",
    make("th", "", make("span")),
    make("td", "axis", bar),
    ...["", "", "wide"].map((extra) => make("td", `number ${extra}`, make("data"))),
  );
}

/**
 * @param {HTMLElement} row
 * @param {string} name
 * @param {Percentiles} stage
 * @param {{first: number, last: number}} axis
 */
function showStage(row, name, stage, axis) {
  const place = (/** @type {number | null} */ ns) =>
    ns ? ((Math.log10(ns) - axis.first) / (axis.last - axis.first)).toFixed(4) : "0";
  row.children[0].setAttribute("scope", "row");
  setText(row.children[0].children[0], words(name));
  const bar = /** @type {HTMLElement} */ (row.children[1].children[0]);
  setVariable(bar, "--p50", place(stage.p50_ns));
  setVariable(bar, "--p99", place(stage.p99_ns));
  setVariable(bar, "--max", place(stage.max_ns));
  bar.hidden = stage.count === 0;
  for (const [i, value] of [stage.p50_ns, stage.p99_ns, stage.max_ns].entries()) {
    setFigure(row.children[2 + i].children[0], value, duration);
  }
}

/** One strip of the medians, to scale. @param {[string, Percentiles][]} stages */
function showStrip(stages) {
  const strip = byId("stage-strip");
  setCount(strip, stages.length, () => make("i"));
  stages.forEach(([name, stage], i) => {
    const part = /** @type {HTMLElement} */ (strip.children[i]);
    setVariable(part, "--part", String(stage.p50_ns ?? 0));
    part.title = stage.p50_ns === null ? "" : `${words(name)}: ${duration(stage.p50_ns)}`;
  });
}

/** @param {{first: number, last: number}} axis */
function showAxis({ first, last }) {
  setVariable(byId("stages"), "--decades", String(last - first));
  setText(byId("stage-axis").children[0], decade(first));
  setText(byId("stage-axis").children[1], decade(last));
}
