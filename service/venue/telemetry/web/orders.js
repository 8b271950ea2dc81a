// What became of the orders: by outcome, and the rejected ones by reason.

import { byId, make, setCount, setFigure, setText, setVariable } from "./dom.js";
import { integer, words } from "./format.js";
import { paintSoon } from "./frame.js";

const REASONS = 8;

/** @typedef {import("./contract.js").Stats} Stats */

export class Orders {
  /** @type {Stats | null} */
  #stats = null;
  #paint = () => this.#show();

  /** @param {Stats} stats */
  update(stats) {
    this.#stats = stats;
    paintSoon(this.#paint);
  }

  #show() {
    if (this.#stats === null) return;
    const { orders, rejects, fills, filled_shares, live_orders, live_own_orders } = this.#stats;
    setFigure(byId("live-orders"), live_orders, integer);
    setFigure(byId("live-own-orders"), live_own_orders, integer);
    setFigure(byId("fills"), fills, integer);
    setFigure(byId("filled-shares"), filled_shares, integer);
    showBars(byId("outcomes"), Object.entries(orders));
    const worst = Object.entries(rejects).sort(([, a], [, b]) => b - a);
    showBars(byId("rejects"), worst.slice(0, REASONS));
  }
}

/** One bar each, the longest one full. @param {Element} list @param {[string, number][]} counts */
function showBars(list, counts) {
  const most = Math.max(0, ...counts.map(([, count]) => count));
  byId(`${list.id}-empty`).hidden = most > 0;
  setCount(list, most > 0 ? counts.length : 0, () =>
    make("div", "", make("dt"), make("dd", "", make("data"))),
  );
  [...list.children].forEach((child, i) => {
    const [name, count] = counts[i];
    const row = /** @type {HTMLElement} */ (child);
    row.dataset.name = name;
    setText(row.children[0], words(name));
    setFigure(row.children[1].children[0], count, integer);
    setVariable(row, "--part", most ? (count / most).toFixed(3) : "0");
  });
}
