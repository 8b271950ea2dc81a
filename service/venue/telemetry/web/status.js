// The line at the top: what the exchange is doing, where the feed is in its day, how far it lags.

import { byId, setFigure, setText, setVariable } from "./dom.js";
import { duration, timeOfDay, uptime } from "./format.js";
import { paintSoon } from "./frame.js";

const DAY_BEGINS_S = 4 * 3600;
const DAY_ENDS_S = 20 * 3600;
const NS_A_SECOND = 1_000_000_000;

/** @typedef {import("./contract.js").Stats} Stats */

export class Status {
  /** @type {Stats | null} */
  #stats = null;
  #paint = () => this.#show();

  /** @param {Stats} stats */
  update(stats) {
    this.#stats = stats;
    paintSoon(this.#paint);
  }

  /** The figures are no longer of now. */
  disconnected() {
    this.#stats = null;
    paintSoon(this.#paint);
  }

  #show() {
    const stats = this.#stats;
    const state = stats?.state ?? "not connected";
    byId("state").dataset.state = state;
    setText(byId("state"), state);
    if (stats === null) return;
    byId("mode").hidden = false;
    setText(byId("mode"), stats.mode);
    setText(byId("uptime"), `up ${uptime(stats.uptime_s)}`);
    setFigure(byId("lag"), stats.feed.lag_ns, duration);
    showDay(stats.feed.time_ns);
  }
}

/** @param {number | null} time_ns since midnight in New York */
function showDay(time_ns) {
  const day = byId("day");
  const seconds = Math.min(Math.max((time_ns ?? 0) / NS_A_SECOND, DAY_BEGINS_S), DAY_ENDS_S);
  const gone = (seconds - DAY_BEGINS_S) / (DAY_ENDS_S - DAY_BEGINS_S);
  setVariable(day, "--gone", gone.toFixed(4));
  day.setAttribute("aria-valuenow", String(Math.round(seconds)));
  const clock = time_ns === null ? "no feed" : timeOfDay(time_ns);
  day.setAttribute("aria-valuetext", clock);
  setFigure(byId("feed-clock"), time_ns, () => clock);
  if (time_ns === null) setText(byId("feed-clock"), clock);
}
