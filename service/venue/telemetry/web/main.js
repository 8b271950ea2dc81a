// The page: one connection, and the panels that its updates go to. Read this first.

import { Connection } from "./connection.js";
import { byId, setText } from "./dom.js";
import { FeedHealth } from "./feed.js";
import { price } from "./format.js";
import { Ladder } from "./ladder.js";
import { Latency } from "./latency.js";
import { Orders } from "./orders.js";
import { OwnOrders } from "./own_orders.js";
import { instruments, Picker } from "./picker.js";
import { Sessions } from "./sessions.js";
import { Stages } from "./stages.js";
import { Status } from "./status.js";
import { Trades } from "./trades.js";

const KEY = "venue-symbol";
const ASK_AGAIN_MS = 2000;

/** @typedef {import("./contract.js").Update} Update */
/** @typedef {import("./contract.js").Stats} Stats */
/** @typedef {import("./contract.js").Book} Book */

const ladder = new Ladder();
const ownOrders = new OwnOrders();
const trades = new Trades();
const latency = new Latency();
const stages = new Stages();
const feed = new FeedHealth();
const orders = new Orders();
const sessions = new Sessions();
const status = new Status();
const picker = new Picker(look);

let symbol = "";
let startedAt = "";

const url = new URL("live", document.baseURI);
url.protocol = url.protocol.replace("http", "ws");
const connection = new Connection(url, { onUpdate: take, onLost: showBanner });
addEventListener("hashchange", () => look(named()));
void chooseFirst();

/** Look at another symbol. @param {string} wanted */
function look(wanted) {
  symbol = wanted;
  remember(wanted);
  picker.show(wanted);
  clearBook();
  connection.watch(wanted);
}

/** @param {Update} update */
function take(update) {
  hideBanner();
  if (update.stats) takeStats(update.stats, Date.parse(update.at));
  if (update.error) ladder.explain(update.error);
  if (update.symbol !== symbol) return; // it was on its way when the symbol changed
  if (update.book) takeBook(update.book);
  const newest = update.trades?.at(-1);
  if (update.trades && newest) {
    trades.add(update.trades);
    ladder.traded(newest);
  }
}

/** @param {Book} book */
function takeBook(book) {
  ladder.update(book);
  ownOrders.update(book.own, book.own_total);
  document.title =
    book.last_price === null ? `${symbol} · venue` : `${symbol} ${price(book.last_price)} · venue`;
}

/** @param {Stats} stats @param {number} at in ms */
function takeStats(stats, at) {
  if (stats.started_at !== startedAt) {
    if (startedAt) forget();
    startedAt = stats.started_at;
  }
  status.update(stats);
  latency.update(stats, at);
  stages.update(stats.stages);
  feed.update(stats);
  orders.update(stats);
  sessions.update(stats.sessions);
}

/** Another run of the exchange: nothing that was seen before belongs to it. */
function forget() {
  clearBook();
  latency.clear();
}

function clearBook() {
  ladder.clear(symbol);
  ownOrders.clear();
  trades.clear();
  document.title = `${symbol} · venue`;
}

// --- the symbol to begin with: the address's, the one looked at last, or one that has a book

async function chooseFirst() {
  if (location.hash.length > 1) look(named());
  while (symbol === "") {
    const first = await suggestion().catch(() => undefined);
    if (symbol !== "") return; // somebody was quicker
    if (first) look(first);
    else await new Promise((resolve) => setTimeout(resolve, ASK_AGAIN_MS));
  }
}

async function suggestion() {
  const favourite = remembered();
  const alike = favourite ? (await instruments(favourite)).instruments : [];
  if (alike.some((instrument) => instrument.symbol === favourite)) return favourite;
  const known = (await instruments("")).instruments;
  return (known.find(({ bid, ask }) => bid !== null && ask !== null) ?? known[0])?.symbol;
}

function named() {
  return decodeURIComponent(location.hash.slice(1)).toUpperCase();
}

/** @param {string} chosen */
function remember(chosen) {
  history.replaceState(null, "", `#${encodeURIComponent(chosen)}`);
  try {
    localStorage.setItem(KEY, chosen);
  } catch {
    // storage is turned off: the address remembers it
  }
}

function remembered() {
  try {
    return localStorage.getItem(KEY) ?? "";
  } catch {
    return "";
  }
}

// --- the banner

function showBanner() {
  if (!byId("banner").hidden) return;
  setText(byId("banner"), `Reconnecting… the figures are those of ${new Date().toLocaleTimeString("en-GB")}`);
  byId("banner").hidden = false;
  document.body.classList.add("disconnected");
  status.disconnected();
}

function hideBanner() {
  byId("banner").hidden = true;
  document.body.classList.remove("disconnected");
}
