// Rounds: rows, matches and latency of each, as they come.

import { quantile, RoundChart } from "./charts.js";
import { fill, h, reconcile } from "./dom.js";
import { ago, setAgo, short, took, whole } from "./format.js";
import { live } from "./live.js";
import { card, empty, heading, table, tableRow } from "./parts.js";

const SHOWN = 40;
const PARTS = ["plan", "work", "waiting", "commit"]; // of a round

const split = (record) => {
  const parts = [["plan", record.plan_s], ["work", Math.max(0, record.work_s - record.waiting_s)], ["waiting", record.waiting_s], ["commit", record.commit_s]];
  const all = record.seconds || 1;
  return h("span", { class: "split", role: "img", "aria-label": parts.map(([name, s]) => `${name} ${took(s)}`).join(", "), title: parts.map(([name, s]) => `${name} ${took(s)}`).join(" · ") },
    parts.map(([name, s]) => { const part = h("i", { class: name }); part.style.width = `${Math.min(100, (s / all) * 100)}%`; return part; }));
};

const COLUMNS = [
  { name: "Round", of: (r) => h("b", null, `#${r.round_number}`) },
  { name: "When", of: (r) => ago(r.at) },
  { name: "Rows", of: (r) => whole(r.n_rows), class: "number" },
  { name: "Matches", of: (r) => whole(r.n_results), class: "number" },
  { name: "Dead", of: (r) => whole(r.n_dead), class: "number" },
  { name: "Late", of: (r) => whole(r.n_late), class: "number" },
  { name: "Where", of: (r) => (r.n_tasks ? `${r.n_tasks} tasks` : "in process"), class: "short" },
  { name: "Took", of: (r) => took(r.seconds), class: "number" },
  { name: "Spent on", of: split, class: "wide" },
];

export function show(main, { title }) {
  title("Rounds");
  const charts = [
    new RoundChart({ title: "Rows per round", unit: (r) => (r.n_rows === 1 ? "row" : "rows"), show: short, series: [{ of: (r) => r.n_rows, kind: "area" }] }),
    new RoundChart({ title: "Matches per round", unit: (r) => (r.n_results === 1 ? "match" : "matches"), show: short, series: [{ of: (r) => r.n_results, kind: "area" }] }),
    new RoundChart({
      title: "Latency", unit: () => "", show: took, series: [{ of: (r) => r.seconds, kind: "area" }],
      levels: (records) => {
        const seconds = records.map((r) => r.seconds);
        return records.length < 2 ? [] : [{ label: `p50 ${took(quantile(seconds, 0.5))}`, value: quantile(seconds, 0.5) }, { label: `p99 ${took(quantile(seconds, 0.99))}`, value: quantile(seconds, 0.99) }];
      },
    }),
  ];
  const rows = table(COLUMNS, [], { label: "The last rounds" });
  const body = rows.querySelector("tbody");
  const notice = h("div");
  const shown = card("The last rounds", { tools: h("p", { class: "legend small", "aria-hidden": "true" }, PARTS.map((name) => h("span", null, h("i", { class: `swatch ${name}` }), name))) }, rows);
  const drawings = h("div", { class: "charts" }, charts.map((c) => c.element));
  fill(main, heading("Rounds"), notice, drawings, shown);

  function draw() {
    const records = live.rounds;
    for (const chart of charts) chart.set(records);
    const isNone = records.length === 0;
    shown.hidden = drawings.hidden = isNone;
    fill(notice, isNone ? empty("No round yet", "Work happens in rounds: one begins when rows come. Send rows to a stream, or run a pipeline.", h("a", { class: "button", href: "#/streams" }, "To the streams")) : null);
    reconcile(body, records.slice(-SHOWN).reverse(), (r) => r.round_number, (r) => tableRow(COLUMNS, r), (element, r) => setAgo(element.querySelector("time"), r.at));
  }

  draw();
  live.addEventListener("change", draw);
  return { close: () => { live.removeEventListener("change", draw); for (const chart of charts) chart.close(); } };
}
