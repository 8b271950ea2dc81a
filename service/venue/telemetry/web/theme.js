// Light or dark: what the system says, or what was chosen here before. No module, as it has to run before
// the page is painted.
"use strict";
{
  const KEY = "venue-theme";
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");

  const remembered = () => {
    try {
      return localStorage.getItem(KEY);
    } catch {
      return null; // storage is turned off
    }
  };
  const remember = (/** @type {string} */ theme) => {
    try {
      localStorage.setItem(KEY, theme);
    } catch {
      // it lasts as long as the page, then
    }
  };
  const isDark = () => (root.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";

  const chosen = remembered();
  if (chosen === "light" || chosen === "dark") root.dataset.theme = chosen;

  addEventListener("DOMContentLoaded", () => {
    const button = /** @type {HTMLElement} */ (document.getElementById("theme"));
    const show = () => {
      button.setAttribute("aria-pressed", String(isDark()));
      dispatchEvent(new Event("themechange"));
    };
    button.addEventListener("click", () => {
      root.dataset.theme = isDark() ? "light" : "dark";
      remember(root.dataset.theme);
      show();
    });
    system.addEventListener("change", show);
    show();
  });
}
