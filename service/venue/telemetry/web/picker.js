// The symbol picker: a combobox that asks the server for instruments as somebody types.

import { byId, make, setText } from "./dom.js";
import { integer, plural, price } from "./format.js";

const SHOWN = 50;
const QUIET_MS = 120; // how long nothing is typed before the server is asked

/** @typedef {{symbol: string, state: string, bid: string | null, ask: string | null}} Instrument */

/**
 * @param {string} prefix
 * @param {AbortSignal} [signal]
 * @returns {Promise<{instruments: Instrument[], total: number}>}
 */
export async function instruments(prefix, signal) {
  const query = new URLSearchParams({ prefix, limit: String(SHOWN) });
  const response = await fetch(`api/instruments?${query}`, { signal });
  if (!response.ok) throw new Error(`instruments: status ${response.status}`);
  return response.json();
}

export class Picker {
  #input = /** @type {HTMLInputElement} */ (byId("symbol"));
  #popup = byId("symbols-popup");
  #list = byId("symbols");
  #note = byId("symbols-note");
  #chosen = "";
  #active = -1;
  #asking = new AbortController();
  #pause = 0;

  /** @param {(symbol: string) => void} onChoose */
  constructor(onChoose) {
    this.onChoose = onChoose;
    this.#input.addEventListener("focus", () => this.#input.select());
    this.#input.addEventListener("click", () => this.#open(""));
    this.#input.addEventListener("input", () => {
      clearTimeout(this.#pause);
      this.#pause = setTimeout(() => this.#open(this.#typed()), QUIET_MS);
    });
    this.#input.addEventListener("keydown", (event) => this.#onKey(event));
    this.#input.addEventListener("blur", () => this.#close());
    this.#popup.addEventListener("pointerdown", (event) => event.preventDefault()); // the input keeps the focus
    this.#list.addEventListener("click", (event) => {
      const option = /** @type {Element} */ (event.target).closest("[role=option]");
      if (option) this.#choose(/** @type {HTMLElement} */ (option).dataset.symbol);
    });
  }

  /** Show what is looked at. @param {string} symbol */
  show(symbol) {
    this.#chosen = symbol;
    this.#input.value = symbol;
  }

  #typed() {
    return this.#input.value.trim().toUpperCase();
  }

  get #isOpen() {
    return !this.#popup.hidden;
  }

  /** @param {KeyboardEvent} event */
  #onKey(event) {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (this.#isOpen) this.#activate(this.#active + (event.key === "ArrowDown" ? 1 : -1));
      else this.#open("");
    } else if (event.key === "Enter") {
      event.preventDefault();
      const active = /** @type {HTMLElement | undefined} */ (this.#list.children[this.#active]);
      this.#choose(this.#isOpen && active ? active.dataset.symbol : this.#typed());
    } else if (event.key === "Escape" && this.#isOpen) {
      event.preventDefault();
      this.#close();
      this.#input.select();
    }
  }

  /** @param {string} prefix */
  async #open(prefix) {
    this.#asking.abort();
    const asking = (this.#asking = new AbortController());
    try {
      const found = await instruments(prefix, asking.signal);
      if (!asking.signal.aborted && document.activeElement === this.#input) this.#fill(prefix, found);
    } catch {
      if (!asking.signal.aborted) this.#fill(prefix, null);
    }
  }

  /** @param {string} prefix @param {{instruments: Instrument[], total: number} | null} found null: no answer */
  #fill(prefix, found) {
    const shown = found?.instruments ?? [];
    this.#list.replaceChildren(...shown.map((instrument, i) => option(instrument, i)));
    setText(this.#note, note(prefix, found));
    this.#popup.hidden = false;
    this.#input.setAttribute("aria-expanded", "true");
    this.#activate(prefix ? 0 : shown.findIndex(({ symbol }) => symbol === this.#chosen));
  }

  /** @param {number} index of the option that Enter takes; -1 for none */
  #activate(index) {
    const options = this.#list.children;
    this.#active = options.length === 0 ? -1 : Math.max(-1, Math.min(index, options.length - 1));
    for (const [i, each] of [...options].entries())
      each.setAttribute("aria-selected", String(i === this.#active));
    const active = options[this.#active];
    if (active) this.#input.setAttribute("aria-activedescendant", active.id);
    else this.#input.removeAttribute("aria-activedescendant");
    active?.scrollIntoView({ block: "nearest" });
  }

  /** @param {string | undefined} symbol */
  #choose(symbol) {
    if (!symbol) return;
    this.show(symbol);
    this.#close();
    this.onChoose(symbol);
  }

  #close() {
    clearTimeout(this.#pause);
    this.#asking.abort();
    this.#popup.hidden = true;
    this.#input.value = this.#chosen;
    this.#input.setAttribute("aria-expanded", "false");
    this.#input.removeAttribute("aria-activedescendant");
  }
}

/** @param {Instrument} instrument @param {number} index */
function option({ symbol, state, bid, ask }, index) {
  const quote = `${bid === null ? "–" : price(bid)} × ${ask === null ? "–" : price(ask)}`;
  const node = make(
    "li",
    "",
    make("b", "", symbol),
    make("span", "muted", state === "trading" ? quote : state),
  );
  node.id = `symbol-${index}`;
  node.dataset.symbol = symbol;
  node.setAttribute("role", "option");
  return node;
}

/** @param {string} prefix @param {{instruments: Instrument[], total: number} | null} found */
function note(prefix, found) {
  if (found === null) return "No answer from the server";
  const { instruments: shown, total } = found;
  if (total === 0)
    return prefix ? `No instrument begins with ${prefix}` : "No instruments yet: the feed names them";
  return shown.length < total
    ? `${shown.length} of ${integer(total)}: type to narrow it down`
    : plural(total, "instrument");
}
