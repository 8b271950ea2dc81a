// Trades as they happen, newest first; those of clients marked.

import { byId, make } from "./dom.js";
import { integer, price, timeOfDay } from "./format.js";
import { paintSoon } from "./frame.js";

const KEPT = 50;

/** @typedef {import("./contract.js").Trade} Trade */
/** @typedef {import("./contract.js").Party} Party */

export class Trades {
  /** @type {Trade[]} oldest first, not yet in the table */
  #waiting = [];
  #newest = 0;
  #body = byId("trades");
  #paint = () => this.#show();

  clear() {
    this.#waiting = [];
    this.#newest = 0;
    this.#body.replaceChildren();
    paintSoon(this.#paint);
  }

  /** Take over what is new. @param {Trade[]} trades oldest first */
  add(trades) {
    const fresh = trades.filter((trade) => trade.number > this.#newest);
    if (fresh.length === 0) return;
    this.#newest = fresh[fresh.length - 1].number;
    this.#waiting = [...this.#waiting, ...fresh].slice(-KEPT);
    paintSoon(this.#paint);
  }

  #show() {
    this.#body.prepend(...this.#waiting.reverse().map(row));
    this.#waiting = [];
    while (this.#body.children.length > KEPT) this.#body.lastElementChild?.remove();
    byId("trades-empty").hidden = this.#body.children.length > 0;
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
  return make(
    "tr",
    isOwn ? "own" : "",
    make("td", "muted", timeOfDay(trade.time_ns, true)),
    priceCell,
    make("td", "number", integer(trade.quantity)),
    make("td", isOwn ? "who" : "muted", isOwn ? parties(trade) : kind(trade)),
  );
}

/** @param {Trade} trade */
const parties = (trade) => `◆ ${name(trade.taking)} / ${name(trade.resting)}`;

/** @param {Party} party */
const name = (party) => party?.account ?? "feed";

/** @param {Trade} trade */
const kind = (trade) => (trade.kind === "recorded" ? "" : trade.kind);
