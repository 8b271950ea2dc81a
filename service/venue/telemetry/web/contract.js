// What the server sends over /live, as types; there is no code here. Prices are text with four decimals;
// market times are ns since midnight in New York. The whole contract is at /api/openapi.json.

/** @typedef {{price: string, shares: number, orders: number, own_shares: number}} Level */

/**
 * A client's order in the book; `queue_ahead` is the shares that stand before it at its price.
 * @typedef {{account: string, user_ref: number, side: "B" | "S", price: string, open: number,
 *   queue_ahead: number}} OwnOrder
 */

/**
 * Levels are best first; `own` may be cut, `own_total` is how many there are.
 * @typedef {{symbol: string, time_ns: number | null, state: string, incomplete: boolean,
 *   last_price: string | null, bids: Level[], asks: Level[], own: OwnOrder[], own_total: number}} Book
 */

/** An order; null is one of the recorded day. @typedef {{account: string, user_ref: number} | null} Party */

/**
 * `side` is the taker's; null where there is none (a cross) or it is not known.
 * @typedef {{number: number, time_ns: number, symbol: string, price: string, quantity: number,
 *   side: "B" | "S" | null, kind: "own" | "recorded" | "hidden" | "cross", match_number: number,
 *   resting: Party, taking: Party}} Trade
 */

/**
 * Of the last ten seconds; null without samples.
 * @typedef {{count: number, p50_ns: number | null, p90_ns: number | null, p99_ns: number | null,
 *   p999_ns: number | null, max_ns: number | null}} Percentiles
 */

/**
 * @typedef {{account: string, logged_in: boolean, peer: string | null, connected_at: string | null,
 *   killed: boolean, unsent_bytes: number, sequence: number, messages_in: number, open_orders: number,
 *   open_shares: number, open_notional: string, order_to_ack: Percentiles}} Session
 */

/**
 * @typedef {{time_ns: number | null, messages: number, rate_per_s: number, lag_ns: number | null, gaps: number,
 *   missing: number, duplicates: number, kernel_drops: number, incomplete_books: number,
 *   divergence: {events: number, shares: number}, to_book: Percentiles}} Feed
 */

/**
 * `order_to_ack_cells`: upper bound in ns (null above the last one), orders since the start; none empty.
 * @typedef {{state: string, mode: string, started_at: string, uptime_s: number, order_to_ack: Percentiles,
 *   order_to_ack_cells: [number | null, number][], stages: Record<string, Percentiles>, feed: Feed,
 *   orders: Record<string, number>, rejects: Record<string, number>, fills: number, filled_shares: number,
 *   live_orders: number, live_own_orders: number, sessions: Session[],
 *   ring: {command_depth: number, high_water: number, event_full: number}}} Stats
 */

/**
 * `symbol` is that of the book and the trades; trades are oldest first. `error` comes alone: why there is no book.
 * @typedef {{type: "update" | "error", at: string, symbol?: string | null, book?: Book, trades?: Trade[],
 *   stats?: Stats, error?: string}} Update
 */

export {};
