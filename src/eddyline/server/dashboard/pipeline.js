// Sources and sinks: position, rate, backlog and failures of each, and retrying.

import { get, part, post } from "./api.js";
import { fill, h, icon, reconcile, setText } from "./dom.js";
import { ago, plural, setAgo, short, span, whole } from "./format.js";
import { every, live } from "./live.js";
import { attempt, empty, heading, refresher, sentence, setStatus, toast } from "./parts.js";

const EVERY_MS = 2_500;

export function show(main, { title }) {
  title("Sources and sinks");
  if (!live.may("admin")) {
    fill(main, heading("Sources and sinks"), empty("Only admins see this", `This token has role ${live.me.role}.`));
    return {};
  }
  const stop = new AbortController();
  const { signal } = stop;
  const pipelineError = h("div");
  const half = (words, path, draw) => {
    const [notice, list] = [h("div"), h("ul", { class: "stack" })];
    return { element: h("section", { class: "stack", "aria-label": words }, h("h2", null, words), notice, list), refresh: refresher(notice, () => get(path, null, stop), (found) => draw(found, notice, list), { signal, what: `Loading ${words.toLowerCase()}` }) };
  };
  const sources = half("Sources", "/sources", (found, notice, list) => {
    fill(notice, found.length ? null : empty("No stream yet", "A stream is fed by its source in the pipeline file, or rows are pushed to it.", h("a", { class: "button", href: "#/streams" }, "To the streams")));
    reconcile(list, found, (each) => each.stream, (each) => make("source", each.stream, refresh), updateSource);
  });
  const sinks = half("Sinks", "/sinks", (found, notice, list) => {
    fill(notice, found.length ? null : empty("No sink", "Results and alerts leave by the sinks of a pipeline file: files, Kafka, webhooks, standard output. None is served here."));
    reconcile(list, found, (each) => each.name, (each) => make("sink", each.name, refresh), updateSink);
  });
  const refresh = () => {
    fill(pipelineError, live.status?.trouble ? h("p", { class: "note failing" }, `${sentence(live.status.trouble)}.`) : null);
    return Promise.all([sources.refresh(), sinks.refresh()]);
  };
  fill(main, heading("Sources and sinks"), pipelineError, h("div", { class: "stack ends" }, sources.element, sinks.element));
  every(EVERY_MS, refresh, signal);
  return { close: () => stop.abort() };
}

/** A source or a sink; `kind` is also its address. */
function make(kind, name, again) {
  const parts = { status: h("span"), type: h("span", { class: "soft" }), numbers: h("dl", { class: "numbers" }), details: h("div") };
  parts.words = h("p", { class: "end-error" });
  parts.when = ago(null, "");
  parts.next = h("span", { class: "soft small" });
  parts.retry = h("button", { class: "button little", type: "button", "aria-label": `Retry ${kind} ${name} now`, on: { click: retry } }, icon("refresh"), "Retry now");
  parts.failure = h("div", { class: "failure", hidden: true }, h("div", null, parts.words, h("p", { class: "soft small" }, parts.when, " ", parts.next)), parts.retry);
  const element = h("section", { class: "card end", "aria-label": `${sentence(kind)} ${name}` }, h("div", { class: "card-head" }, h("div", { class: "rule-title" }, h("h3", null, name), parts.status, parts.type)), parts.numbers, parts.failure, parts.details);
  const item = h("li", null, element);
  item.parts = parts;
  return item;

  async function retry() {
    parts.retry.disabled = true;
    if (await attempt(() => post(`/${kind}s/${part(name)}/retry`))) toast(`${name} is tried again now`);
    await again();
    parts.retry.disabled = false;
  }
}

function drawNumbers(parts, numbers) {
  reconcile(parts.numbers, numbers.filter(Boolean), ([name]) => name, ([name]) => h("div", null, h("dt", null, name), h("dd")), (element, [, words, title]) => { setText(element.lastElementChild, words); element.title = title ?? ""; });
}

