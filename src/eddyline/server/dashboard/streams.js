// Streams: what rows have, how many came, how many were late, and how many rules read each.

import { ApiError, drop, get, part, post } from "./api.js";
import { fill, h, icon, reconcile, setText } from "./dom.js";
import { ago, durationWords, moment, plural, setAgo, short, whole } from "./format.js";
import { every, live } from "./live.js";
import { attempt, confirm, copyButton, dialog, empty, errorNotice, field, heading, refresher, toast } from "./parts.js";
import { example } from "./sql.js";

const EVERY_MS = 2_500;
const UNITS = [["", "by its type"], ["s", "seconds"], ["ms", "milliseconds"], ["us", "microseconds"], ["ns", "nanoseconds"]];

export function show(main, { query, title }) {
  const stop = new AbortController();
  const isAdmin = live.may("admin");
  title("Streams");
  const notice = h("div");
  const list = h("div", { class: "stack" });
  const add = isAdmin ? h("button", { class: "button main", type: "button", on: { click: () => openAdd(refresh) } }, icon("plus"), "Declare a stream") : null;
  const joins = h("a", { class: "button", href: "#/joins" }, icon("order"), "Joins");
  fill(main, heading("Streams", joins, add), notice, list);

  const refresh = refresher(notice, () => get("/streams", null, stop), (streams) => {
    if (streams.length) fill(notice);
    else if (!notice.childNodes.length) fill(notice, none(isAdmin, refresh));
    reconcile(list, streams, (s) => s.name, (s) => make(s, isAdmin, refresh), update);
  }, { signal: stop.signal, what: "Loading the streams" });

  every(EVERY_MS, refresh, stop.signal);
  if (query.has("add") && isAdmin) openAdd(refresh);
  return { close: () => stop.abort() };
}

function none(isAdmin, again) {
  if (!isAdmin) return empty("No stream yet", "Ask an admin of this engine to declare one.");
  const shell = 'eddyline stream add trades "sym STRING, price DOUBLE, ts TIMESTAMP" --time ts';
  return empty(
    "No stream yet",
    "A stream is a name and the columns of its rows. Declare one here, or let a pipeline file read one from Kafka, files or a generator.",
    h("button", { class: "button main", type: "button", on: { click: () => openAdd(again) } }, icon("plus"), "Declare a stream"),
    h("div", { class: "example" }, h("p", { class: "small soft" }, "The same in the shell"), h("pre", { class: "sql" }, h("code", null, shell)), copyButton(shell)),
  );
}

function make(stream, isAdmin, again) {
  const parts = { rows: h("dd"), late: h("dd"), rules: h("dd"), watermark: ago(null) };
  const number = (name, what) => h("div", null, h("dt", null, name), what);
  const button = (picture, words, act, kind = "") => h("button", { class: `button little ${kind}`, type: "button", on: { click: act } }, icon(picture), words);
  const text = example(stream);
  const element = h(
    "section",
    { class: "card stream", "aria-label": `Stream ${stream.name}` },
    h("div", { class: "card-head" }, h("h2", null, stream.name),
      h("div", { class: "buttons" },
        live.may("author") ? h("a", { class: "button little", href: `#/new?${new URLSearchParams({ text })}`, "aria-label": `New rule on ${stream.name}` }, icon("plus"), "New rule") : null,
        h("a", { class: "button little", href: `#/streams/${part(stream.name)}/filters`, "aria-label": `Filters of ${stream.name}` }, icon("order"), "Filters"),
        h("a", { class: "button little", href: `#/streams/${part(stream.name)}/aggregates`, "aria-label": `Aggregates of ${stream.name}` }, icon("rules"), "Aggregates"),
        isAdmin ? button("waves", "Send rows", () => openSend(stream, again)) : null,
        isAdmin ? button("trash", "Drop", () => dropStream(stream, again), "danger") : null)),
    h("dl", { class: "numbers" }, number("rows", parts.rows), number("late rows", parts.late), number("rules", parts.rules), stream.time ? number("watermark", h("dd", null, parts.watermark)) : null),
    h("div", { class: "chips" }, stream.columns.map((c) => h("span", { class: `chip plain ${c.name === stream.time ? "is-time" : ""}`, title: c.name === stream.time ? `its time, up to ${durationWords(stream.lateness_us)} late` : "" }, c.name, h("span", { class: "faint" }, c.type.toLowerCase())))),
    stream.time ? h("p", { class: "small soft" }, timeWords(stream)) : null,
  );
  parts.partitions = h("p", { class: "small soft partitions" });
  element.append(parts.partitions);
  element.parts = parts;
  return element;
}

function update(element, stream) {
  const { parts } = element;
  setText(parts.rows, short(stream.n_rows));
  parts.rows.title = whole(stream.n_rows);
  setText(parts.late, short(stream.n_late));
  setText(parts.rules, short(stream.n_queries));
  setAgo(parts.watermark, moment(stream.watermark), "none yet");
  setText(parts.partitions, behind(stream.partitions));
}

