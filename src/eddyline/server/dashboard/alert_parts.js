// What pages show of an alert: one that is open, a message, its history.

import { openAcknowledge, openHistory, openSilence } from "./alert_actions.js";
import { fill, h, icon, setText } from "./dom.js";
import { ago, agoWords, exactWords, keyWords, moment, plural, setAgo } from "./format.js";

export const alertKey = (alert) => `${alert.query_id}-${alert.generation}-${JSON.stringify(alert.key)}`;

export const severityMark = (severity) => h("span", { class: "severity", data: { severity } }, severity);

const STATES = {
  firing: "It fires",
  pending: "Its rows do not span the time of `for` yet",
  held: "Open again less than a cooldown after it fired: nothing is sent",
};

const historyButton = (words, alertOf) => h("button", { class: "alert-open", type: "button", title: "What happened to this alert", on: { click: () => openHistory(alertOf()) } }, words);

/**
 * One open alert. `actions` says what to call once it was acknowledged or silenced; without it there are no buttons. On the
 * page of a rule it is short, as `isListed` it is a line of the list.
 */
export function alertItem(alert, { isNamed = true, isListed = false, actions = null } = {}) {
  const key = keyWords(alert.key);
  const about = { query: `q${alert.query_id}`, name: alert.query, key: alert.key };
  const words = alert.message || key || "the rule as a whole";
  const element = h(
    "li",
    { class: `alert ${isListed ? "listed" : ""}` },
    h("span", { class: "alert-state" }),
    h("div", { class: "alert-words" },
      h("p", null, historyButton(words, () => element.alert)),
      h("p", { class: "soft small" }, isNamed ? [h("a", { href: `#/rules/q${alert.query_id}` }, alert.query), " · "] : null, key && alert.message ? `${key} · ` : "", "opened ", h("time", { class: "ago" }), h("span", { class: "alert-count" })),
      h("div", { class: "alert-marks" })),
    actions
      ? h("div", { class: "buttons" },
        h("button", { class: "button little acknowledge", type: "button", "aria-label": `Acknowledge ${words}`, on: { click: () => openAcknowledge(about, actions.acknowledge) } }, icon("check"), "Acknowledge"),
        h("button", { class: "button little quiet", type: "button", "aria-label": `Silence ${words}`, on: { click: () => openSilence(about, actions.silence) } }, icon("mute"), "Silence"))
      : null,
  );
  updateAlert(element, alert);
  return element;
}

export function updateAlert(element, alert) {
  element.alert = alert;
  const state = element.querySelector(".alert-state");
  if (state.textContent !== alert.state) {
    state.className = `alert-state ${alert.state}`;
    state.title = STATES[alert.state] ?? "";
    fill(state, h("i", { class: "dot" }), alert.state);
  }
  setAgo(element.querySelector(".alert-words time"), alert.since);
  setText(element.querySelector(".alert-count"), [alert.n_rows ? ` · ${plural(alert.n_rows, "row")}` : "", alert.n_suppressed ? ` · suppressed ${plural(alert.n_suppressed, "time")}` : ""].join(""));
  const marks = element.querySelector(".alert-marks");
  const shown = JSON.stringify([alert.acknowledgement, alert.silence?.id, alert.silence && agoWords(moment(alert.silence.until))]);
  if (marks.dataset.shown !== shown) {
    marks.dataset.shown = shown;
    fill(marks, alert.acknowledgement ? acknowledged(alert.acknowledgement) : null, alert.silence ? silenced(alert.silence) : null);
  }
  element.classList.toggle("is-noted", alert.acknowledgement !== null);
  const [acknowledge, quiet] = [".acknowledge", ".quiet"].map((name) => element.querySelector(name));
  if (acknowledge) acknowledge.hidden = Boolean(alert.acknowledgement);
  if (quiet) quiet.hidden = Boolean(alert.silence);
}

const acknowledged = (acknowledgement) => h("span", { class: "mark acknowledged", title: `${exactWords(moment(acknowledgement.at))}` }, icon("check"), `acknowledged${acknowledgement.by ? ` by ${acknowledgement.by}` : ""}${acknowledgement.note ? `: ${acknowledgement.note}` : ""}`);

const silenced = (silence) => h("span", { class: "mark quiet-mark", title: `until ${exactWords(moment(silence.until))}` }, icon("mute"), `silenced, ends ${agoWords(moment(silence.until))}${silence.reason ? `: ${silence.reason}` : ""}`);

/** One message. */
export function messageItem(message, { isNamed = true } = {}) {
  const isFiring = message.status === "firing";
  const notes = [
    message.n_suppressed ? `suppressed ${plural(message.n_suppressed, "time")} before` : null,
    message.reason,
    message.silence !== null && message.silence !== undefined ? "not sent: silenced" : null,
    message.n_withheld ? `sent after a silence, ${plural(message.n_withheld, "message")} withheld` : null,
  ].filter(Boolean);
  return h(
    "li",
    { class: `alert ${message.silence ? "is-quiet" : ""}` },
    isFiring ? severityMark(message.severity || "warning") : h("span", { class: "severity", data: { severity: "resolved" } }, "resolved"),
    h("div", { class: "alert-words" },
      h("p", null, message.query_id ? historyButton(message.message, () => message) : message.message),
      h("p", { class: "soft small" }, isNamed ? [message.query_id ? h("a", { href: `#/rules/q${message.query_id}` }, message.query) : message.query, " · "] : null, ago(message.at), ...notes.map((words) => ` · ${words}`))),
  );
}
