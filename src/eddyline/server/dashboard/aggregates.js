// Aggregates of a stream: what is kept of each class of rows, now and over time, when time changes it next, and which rules share it.

import { get, part } from "./api.js";
import { RoundChart } from "./charts.js";
import { fill, h, icon } from "./dom.js";
import { ago, bytes, plural, short, whole } from "./format.js";
import { every } from "./live.js";
import { card, empty, facts, heading, refresher, sentence, table } from "./parts.js";
import { line } from "./sql.js";

const EVERY_MS = 2_500;
const SHOWN = 50; // classes
const COLOURS = 8; // classes on the charts

const KINDS = {
  running: "groups",
  windows: "windows",
  sessions: "sessions",
  "temporal filters": "rows for a time",
  over: "frames of rows",
};

export function show(main, { params, title }) {
  const stop = new AbortController();
  const name = decodeURIComponent(params[0]);
  title(`Aggregates of ${name}`);
  const notice = h("div");
  const numbers = h("dl", { class: "numbers" });
  const groups = new RoundChart({ title: "Groups", unit: () => "", series: [], show: short });
  const sizes = new RoundChart({ title: "Memory", unit: () => "", series: [], show: bytes });
  const legend = h("ul", { class: "legend small", "aria-label": "Classes on the charts" });
  const rest = h("div", { class: "stack" });
  const body = h("div", { class: "stack", hidden: true }, numbers, h("div", { class: "charts pair" }, groups.element, sizes.element), legend, rest);
  fill(main, h("a", { class: "back", href: "#/streams" }, icon("back"), "Streams"), heading(`Aggregates of ${name}`), notice, body);
  let drawn = "";

  const refresh = refresher(notice, () => get("/aggregates", { stream: name }, stop), (found) => {
    body.hidden = found.classes.length === 0;
    fill(notice, found.classes.length === 0 ? none() : null);
    const charted = found.classes.slice(0, COLOURS);
    const records = found.history.map((point) => ({ round_number: point.round, at: point.at, classes: point.classes }));
    const seriesOf = (what) => charted.map((c, k) => ({ label: `class ${c.id}`, kind: `of-${k}`, of: (r) => r.classes[c.id]?.[what] }));
    groups.series = seriesOf("groups");
    sizes.series = seriesOf("nbytes");
    groups.set(records);
    sizes.set(records);
    const now = JSON.stringify([found.streams, found.classes]);
    if (now !== drawn && !rest.contains(document.activeElement)) {
      fill(numbers, numberParts(found, name));
      fill(legend, charted.map((c, k) => h("li", { class: `of-${k}` }, h("i", { class: "swatch", "aria-hidden": "true" }), `class ${c.id}: `, classWords(c), classKeys(c))));
      fill(rest, found.classes.slice(0, SHOWN).map(classCard), found.classes.length > SHOWN ? h("p", { class: "soft small" }, `and ${whole(found.classes.length - SHOWN)} more, which take less memory`) : null);
      drawn = now;
    }
  }, { signal: stop.signal, what: "Loading the aggregates" });

  every(EVERY_MS, refresh, stop.signal);
  return { keys: { Escape: () => { location.hash = "#/streams"; } }, close: () => { stop.abort(); groups.close(); sizes.close(); } };
}

const none = () => empty("No aggregates", "A rule with GROUP BY or OVER keeps groups, windows or rows of a stream, once for all rules with the same FROM, WHERE and keys. No rule on this stream has any.");

const classWords = (c) => (c.is_own ? line(c.words) : h("span", { class: "soft" }, "rules of other owners"));
const classKeys = (c) => (c.keys.length ? [", by ", line(c.keys.join(", "))] : null);

function numberParts(found, name) {
  const number = (label, what, words = "") => h("div", { title: words }, h("dt", null, label), h("dd", null, what));
  const structures = found.classes.flatMap((c) => c.structures);
  const total = (what) => structures.reduce((sum, s) => sum + (s[what] ?? 0), 0);
  const stream = Object.values(found.streams).find((s) => s.name.toLowerCase() === name.toLowerCase());
  const due = structures.map((s) => s.deadline).filter(Boolean).sort()[0];
  return [
    number("classes", whole(found.classes.length), "Each is kept once, for all rules that have it"),
    number("groups", short(total("groups")), whole(total("groups"))),
    number("memory", bytes(total("nbytes")), `${whole(total("nbytes"))} bytes`),
    number("late rows", short(stream?.n_late ?? 0), "Behind the watermark: in no window, session or frame"),
    number("watermark", ago(stream?.watermark, "none yet")),
    number("time changes it next", ago(due, "not by itself")),
  ];
}

function classCard(c) {
  const others = c.n_queries - c.queries.length;
  const rules = c.queries.flatMap((q, k) => [k ? ", " : "", h("a", { href: `#/rules/q${q.id}` }, q.name)]);
  const shared = [...rules, others > 0 ? `${rules.length ? " and " : ""}${plural(others, rules.length ? "other rule" : "rule")}` : ""];
  return card(`Class ${c.id}`, { tools: h("span", { class: "soft small" }, bytes(c.nbytes)) },
    h("p", { class: "class-words" }, classWords(c)),
    facts([["grouped by", c.keys.length ? c.keys.map((key, k) => [k ? ", " : "", line(key)]) : null], ["shared by", shared]]),
    table(structureColumns, c.structures, { label: `What is kept of class ${c.id}`, key: (s) => `${s.kind} ${s.words}` }));
}

const count = (n) => (n === null ? "–" : h("span", { title: whole(n) }, short(n)));

const structureColumns = [
  { name: "Kept", class: "wide", of: (s) => h("div", null, h("b", null, KINDS[s.kind] ?? s.kind), s.words.map((words) => h("div", { class: "small soft" }, sentence(words)))) },
  { name: "Groups", class: "number", of: (s) => count(s.groups) },
  { name: "Slices", class: "number", of: (s) => count(s.slices) },
  { name: "Rows", class: "number", of: (s) => count(s.rows) },
  { name: "Epochs", class: "number", of: (s) => h("span", { title: "Rules that were registered at different times see different rows" }, whole(s.epochs)) },
  { name: "Memory", class: "number", of: (s) => h("span", { title: `${whole(s.nbytes)} bytes` }, bytes(s.nbytes)) },
  { name: "Next change by time", of: (s) => ago(s.deadline, "–") },
  { name: "For rules", class: "number", of: (s) => whole(s.n_queries) },
];
