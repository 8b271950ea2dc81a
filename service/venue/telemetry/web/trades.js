// Trades as they happen, newest first by their number; those of clients marked.
//
// A trade has the time of its taker: a client's order comes by the exchange's clock, a recorded one by the feed's. In a
// replay these are hours apart, so the page says so rather than let the times seem out of order.

import { byId, make } from "./dom.js";
import { integer, price, timeOfDay } from "./format.js";
import { paintSoon } from "./frame.js";

const KEPT = 50;
const SAME_CLOCK_NS = 2_000_000_000; // an exchange that follows a live feed is that close to it

/** @typedef {import("./contract.js").Trade} Trade */
/** @typedef {import("./contract.js").Party} Party */

export class Trades {
  /** @type {Trade[]} oldest first, not yet in the table */
  #waiting = [];
  #newest = 0;
  /** @type {{exchange: number | null, feed: number | null}} time of the last trade by either clock */
  #clocks = { exchange: null, feed: null };
  #body = byId("trades");
  #paint = () => this.#show();

  clear() {
    this.#waiting = [];
    this.#newest = 0;
    this.#clocks = { exchange: null, feed: null };
    this.#body.replaceChildren();
    paintSoon(this.#paint);
  }

  /** Take over what is new. @param {Trade[]} trades oldest first */
  add(trades) {
    const fresh = trades.filter((trade) => trade.number > this.#newest);
    if (fresh.length === 0) return;
    this.#newest = fresh[fresh.length - 1].number;
    for (const trade of fresh) this.#clocks[clock(trade)] = trade.time_ns;
    this.#waiting = [...this.#waiting, ...fresh].slice(-KEPT);
    paintSoon(this.#paint);
  }

  #show() {
    this.#body.prepend(...this.#waiting.reverse().map(row));
    this.#waiting = [];
    while (this.#body.children.length > KEPT) this.#body.lastElementChild?.remove();
    byId("trades-empty").hidden = this.#body.children.length > 0;
    const { exchange, feed } = this.#clocks;
    byId("trades-clocks").hidden =
      exchange === null || feed === null || Math.abs(exchange - feed) < SAME_CLOCK_NS;
  }
}

/** @param {Trade} trade */
function row(trade) {
  const isOwn = trade.resting !== null || trade.taking !== null;
  const priceCell = make("td", "number", price(trade.price));
  if (trade.side !== null) {
    const [direction, arrow, taker] = trade.side === "B" ? ["buy", "▲ ", "buyer"] : ["sell", "▼ ", "seller"];
    priceCell.classList.add(direction);
    priceCell.prepend(arrow);
    priceCell.title = `A ${taker} took it`;
  }
  const time = make("td", clock(trade) === "feed" ? "muted" : "", timeOfDay(trade.time_ns, true));
  time.title = `Trade ${integer(trade.number)}, by the ${clock(trade)}'s clock`;
  return make(
    "tr",
    isOwn ? "own" : "",
    time,
    priceCell,
    make("td", "number", integer(trade.quantity)),
    make("td", isOwn ? "who" : "muted", isOwn ? parties(trade) : kind(trade)),
  );
}

/** Whose time it has. @param {Trade} trade @returns {"exchange" | "feed"} */
const clock = (trade) => (trade.taking === null ? "feed" : "exchange");

/** @param {Trade} trade */
const parties = (trade) => `◆ ${name(trade.taking)} / ${name(trade.resting)}`;

/** @param {Party} party */
const name = (party) => party?.account ?? "feed";

/** @param {Trade} trade */
const kind = (trade) => (trade.kind === "recorded" ? "" : trade.kind);
