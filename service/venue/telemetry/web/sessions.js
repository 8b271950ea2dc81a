// The clients: who is connected, how fast they are answered, what they have in the books and have not read yet.

import { byId, make, setCount, setFigure, setText } from "./dom.js";
import { duration, integer } from "./format.js";
import { paintSoon } from "./frame.js";

/** @typedef {import("./contract.js").Session} Session */

export class Sessions {
  /** @type {Session[]} */
  #sessions = [];
  #paint = () => this.#show();

  /** @param {Session[]} sessions */
  update(sessions) {
    this.#sessions = sessions;
    paintSoon(this.#paint);
  }

  #show() {
    const body = byId("sessions");
    setCount(body, this.#sessions.length, row);
    this.#sessions.forEach((session, i) =>
      showSession(/** @type {HTMLElement} */ (body.children[i]), session),
    );
    byId("sessions-empty").hidden = this.#sessions.length > 0;
  }
}

function row() {
  const account = make("th");
  account.setAttribute("scope", "row");
  const figure = (/** @type {string} */ extra) => make("td", `number ${extra}`, make("data"));
  return make(
    "tr",
    "",
    account,
    make("td"),
    make("td", "wide muted"),
    figure("wide"),
    figure("wide"),
    figure(""),
    figure(""),
    figure("wide"),
    figure("wide"),
    figure("wide"),
    figure(""),
  );
}

/** @param {HTMLElement} row @param {Session} session */
function showSession(row, session) {
  row.dataset.connected = session.logged_in ? "yes" : "no";
  setText(row.children[0], session.account);
  setText(row.children[1], connection(session));
  setText(row.children[2], session.peer ?? "–");
  const count = (/** @type {number | string} */ value) => integer(Number(value));
  /** @type {[number | string | null, (value: any) => string][]} */
  const figures = [
    [session.messages_in, count],
    [session.sequence, count],
    [session.order_to_ack.p50_ns, duration],
    [session.order_to_ack.p99_ns, duration],
    [session.open_orders, count],
    [session.open_shares, count],
    [session.open_notional, count],
    [session.unsent_bytes, count],
  ];
  figures.forEach(([value, format], i) => setFigure(row.children[3 + i].children[0], value, format));
}

/** @param {Session} session */
function connection({ logged_in, killed }) {
  if (killed) return logged_in ? "■ killed" : "■ killed, gone";
  return logged_in ? "● yes" : "○ no";
}