function drawFailure(parts, { isFailing, error, at, retryIn }) {
  parts.failure.hidden = !error;
  parts.failure.classList.toggle("past", !isFailing);
  setText(parts.words, isFailing ? sentence(error) : `Recovered from: ${error}`);
  setAgo(parts.when, at, "");
  setText(parts.next, isFailing && retryIn !== null ? `· tried again in ${span(retryIn)}` : "");
  parts.retry.hidden = !isFailing;
}

const SOME = { files: 1, rounds: 100, messages: 10, rows: 10 }; // are always on their way

/** Whether the backlog is more than some seconds of work. */
const isBehind = (n, unit, perSecond) => n !== null && n > SOME[unit] + (unit === "messages" || unit === "rows" ? 5 * perSecond : 0);

const behind = (n, unit) => ["behind", n === null ? "–" : `${short(n)} ${n === 1 ? unit.replace(/s$/, "") : unit}`, n === null ? "Not known" : `${whole(n)} ${unit} are there and not taken`];
const perSecond = (n) => (n === null ? "–" : `${short(n)}/s`);

function updateSource({ parts }, source) {
  const isPush = source.type === "push";
  setStatus(parts.status, ...(source.is_failing ? ["failing", "failing"] : source.is_finished ? ["silent", "finished"] : isPush ? ["silent", "pushed"] : isBehind(source.n_behind, source.unit, source.rows_per_s) ? ["costly", "catching up"] : ["matching", "up to date"]));
  setText(parts.type, isPush ? "rows are pushed" : `${source.type}${source.what ? ` ${source.what}` : ""}`);
  drawNumbers(parts, [
    isPush ? null : ["rate", perSecond(source.rows_per_s), "Rows a second, over the last minute"],
    isPush ? null : behind(source.n_behind, source.unit),
    source.lag_s === null ? null : ["lag", span(Math.max(0, source.lag_s)), "How far event time is behind the clock"],
    isPush ? null : ["position", source.position],
    ["rows", short(source.n_stream_rows), `${plural(source.n_stream_rows, "row")} since the stream was declared`],
    source.n_late ? ["late", short(source.n_late), "Rows behind the watermark"] : null,
    source.n_failures ? ["failures", whole(source.n_failures), "Since it last went well"] : null,
  ]);
  drawFailure(parts, { isFailing: source.is_failing, error: source.message, at: source.failed_at, retryIn: source.retry_in_s });
  drawParts(parts, source.parts ?? []);
}

/** Partitions of a topic, one by one. */
function drawParts(parts, all) {
  if (all.length === 0) return;
  if (!parts.partitions) {
    parts.partitions = h("ul", { class: "partitions" });
    fill(parts.details, h("details", { class: "small" }, h("summary", null, plural(all.length, "partition")), parts.partitions));
  }
  reconcile(parts.partitions, all, (each) => each.name, (each) => h("li", null, h("span", null, each.name), h("span"), h("span", { class: "soft" })), (element, each) => {
    setText(element.children[1], each.position);
    setText(element.children[2], each.n_behind === null ? "" : `${whole(each.n_behind)} behind`);
  });
}

function updateSink({ parts }, sink) {
  setStatus(parts.status, ...(sink.is_failing ? ["failing", "failing"] : isBehind(sink.n_behind, sink.unit, sink.per_s) ? ["costly", "catching up"] : ["matching", "up to date"]));
  setText(parts.type, `${sink.type}, takes ${sink.takes}`);
  drawNumbers(parts, [
    ["rate", perSecond(sink.per_s), "Delivered a second, over the last minute"],
    behind(sink.n_behind, sink.unit),
    ["position", `${sink.unit === "messages" ? "message" : "round"} ${whole(sink.cursor)}`],
    ["delivered", short(sink.n_delivered), `${whole(sink.n_delivered)} since it was opened`],
    sink.n_failures ? ["failures", whole(sink.n_failures), "Since the engine was opened"] : null,
    sink.n_lost ? ["lost", whole(sink.n_lost), "Removed by retention before it took them"] : null,
    sink.n_refused ? ["refused", whole(sink.n_refused), "Dead letters now"] : null,
  ]);
  drawFailure(parts, { isFailing: sink.is_failing, error: sink.last_error, at: sink.failed_at, retryIn: sink.retry_in_s });
}
