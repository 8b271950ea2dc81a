// The WebSocket: it comes back by itself, and remembers what is looked at.

const FIRST_RETRY_MS = 250;
const LAST_RETRY_MS = 4000;
const SILENCE_MS = 5000; // the server says something twice a second

/** @typedef {import("./contract.js").Update} Update */

export class Connection {
  /** @type {WebSocket | null} */
  #socket = null;
  /** @type {string | null} */
  #symbol = null;
  #failures = 0;
  #retry = 0;
  #watchdog = 0;

  /**
   * @param {URL} url
   * @param {{onUpdate: (update: Update) => void, onLost: () => void}} listener
   *   `onLost` is called once for each connection that breaks and each attempt that fails
   */
  constructor(url, listener) {
    this.url = url;
    this.listener = listener;
    addEventListener("online", () => this.#retryNow());
    document.addEventListener("visibilitychange", () => this.#retryNow());
    this.#connect();
  }

  /** Look at this symbol from now on, also after a reconnect. @param {string} symbol */
  watch(symbol) {
    this.#symbol = symbol;
    this.#subscribe();
  }

  #subscribe() {
    if (this.#symbol !== null && this.#socket?.readyState === WebSocket.OPEN) {
      this.#socket.send(JSON.stringify({ symbol: this.#symbol }));
    }
  }

  #connect() {
    const socket = new WebSocket(this.url);
    this.#socket = socket;
    socket.onopen = () => this.#subscribe();
    socket.onmessage = (event) => {
      this.#failures = 0; // only now: a server that takes connections and drops them is not well
      this.#expectMore(socket);
      this.listener.onUpdate(JSON.parse(event.data));
    };
    socket.onclose = () => this.#lost(socket);
    this.#expectMore(socket);
  }

  /** @param {WebSocket} socket */
  #expectMore(socket) {
    clearTimeout(this.#watchdog);
    this.#watchdog = setTimeout(() => this.#lost(socket), SILENCE_MS);
  }

  /** @param {WebSocket} socket */
  #lost(socket) {
    if (this.#socket !== socket) return;
    this.#socket = null;
    clearTimeout(this.#watchdog);
    socket.onmessage = socket.onclose = null;
    socket.close();
    const wait = Math.min(FIRST_RETRY_MS * 2 ** this.#failures, LAST_RETRY_MS);
    this.#failures += 1;
    this.#retry = setTimeout(() => this.#connect(), wait * (0.75 + Math.random() / 2)); // not all pages at once
    this.listener.onLost();
  }

  #retryNow() {
    if (this.#socket !== null || document.hidden) return;
    clearTimeout(this.#retry);
    this.#connect();
  }
}
