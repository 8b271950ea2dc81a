// A canvas with time to the right and latency upwards, on a logarithmic axis; others draw into it.

import { decade } from "./format.js";

const MARGIN = { left: 52, right: 44, top: 8 };
const TIME_LABELS_PX = 24;
const MINUTE_MS = 60_000;
const TEN_SECONDS_MS = 10_000;

/** In ms, and in exponents of ten in ns. */
/** @typedef {{from: number, to: number, first: number, last: number}} Range */

/** The colour that the style sheet gives to this element. @param {Element} node */
export const colourOf = (node) => getComputedStyle(node).color;

export class Plot {
  /** @type {Range} */
  #range = { from: 0, to: 1, first: 0, last: 1 };

  /** @param {HTMLCanvasElement} canvas @param {{timeLabels: boolean, onResize: () => void}} options */
  constructor(canvas, { timeLabels, onResize }) {
    this.canvas = canvas;
    this.timeLabels = timeLabels;
    this.context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    new ResizeObserver(onResize).observe(canvas);
  }

  get left() {
    return MARGIN.left;
  }

  get right() {
    return this.canvas.clientWidth - MARGIN.right;
  }

  get bottom() {
    return this.canvas.clientHeight - (this.timeLabels ? TIME_LABELS_PX : MARGIN.top);
  }

  /** @param {number} at */
  x(at) {
    const { from, to } = this.#range;
    return MARGIN.left + ((at - from) / (to - from)) * (this.right - MARGIN.left);
  }

  /** What is below the axis lies on it. @param {number} ns */
  y(ns) {
    const { first, last } = this.#range;
    const share = (Math.log10(Math.max(ns, 1)) - first) / (last - first);
    return this.bottom - Math.min(Math.max(share, 0), 1) * (this.bottom - MARGIN.top);
  }

  /** The moment at a distance from the canvas's left edge. @param {number} x */
  at(x) {
    const { from, to } = this.#range;
    return from + ((x - MARGIN.left) / (this.right - MARGIN.left)) * (to - from);
  }

  /** Wipe, and draw the grid. @param {Range} range */
  begin(range) {
    this.#range = range;
    const { canvas, context } = this;
    const ratio = devicePixelRatio;
    const [width, height] = [Math.round(canvas.clientWidth * ratio), Math.round(canvas.clientHeight * ratio)];
    if (canvas.width !== width || canvas.height !== height) [canvas.width, canvas.height] = [width, height];
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    const style = getComputedStyle(canvas);
    context.font = `11px ${style.fontFamily}`;
    context.fillStyle = style.color;
    context.strokeStyle = style.borderTopColor;
    context.lineWidth = 1;
    this.#drawDecades(range);
    this.#drawMoments(range);
  }

  /** @param {Range} range */
  #drawDecades({ first, last }) {
    this.context.textAlign = "right";
    this.context.textBaseline = "middle";
    for (let exponent = first; exponent <= last; exponent++) {
      const y = Math.round(this.y(10 ** exponent)) + 0.5;
      this.line(MARGIN.left, y, this.right, y);
      this.context.fillText(decade(exponent), MARGIN.left - 8, y);
    }
  }

  /** @param {Range} range */
  #drawMoments({ from, to }) {
    const [step, unit, size] = to - from > MINUTE_MS ? [MINUTE_MS, "min", 1] : [TEN_SECONDS_MS, "s", 10];
    this.context.textAlign = "center";
    this.context.textBaseline = "alphabetic";
    for (let steps = 0; to - steps * step >= from; steps++) {
      const x = Math.round(this.x(to - steps * step)) + 0.5;
      this.line(x, MARGIN.top, x, this.bottom);
      if (this.timeLabels)
        this.context.fillText(steps ? `−${steps * size} ${unit}` : "now", x, this.bottom + 18);
    }
  }

  /** A mark over the whole height. @param {number} at @param {string} colour */
  cursor(at, colour) {
    this.context.strokeStyle = colour;
    const x = Math.round(this.x(at)) + 0.5;
    this.line(x, MARGIN.top, x, this.bottom);
  }

  /** @param {number} x0 @param {number} y0 @param {number} x1 @param {number} y1 */
  line(x0, y0, x1, y1) {
    this.context.beginPath();
    this.context.moveTo(x0, y0);
    this.context.lineTo(x1, y1);
    this.context.stroke();
  }
}
