// Joins: what is retained of each stream, now and over time, which joins there are, and in which order new rows look for partners.

import { get } from "./api.js";
import { RoundChart } from "./charts.js";
import { fill, h, icon } from "./dom.js";
import { ago, bytes, plural, short, whole } from "./format.js";
import { every } from "./live.js";
import { card, empty, heading, refresher, table } from "./parts.js";
import { line } from "./sql.js";

const EVERY_MS = 2_500;
const SHOWN = 100; // joins
const COLOURS = 8;

const ROLES = {
  window: "a window",
  current: "new rows only",
  table: "latest rows",
  "as of": "rows as of a time",
};

export function show(main, { title }) {
  const stop = new AbortController();
  title("Joins");
  const notice = h("div");
  const rows = new RoundChart({ title: "Retained rows", unit: () => "rows", series: [], show: short });
  const sizes = new RoundChart({ title: "Memory", unit: () => "", series: [], show: bytes });
  const legend = h("p", { class: "legend small" });
  const charts = h("div", { class: "charts pair" }, rows.element, sizes.element);
  const rest = h("div", { class: "stack" });
  const body = h("div", { class: "stack", hidden: true }, charts, legend, rest);
  fill(main, h("a", { class: "back", href: "#/streams" }, icon("back"), "Streams"), heading("Joins"), notice, body);
  let drawn = "";

  const refresh = refresher(notice, () => get("/joins", null, stop), (found) => {
    const names = Object.keys(found.streams);
    body.hidden = names.length === 0;
    fill(notice, names.length === 0 ? none() : null);
    const records = found.history.map((point) => ({ round_number: point.round, at: point.at, streams: point.streams }));
    rows.series = names.map((name, k) => ({ label: name, kind: `of-${k % COLOURS}`, of: (r) => r.streams[name]?.rows }));
    sizes.series = names.map((name, k) => ({ label: name, kind: `of-${k % COLOURS}`, of: (r) => r.streams[name]?.nbytes }));
    rows.set(records);
    sizes.set(records);
    const now = JSON.stringify([found.streams, found.signatures]);
    if (now !== drawn && !rest.contains(document.activeElement)) {
      fill(legend, names.map((name, k) => h("span", { class: `of-${k % COLOURS}` }, h("i", { class: "swatch", "aria-hidden": "true" }), name)));
      fill(rest, restParts(found));
      drawn = now;
    }
  }, { signal: stop.signal, what: "Loading the joins" });

  every(EVERY_MS, refresh, stop.signal);
  return { keys: { Escape: () => { location.hash = "#/streams"; } }, close: () => { stop.abort(); rows.close(); sizes.close(); } };
}

const none = () => empty("No joins", "A rule over several streams retains some of their rows, once for all rules that need them. No rule joins streams yet.");

function restParts(found) {
  const { signatures } = found;
  return [
    card("Retained rows", {}, streamTable(Object.entries(found.streams).map(([name, facts]) => ({ name, ...facts })))),
    card("Joins", {}, signatures.length ? signatureTable(signatures.slice(0, SHOWN)) : h("p", { class: "soft" }, "None of your own rules."), signatures.length > SHOWN ? h("p", { class: "soft small" }, `and ${whole(signatures.length - SHOWN)} more`) : null),
  ];
}

function streamTable(streams) {
  const columns = [
    { name: "Stream", of: (s) => h("b", null, s.name) },
    { name: "Retained", of: (s) => (s.kind === "table" ? "latest rows" : "a window") },
    { name: "Rows", class: "number", of: (s) => h("span", { title: whole(s.rows) }, short(s.rows)) },
    { name: "Memory", class: "number", of: (s) => h("span", { title: `${whole(s.nbytes)} bytes` }, bytes(s.nbytes)) },
    { name: "Found by", of: (s) => (s.found_by.length ? s.found_by.map((key) => h("div", null, line(key))) : "–") },
    { name: "Oldest", of: (s) => (s.oldest === null ? "–" : ago(s.oldest)) },
    { name: "For rules", class: "number", of: (s) => whole(s.n_queries) },
    { name: "In joins", class: "number", of: (s) => whole(s.n_signatures) },
  ];
  return table(columns, streams, { label: "Retained rows of each stream", key: (s) => s.name });
}

function signatureTable(signatures) {
  const looked = (origin, name) => h("div", { title: whole(origin[name]) }, short(origin[name]));
  const columns = [
    { name: "Join", of: (s) => [h("b", null, s.words), s.outer ? h("span", { class: "chip plain" }, s.outer) : null, h("div", { class: "small soft" }, s.inputs.map((i) => `${i.name}: ${ROLES[i.role] ?? i.role}`).join(", "))] },
    { name: "On", class: "wide", of: (s) => (s.keys.length ? s.keys.map((key) => h("div", null, line(key))) : h("span", { class: "soft" }, "no equality")) },
    { name: "Rules", class: "number", of: (s) => whole(s.n_queries) },
    { name: "Probe order", class: "wide", of: (s) => s.origins.map((o) => h("div", { class: "small" }, o.why === null ? `${o.name}: no rows yet` : `${o.name} in ${o.why}`)) },
    { name: "Probes", class: "number", of: (s) => s.origins.map((o) => looked(o, "n_drivers")) },
    { name: "Partners", class: "number", of: (s) => s.origins.map((o) => looked(o, "n_matches")) },
    { name: "Results", class: "number", of: (s) => s.origins.map((o) => looked(o, "n_combinations")) },
  ];
  return table(columns, signatures, { label: "Joins, each executed once for all its rules", key: (s) => s.name });
}

/** The inputs of a rule that is a join, for its page. */
export function joinFacts(join) {
  const held = (i) => (i.held ? `${plural(i.held.rows, "row")}, ${bytes(i.held.nbytes)}, for ${plural(i.held.n_queries, "rule")}` : null);
  return [
    ...join.inputs.map((i) => [i.words, [i.kept, held(i) ? h("div", { class: "small soft" }, held(i)) : null]]),
    ["joined on", [...join.keys, ...join.on].join(" AND ") || "no equality"],
    ["one join with", join.n_queries > 1 ? plural(join.n_queries - 1, "other rule") : "no other rule"],
    ...join.origins.filter((o) => o.why !== null).map((o) => [`rows of ${o.name} look`, `in ${o.why}`]),
  ];
}
