// The feed's health, and that of the rings behind it.

import { byId, setFigure } from "./dom.js";
import { duration, integer } from "./format.js";
import { paintSoon } from "./frame.js";

/** @typedef {import("./contract.js").Stats} Stats */

export class FeedHealth {
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
    const { feed, ring } = this.#stats;
    byId("feed-empty").hidden = feed.messages > 0;
    setFigure(byId("feed-rate"), feed.rate_per_s, integer);
    setFigure(byId("feed-messages"), feed.messages, integer);
    setFigure(byId("feed-p50"), feed.to_book.p50_ns, duration);
    setFigure(byId("feed-p99"), feed.to_book.p99_ns, duration);
    setFigure(byId("feed-duplicates"), feed.duplicates, integer);
    setFigure(byId("feed-divergence"), feed.divergence.shares, integer);
    setFigure(byId("ring-depth"), ring.command_depth, integer);
    setFigure(byId("ring-high-water"), ring.high_water, integer);
    setAlarm("feed-gaps", feed.gaps);
    setAlarm("feed-missing", feed.missing);
    setAlarm("feed-kernel-drops", feed.kernel_drops);
    setAlarm("feed-incomplete", feed.incomplete_books);
    setAlarm("ring-full", ring.event_full);
  }
}

/** A figure that should be 0: its tile is marked when it is not. @param {string} id @param {number} value */
function setAlarm(id, value) {
  setFigure(byId(id), value, integer);
  const tile = /** @type {HTMLElement} */ (byId(id).closest("[data-alarm]"));
  tile.dataset.alarm = value > 0 ? "on" : "";
}
