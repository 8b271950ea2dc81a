// Every client order in the book that is looked at, best prices first.

import { byId, make, setCount, setText } from "./dom.js";
import { decimalsFor, integer, price } from "./format.js";
import { paintSoon } from "./frame.js";

/** @typedef {import("./contract.js").OwnOrder} OwnOrder */

export class OwnOrders {
  /** @type {OwnOrder[]} */
  #orders = [];
  #total = 0;
  #paint = () => this.#show();

  /** @param {OwnOrder[]} orders @param {number} total how many there are, if these are not all */
  update(orders, total) {
    this.#orders = orders;
    this.#total = total;
    paintSoon(this.#paint);
  }

  clear() {
    this.update([], 0);
  }

  #show() {
    const body = byId("own-orders");
    const decimals = decimalsFor(this.#orders.map((order) => order.price));
    setCount(body, this.#orders.length, row);
    this.#orders.forEach((order, i) => {
      const texts = [
        order.account,
        String(order.user_ref),
        order.side === "B" ? "buy" : "sell",
        integer(order.open),
        price(order.price, decimals),
        integer(order.queue_ahead),
      ];
      texts.forEach((text, column) => setText(body.children[i].children[column], text));
      body.children[i].children[2].className = order.side === "B" ? "buy" : "sell";
    });
    const isCut = this.#total > this.#orders.length;
    setText(byId("own-cut"), isCut ? `(${this.#orders.length} of ${integer(this.#total)})` : "");
    byId("own-empty").hidden = this.#orders.length > 0;
  }
}

function row() {
  return make(
    "tr",
    "",
    make("td"),
    make("td", "muted"),
    make("td"),
    ...[0, 1, 2].map(() => make("td", "number")),
  );
}
