"use strict";
// What pages do beside htmx: colours, charts, and saying so when nothing new comes.
(() => {
  const STALE_S = 15, CHART_MS = 10000, root = document.documentElement;

  const theme = document.getElementById("theme");
  const THEMES = { "": "as the system", light: "light", dark: "dark" };
  const tell = () => { theme.textContent = `Colours: ${THEMES[root.dataset.theme ?? ""]}`; };
  theme.hidden = false;
  tell();
  theme.addEventListener("click", () => {
    const names = Object.keys(THEMES);
    const next = names[(names.indexOf(root.dataset.theme ?? "") + 1) % names.length];
    if (next) root.dataset.theme = next; else delete root.dataset.theme;
    try { localStorage.setItem("isthmus-theme", next); } catch { /* not kept, then */ }
    tell();
    draw();
  });

  // The clock of the server may differ from this one: what counts is when something new came last.
  const stale = document.getElementById("stale");
  let seen = null, seenAt = performance.now();
  setInterval(() => {
    const at = document.querySelector("#live [data-at]")?.dataset.at;
    if (at === undefined) return;
    if (at !== seen) { seen = at; seenAt = performance.now(); }
    const age = Math.round((performance.now() - seenAt) / 1000);
    if ((age >= STALE_S) === stale.hidden) {
      stale.hidden = age < STALE_S;
      stale.textContent = stale.hidden ? "" : "Nothing new has come for a while: the server does not answer, or cannot look at the clusters.";
    }
  }, 1000);

  document.addEventListener("htmx:after:swap", () => {
    for (const part of document.querySelectorAll("#part[aria-busy]")) part.removeAttribute("aria-busy");
  });

  const charts = document.querySelector("[data-history]");
  let plots = [], columns = null;
  const colour = (name) => getComputedStyle(root).getPropertyValue(name).trim();

  function draw() {
    for (const plot of plots) plot.destroy();
    plots = [];
    if (!charts || !columns) return;
    for (const place of charts.querySelectorAll("[data-series]")) {
      const line = { stroke: colour("--text"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line"), width: 1 } };
      plots.push(new uPlot({
        width: place.clientWidth, height: 180, legend: { show: false }, cursor: { y: false },
        scales: { x: { range: () => [Date.now() / 1000 - 3600, Date.now() / 1000] }, y: { range: (_, low, high) => [0, Math.max(high * 1.1, 1)] } },
        axes: [line, { ...line, size: 70 }],
        series: [{}, { stroke: colour("--accent"), width: 2, fill: colour("--tint"), spanGaps: false }],
      }, [columns.at, columns[place.dataset.series]], place));
    }
  }

  async function refresh() {
    try {
      const answer = await fetch(charts.dataset.history, { credentials: "same-origin" });
      if (!answer.ok) return;
      const first = columns === null;
      columns = await answer.json();
      if (first || plots.length === 0) draw();
      else plots.forEach((plot, number) => plot.setData([columns.at, columns[["lag", "rate"][number]]]));
    } catch { /* the banner tells of it */ }
  }

  if (charts) {
    refresh();
    setInterval(() => { if (!document.hidden) refresh(); }, CHART_MS);
    document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
    let resized = null;
    addEventListener("resize", () => { clearTimeout(resized); resized = setTimeout(draw, 200); });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  }
})();
