// The depth ladder: twenty levels a side in fixed places, the client's orders marked where they stand.

import { byId, make, setCount, setFigure, setText, setVariable } from "./dom.js";
import { decimalsFor, integer, plural, price } from "./format.js";
import { paintSoon } from "./frame.js";

const LEVELS = 20;

/** @typedef {import("./contract.js").Book} Book */
/** @typedef {import("./contract.js").Level} Level */
/** @typedef {import("./contract.js").OwnOrder} OwnOrder */
/** @typedef {import("./contract.js").Trade} Trade */

export class Ladder {
  /** @type {Book | null} */
  #book = null;
  /** @type {Trade | null} */
  #last = null;
  #symbol = "";
  #reason = "";
  #paint = () => this.#show();
  #asks = byId("asks");
  #bids = byId("bids");

  constructor() {
    setCount(this.#asks, LEVELS, () => row(["own", "price", "shares", "orders"]));
    setCount(this.#bids, LEVELS, () => row(["orders", "shares", "price", "own"]));
    this.clear("");
  }

  /** Forget the book: another symbol, or another run of the exchange. @param {string} symbol */
  clear(symbol) {
    this.#symbol = symbol;
    this.#reason = symbol ? `Waiting for the book of ${symbol}` : "No traffic";
    this.#book = this.#last = null;
    paintSoon(this.#paint);
  }

  /** Say why there is no book. @param {string} reason */
  explain(reason) {
    this.#reason = reason;
    paintSoon(this.#paint);
  }

  /** @param {Book} book */
  update(book) {
    this.#book = book;
    paintSoon(this.#paint);
  }

  /** @param {Trade} trade the latest one */
  traded(trade) {
    this.#last = trade;
    paintSoon(this.#paint);
  }

  #show() {
    const book = this.#book;
    const bids = book?.bids.slice(0, LEVELS) ?? [];
    const asks = book?.asks.slice(0, LEVELS) ?? [];
    const levels = [...bids, ...asks];
    const decimals = decimalsFor(levels.map((level) => level.price));
    const most = Math.max(1, ...levels.map((level) => level.shares));
    const own = ordersByPlace(book?.own ?? []);
    for (let i = 0; i < LEVELS; i++) {
      showLevel(this.#asks.children[LEVELS - 1 - i], asks[i], "S", own, decimals, most);
      showLevel(this.#bids.children[i], bids[i], "B", own, decimals, most);
    }
    showSpread(bids[0], asks[0], decimals);
    this.#showHead(book);
    this.#showLast(book, decimals);
  }

  /** @param {Book | null} book */
  #showHead(book) {
    setText(byId("book-symbol"), this.#symbol);
    const state = byId("book-state");
    state.hidden = book === null || book.state === "trading";
    setText(state, book?.state ?? "");
    byId("book-incomplete").hidden = !book?.incomplete;
    byId("book-empty").hidden = book !== null;
    setText(byId("book-empty"), this.#reason);
  }

  /** @param {Book | null} book @param {number} decimals */
  #showLast(book, decimals) {
    const node = byId("last-price");
    const text = this.#last?.price ?? book?.last_price ?? null;
    const side = this.#last?.side ?? null;
    const arrow = side === "B" ? "▲ " : side === "S" ? "▼ " : "";
    setFigure(node, text, () => arrow + price(text ?? "", decimals));
    node.dataset.side = side ?? "";
    node.title = side === "B" ? "A buyer took it" : side === "S" ? "A seller took it" : "";
    setText(byId("last-size"), this.#last ? plural(this.#last.quantity, "share") : "");
  }
}

/** @param {string[]} columns */
function row(columns) {
  return make("tr", "", ...columns.map((column) => make("td", column)));
}

/** @param {OwnOrder[]} orders @returns {Map<string, OwnOrder[]>} by side and price, in time order */
function ordersByPlace(orders) {
  const places = new Map();
  for (const order of orders) {
    const place = order.side + order.price;
    places.set(place, [...(places.get(place) ?? []), order]);
  }
  return places;
}

/**
 * @param {Element} row
 * @param {Level | undefined} level
 * @param {"B" | "S"} side
 * @param {Map<string, OwnOrder[]>} own
 * @param {number} decimals
 * @param {number} most shares that a full bar stands for
 */
function showLevel(row, level, side, own, decimals, most) {
  const node = /** @type {HTMLElement} */ (row);
  const [shares, orders] = [cell(row, "shares"), cell(row, "orders")];
  setText(cell(row, "price"), level ? price(level.price, decimals) : "");
  setText(shares, level ? integer(level.shares) : "");
  setText(orders, level ? integer(level.orders) : "");
  setVariable(node, "--depth", level ? (level.shares / most).toFixed(3) : "0");
  node.classList.toggle("has-own", Boolean(level?.own_shares));
  showOwn(cell(row, "own"), level ? (own.get(side + level.price) ?? []) : [], level?.own_shares ?? 0);
}

/** @param {Element} row @param {string} name */
const cell = (row, name) => row.getElementsByClassName(name)[0];

/**
 * Mark the first order with its account and queue, and say how many more there are.
 * @param {Element} node @param {OwnOrder[]} orders @param {number} ownShares
 */
function showOwn(node, orders, ownShares) {
  if (orders.length === 0) return setText(node, ownShares ? `◆ ${integer(ownShares)}` : "");
  const [first, ...more] = orders;
  const mark = `◆ ${first.account} ${integer(first.open)}`;
  const ahead = `(${integer(first.queue_ahead)})${more.length ? ` +${more.length}` : ""}`;
  if (node.children.length !== 2) node.replaceChildren(make("span", "who"), make("span", "ahead"));
  setText(node.children[0], mark);
  setText(node.children[1], ahead);
}

/** @param {Level | undefined} bid @param {Level | undefined} ask @param {number} decimals */
function showSpread(bid, ask, decimals) {
  const spread = bid && ask ? Number(ask.price) - Number(bid.price) : null;
  setFigure(byId("spread"), spread === null ? null : spread.toFixed(4), (text) =>
    Number(text).toFixed(decimals),
  );
}
