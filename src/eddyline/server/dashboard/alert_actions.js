// What can be done about an alert: acknowledge it, silence it until a time, look at what happened to it.

import { ApiError, get, post } from "./api.js";
import { fill, h } from "./dom.js";
import { ago, exactWords, keyWords, moment, plural } from "./format.js";
import { live } from "./live.js";
import { dialog, empty, errorNotice, field, loading, toast } from "./parts.js";

const named = (about) => [about.name, keyWords(about.key)].filter(Boolean).join(", ");

/** A dialog with a form; `send` returns the message to show when it is done, and `after` is called then. */
function form(title, content, label, send, after) {
  const wrong = h("div", { class: "form-wrong", "aria-live": "polite" });
  const submit = h("button", { class: "button main", type: "submit" }, label);
  const cancel = h("button", { class: "button", type: "button", on: { click: () => close() } }, "Cancel");
  const element = h("form", { class: "stack", on: { submit: act } }, content, wrong, h("div", { class: "buttons end" }, cancel, submit));
  const close = dialog(title, element);

  async function act(event) {
    event.preventDefault();
    if (submit.disabled) return;
    submit.disabled = true;
    try {
      const words = await send();
      close();
      toast(words);
      live.hurry();
      after?.();
    } catch (error) {
      submit.disabled = false;
      fill(wrong, errorNotice(error));
    }
  }
  element.querySelector("input:not([type=radio])")?.focus();
}

/** Acknowledge an alert, or of all of a rule that are open. */
export function openAcknowledge(about, after) {
  const note = h("input", { class: "input", maxlength: "500", placeholder: "Looking into it", autocomplete: "off" });
  const words = about.key ? named(about) : `all ${about.n} open alerts of ${about.name}`;
  form(
    about.key ? "Acknowledge alert" : "Acknowledge alerts",
    [h("p", { class: "soft" }, h("strong", null, words), ": others see that you are working on it, until it resolves."), field("Note", note, "Optional; shown beside the alert.")],
    "Acknowledge",
    async () => {
      const found = await post("/alerts/acknowledge", { query: about.query, key: about.key ?? null, note: note.value.trim() });
      return `${plural(found.length, "alert")} of ${about.name} acknowledged`;
    },
    after,
  );
}

const LENGTHS = [["30 minutes", "30 min"], ["2 hours", "2 h"], ["8 hours", "8 h"], ["1 day", "1 day"], ["7 days", "1 week"]];

/** Send no messages until a time: of one alert, of a rule, or of all whose names fit a pattern. */
export function openSilence(about, after) {
  const pattern = h("input", { class: "input", required: true, maxlength: "500", value: about.name ?? "", placeholder: "cheap, or watch-*", autocomplete: "off", spellcheck: "false" });
  const severity = h("select", { class: "input" }, ["any", "critical", "error", "warning", "info"].map((name) => h("option", { value: name === "any" ? "" : name }, name)));
  const reason = h("input", { class: "input", maxlength: "500", placeholder: "Deployment of the new prices", autocomplete: "off" });
  const until = h("input", { class: "input", type: "datetime-local", "aria-label": "End of the silence, in local time", title: "In local time" });
  const lengths = choose("How long", "length", [...LENGTHS, ["", "until…"]], "2 hours", (value) => {
    until.hidden = value !== "";
    if (value === "") until.focus();
  });
  until.hidden = true;
  const scope = about.key && Object.keys(about.key).length
    ? choose("Which alerts", "scope", [["key", `only ${keyWords(about.key)}`], ["rule", `all of ${about.name}`]], "key")
    : null;
  form(
    about.name ? `Silence ${about.name}` : "New silence",
    [
      about.name ? null : h("div", { class: "grid-fields" }, field("Rules", pattern, "A name, or a pattern: * matches any text."), field("Severity", severity)),
      scope?.element,
      h("div", { class: "stack-small" }, lengths.element, until),
      field("Reason", reason, "Optional; shown with the silence."),
      h("p", { class: "soft small" }, "Alerts continue and are shown, but no messages are sent. When the silence ends, one message is sent for each alert that still fires, or that fired before the silence and has resolved."),
    ],
    "Silence",
    async () => {
      const body = { query: about.query ?? pattern.value.trim(), reason: reason.value.trim() };
      if (scope?.value() === "key") body.key = about.key;
      if (!about.name && severity.value) body.severity = severity.value;
      if (lengths.value()) body.for = lengths.value();
      else if (until.value) body.until = new Date(until.value).toISOString();
      const silence = await post("/silences", body);
      return `${silence.query} is silenced until ${exactWords(moment(silence.until))}`;
    },
    after,
  );
}

/** One of a few, as chips. */
function choose(label, name, options, first, changed = () => {}) {
  const inputs = options.map(([value, words]) => {
    const input = h("input", { type: "radio", name, value, on: { change: () => changed(value) } });
    input.checked = value === first;
    return h("label", { class: "choice" }, input, h("span", null, words));
  });
  const element = h("fieldset", { class: "field choices" }, h("legend", { class: "label" }, label), h("div", { class: "choice-row" }, inputs));
  return { element, value: () => element.querySelector("input:checked").value };
}

// ----------------------------------------------------------------------------------------------- history

/** What happened to an alert, the latest first, at the side. */
export function openHistory(alert) {
  const stop = new AbortController();
  const place = h("div", null, loading());
  const key = keyWords(alert.key);
  dialog(alert.query, [h("p", { class: "soft" }, [key, alert.message].filter(Boolean).join(" · ")), h("h3", { class: "timeline-title" }, "History"), place], { isSide: true, label: `History of ${alert.query}${key ? `, ${key}` : ""}`, onClose: () => stop.abort() });
  refresh();

  async function refresh() {
    try {
      const found = await get("/alerts/history", { query: `q${alert.query_id}`, key: JSON.stringify(alert.key), newest: 200 }, stop);
      if (alert.state === "pending") found.push({ at: alert.since, event: "opened" });
      fill(place, found.length ? h("ol", { class: "timeline" }, found.reverse().map(entry)) : empty("No history of this alert", "Messages are stored as long as results."));
    } catch (error) {
      if (stop.signal.aborted) return;
      if (!(error instanceof ApiError)) throw error;
      fill(place, errorNotice(error, refresh));
    }
  }
}

function entry(what) {
  const by = what.by ? ` by ${what.by}` : "";
  const isQuiet = what.status && what.silence !== null;
  const [kind, words, detail] = {
    opened: () => ["opened", "Opened, not firing yet", null],
    firing: () => ["firing", `Fired${isQuiet ? ", not sent: silenced" : ""}`, what.message],
    resolved: () => ["resolved", `Resolved${what.reason ? `: ${what.reason}` : ""}${isQuiet ? ", not sent: silenced" : ""}`, null],
    sent: () => ["sent", `Sent after the silence: ${what.status}`, `${plural(what.n_withheld, "message")} withheld before`],
    acknowledged: () => ["noted", `Acknowledged${by}`, what.note],
    silenced: () => ["quiet", `Silenced${by} until ${exactWords(moment(what.until))}`, what.reason],
    "silence ended": () => ["quiet", what.by ? `Silence ended${by}` : "Silence ended", null],
  }[what.event]();
  const suppressed = what.n_suppressed ? `suppressed ${plural(what.n_suppressed, "time")} before` : null;
  return h("li", { class: kind }, h("p", { class: "timeline-what" }, words), detail || suppressed ? h("p", { class: "soft small" }, [detail, suppressed].filter(Boolean).join(" · ")) : null, h("p", { class: "faint small" }, ago(what.at), " · ", exactWords(moment(what.at))));
}