function timeWords(stream) {
  const unit = UNITS.find(([value]) => value && value === stream.time_unit)?.[1];
  const kind = unit ? ` in ${unit} since 1970` : stream.time_format ? ` as ${stream.time_format}` : "";
  return `Time is ${stream.time}${kind}; ${stream.lateness_us ? `a row may be ${durationWords(stream.lateness_us)} late` : "late rows are not waited for"}.`;
}

// Of several partitions, those furthest behind: what event time waits for.
function behind(partitions) {
  if (partitions.length < 2) return "";
  const words = partitions.slice(0, 3).map((p) => `${p.name || "pushed"} at ${p.watermark || "no time"}${p.is_idle ? " (idle)" : ""}`);
  const more = partitions.length - words.length;
  return `Partitions furthest behind: ${words.join(", ")}${more ? `, and ${more} more` : ""}.`;
}

async function dropStream(stream, again) {
  if (stream.n_queries) {
    toast(`${plural(stream.n_queries, "rule")} read ${stream.name}: drop them first`, { kind: "wrong" });
    return;
  }
  const isSure = await confirm(`Drop stream ${stream.name}?`, "Its rows and watermark are forgotten. Results of rules that read it stay.", "Drop stream");
  if (isSure && (await attempt(() => drop(`/streams/${part(stream.name)}`)))) {
    toast(`${stream.name} was dropped`);
    again();
  }
}

function openAdd(again) {
  const name = h("input", { class: "input", placeholder: "trades", required: true, autocomplete: "off" });
  const schema = h("textarea", { class: "input mono", rows: "3", placeholder: "sym STRING, price DOUBLE, qty INT, ts TIMESTAMP", required: true, spellcheck: "false" });
  const time = h("input", { class: "input", placeholder: "ts", autocomplete: "off" });
  const unit = h("select", { class: "input" }, UNITS.map(([value, words]) => h("option", { value }, words)));
  const format = h("input", { class: "input", placeholder: "iso, or dd.MM.yyyy HH:mm", autocomplete: "off", spellcheck: "false" });
  const lateness = h("input", { class: "input", placeholder: "5 seconds", autocomplete: "off" });
  const idle = h("input", { class: "input", placeholder: "1 minute", autocomplete: "off" });
  const notice = h("div");
  const form = h("form", { class: "stack" }, field("Stream name", name), field("Columns", schema, "Name and type of each, as in CREATE TABLE."), h("div", { class: "grid-fields" },
      field("Time column", time, "The column with the event time, if there is one, or an expression such as timestamp_millis(ts)."),
      field("Lateness", lateness, "How late a row may come."),
      field("Time unit", unit, "What numbers in the time column count."),
      field("Time format", format, "The pattern of text in the time column."),
      field("Idle", idle, "After so long without rows, joins no longer wait for it.")), notice, h("div", { class: "buttons end" }, h("button", { class: "button main", type: "submit" }, "Declare")));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      const options = Object.entries({ time, time_unit: unit, time_format: format, lateness, idle }).map(([key, input]) => [key, input.value.trim()]);
      const created = await post("/streams", { name: name.value.trim(), schema: schema.value.trim(), ...Object.fromEntries(options.filter(([, text]) => text)) });
      close();
      toast(`${created.name} is declared: send it rows, or write a rule on it`);
      live.hurry();
      again();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      fill(notice, errorNotice(error));
    }
  });
  const close = dialog("Declare a stream", form);
  name.focus();
}

function openSend(stream, again) {
  const row = Object.fromEntries(stream.columns.map((c) => [c.name, sample(c)]));
  const rows = h("textarea", { class: "input mono", rows: "8", spellcheck: "false", "aria-label": "Rows, as a JSON list", value: JSON.stringify([row], null, 2) });
  const notice = h("div", { "aria-live": "polite" });
  const send = async () => {
    let parsed;
    try {
      parsed = JSON.parse(rows.value);
    } catch (error) {
      return fill(notice, errorNotice(new ApiError(0, { problem: "this is not JSON", detail: error.message, hint: "Write a list of objects, one for each row." })));
    }
    try {
      const done = await post(`/streams/${part(stream.name)}/rows`, parsed);
      live.hurry();
      again();
      return fill(notice, h("p", { class: "good" }, icon("check"), `Round ${done.round}: ${plural(done.n_rows, "row")}, ${plural(done.n_results, "match", "matches")}${done.n_dead ? `, ${plural(done.n_dead, "dead letter")}` : ""}.`));
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      return fill(notice, errorNotice(error));
    }
  };
  dialog(`Send rows to ${stream.name}`, h("div", { class: "stack" }, h("p", { class: "soft small" }, "These rows become a round like any other, with results and alerts."), rows, h("div", { class: "buttons end" }, h("button", { class: "button main", type: "button", on: { click: send } }, "Send rows")), notice));
}

function sample(column) {
  if (/^(DOUBLE|FLOAT|DECIMAL)/i.test(column.type)) return 9.5;
  if (/INT$/i.test(column.type)) return 1;
  if (/^BOOLEAN/i.test(column.type)) return true;
  if (/^DATE/i.test(column.type)) return new Date().toISOString().slice(0, 10);
  if (/^TIMESTAMP/i.test(column.type)) return new Date().toISOString().slice(0, 19).replace("T", " ");
  return /^STRING/i.test(column.type) ? "A" : null;
}
