// Numbers and times as text. Everything here is a pure function.

const NS_A_SECOND = 1_000_000_000;
const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

/** 1234567 → "1,234,567". @param {number} value */
export const integer = (value) => whole.format(value);

/** 1 → "1 share", 200 → "200 shares". @param {number} count @param {string} noun */
export const plural = (count, noun) => `${integer(count)} ${noun}${count === 1 ? "" : "s"}`;

/** Three digits that count and a unit: 17312 → "17.3 µs". @param {number} ns */
export function duration(ns) {
  const [value, unit] =
    ns < 1e3
      ? [ns, "ns"]
      : ns < 999_500
        ? [ns / 1e3, "µs"]
        : ns < 999_500_000
          ? [ns / 1e6, "ms"]
          : [ns / 1e9, "s"];
  const digits = unit === "ns" || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return `${value.toFixed(digits)} ${unit}`;
}

/** A power of ten of ns, for an axis: 4 → "10 µs". @param {number} exponent */
export const decade = (exponent) => duration(10 ** exponent).replace(/\.0+ /, " ");

/** How long something has been up: "3 min 20 s". @param {number} seconds */
export function uptime(seconds) {
  const s = Math.floor(seconds);
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
}

/** Time of day: "09:30:00", or with thousandths "09:30:00.125". @param {number} ns since midnight */
export function timeOfDay(ns, thousandths = false) {
  const seconds = Math.floor(ns / NS_A_SECOND);
  const parts = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60];
  const text = parts.map((part) => String(part).padStart(2, "0")).join(":");
  return thousandths ? `${text}.${String(Math.floor((ns % NS_A_SECOND) / 1e6)).padStart(3, "0")}` : text;
}

/** How many decimals these prices need: 2, or 4 if one of them is finer than a cent. @param {string[]} prices */
export const decimalsFor = (prices) => (prices.every((price) => price.endsWith("00")) ? 2 : 4);

/** A price as the server writes it, with four decimals, cut to what is needed. @param {string} text */
export function price(text, decimals = decimalsFor([text])) {
  const [dollars, fraction = ""] = text.split(".");
  return `${whole.format(Number(dollars))}.${fraction.slice(0, decimals)}`;
}

/** "socket_to_ring" → "socket to ring". @param {string} name */
export const words = (name) => name.replaceAll("_", " ");
