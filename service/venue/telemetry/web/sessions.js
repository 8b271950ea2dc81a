// The clients: who is connected, what they have in the books, and what they have not read yet.

import { byId, make, setCount, setFigure, setText } from "./dom.js";
import { integer } from "./format.js";
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
  const figures = [
    session.messages_in,
    session.sequence,
    session.open_orders,
    session.open_shares,
    session.open_notional,
    session.unsent_bytes,
  ];
  figures.forEach((value, i) =>
    setFigure(row.children[3 + i].children[0], value, (number) => integer(Number(number))),
  );
}

/** @param {Session} session */
function connection({ logged_in, killed }) {
  if (killed) return logged_in ? "■ killed" : "■ killed, gone";
  return logged_in ? "● yes" : "○ no";
}
