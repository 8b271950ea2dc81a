// The last five minutes of order-to-ack: the percentiles, and how many orders took how long.

const SPAN_MS = 300_000;
const FIRST_SPAN_MS = 60_000; // shown until there is more
const COLUMN_MS = 2000;
const HICCUP_MS = 3000; // after a longer pause, what was counted in it belongs to no column

/** @typedef {import("./contract.js").Stats} Stats */
/** @typedef {import("./contract.js").Percentiles} Percentiles */
/** @typedef {{at: number, percentiles: Percentiles}} Sample */
/** Counts go by the cell's upper bound in ns. */
/** @typedef {{from: number, to: number, counts: Map<number, number>}} Column */

export class History {
  /** @type {Sample[]} */
  samples = [];
  /** @type {Column[]} */
  columns = [];
  /** @type {Map<number, number>} */
  #totals = new Map();
  #at = -Infinity;

  clear() {
    this.samples = [];
    this.columns = [];
    this.#at = -Infinity;
  }

  /** The end of what is shown: the latest sample. */
  get to() {
    return this.samples.at(-1)?.at ?? SPAN_MS;
  }

  get from() {
    const begun = this.samples[0]?.at ?? this.to;
    return this.to - (this.to - begun > FIRST_SPAN_MS ? SPAN_MS : FIRST_SPAN_MS);
  }

  /** @param {number} at in ms @param {Stats} stats */
  add(at, stats) {
    const totals = new Map(stats.order_to_ack_cells.map(([le_ns, count]) => [le_ns ?? Infinity, count]));
    if (at - this.#at < HICCUP_MS) this.#addColumn(at, totals);
    this.#totals = totals;
    this.#at = at;
    this.samples.push({ at, percentiles: stats.order_to_ack });
    while (this.samples[0].at < at - SPAN_MS) this.samples.shift();
    while (this.columns.length > 0 && this.columns[0].to < at - SPAN_MS) this.columns.shift();
  }

  /** Count what is new into the column of this moment. @param {number} at @param {Map<number, number>} totals */
  #addColumn(at, totals) {
    const from = Math.floor(at / COLUMN_MS) * COLUMN_MS;
    let column = this.columns[this.columns.length - 1];
    if (column?.from !== from) {
      column = { from, to: from + COLUMN_MS, counts: new Map() };
      this.columns.push(column);
    }
    for (const [le_ns, total] of totals) {
      const fresh = total - (this.#totals.get(le_ns) ?? 0);
      if (fresh > 0) column.counts.set(le_ns, (column.counts.get(le_ns) ?? 0) + fresh);
    }
  }

  /** The sample nearest to a moment. @param {number} at @returns {Sample | undefined} */
  nearest(at) {
    const distance = (/** @type {Sample} */ sample) => Math.abs(sample.at - at);
    return this.samples.reduce(
      (best, sample) => (distance(sample) < distance(best) ? sample : best),
      this.samples[0],
    );
  }

  /** The decades that hold all latencies: exponents of ten in ns. @returns {{first: number, last: number}} */
  get decades() {
    const cells = this.columns.flatMap(({ counts }) => [...counts.keys()]);
    const lines = this.samples.flatMap(({ percentiles: { p50_ns, max_ns } }) => [
      p50_ns ?? Infinity,
      max_ns ?? Infinity,
    ]);
    const known = [...cells, ...lines].filter(Number.isFinite);
    if (known.length === 0) return { first: 4, last: 7 };
    const first = Math.floor(Math.log10(Math.min(...known)));
    return { first, last: Math.max(first + 1, Math.ceil(Math.log10(Math.max(...known)))) };
  }
}
