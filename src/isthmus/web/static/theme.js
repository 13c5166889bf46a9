"use strict";
// Before the first paint: the colours that were chosen in this browser.
(() => {
  let chosen = null;
  try { chosen = localStorage.getItem("isthmus-theme"); } catch { /* a browser that keeps nothing */ }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
