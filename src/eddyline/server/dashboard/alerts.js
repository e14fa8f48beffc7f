// Alerts that are open, and what alerts said lately.

import { ApiError, get } from "./api.js";
import { fill, h, reconcile } from "./dom.js";
import { ago, plural } from "./format.js";
import { every } from "./live.js";
import { card, empty, heading, loading, trouble } from "./parts.js";

const EVERY_MS = 2_500;

export function show(main, { title }) {
  const stop = new AbortController();
  title("Alerts");
  const open = h("ul", { class: "stack" });
  const said = h("ul", { class: "stack" });
  const openNotice = h("div", null, loading());
  const saidNotice = h("div", null, loading());
  fill(main, heading("Alerts"), card("Open now", {}, openNotice, open), card("What was said", {}, saidNotice, said));

  async function ask() {
    try {
      const [alerts, messages] = await Promise.all([get("/alerts", null, stop), get("/messages", { newest: 100 }, stop)]);
      fill(openNotice, alerts.length ? null : empty("No alert is open", "A rule with resolve opens one at its first matching row, and closes it when rows stop coming."));
      reconcile(open, alerts.slice(0, 200), alertKey, (alert) => alertItem(alert), updateAlert);
      fill(saidNotice, messages.messages.length ? null : empty("Nothing was said yet", "Rules with message, severity, per, cooldown or resolve say something when they fire. Give one of them when you write or change a rule."));
      reconcile(said, messages.messages.reverse(), (m) => m.id, (message) => messageItem(message));
    } catch (error) {
      if (stop.signal.aborted) return;
      if (!(error instanceof ApiError)) throw error;
      if (!error.isOffline) fill(openNotice, trouble(error, ask));
    }
  }

  every(EVERY_MS, ask, stop.signal);
  return { close: () => stop.abort() };
}

export const alertKey = (alert) => `${alert.query_id}-${alert.generation}-${JSON.stringify(alert.key)}`;

const keyWords = (key) => Object.entries(key ?? {}).map(([name, v]) => `${name} ${v === null ? "NULL" : v}`).join(", ");

/** One open alert. */
export function alertItem(alert, { isNamed = true } = {}) {
  const element = h(
    "li",
    { class: `alert ${alert.state}` },
    h("span", { class: `mood ${alert.state === "firing" ? "firing" : "failing"}` }, h("i", { class: "dot" }), alert.state),
    h("div", { class: "alert-words" },
      h("p", null, alert.message || keyWords(alert.key) || "the rule as a whole"),
      h("p", { class: "soft small" }, isNamed ? [h("a", { href: `#/rules/q${alert.query_id}` }, alert.query), " · "] : null, keyWords(alert.key) ? `${keyWords(alert.key)} · ` : "", "since ", ago(alert.since), h("span", { class: "alert-count" }))),
  );
  return element;
}

export function updateAlert(element, alert) {
  const words = [alert.n_rows ? ` · ${plural(alert.n_rows, "row")}` : "", alert.n_suppressed ? ` · ${plural(alert.n_suppressed, "time")} not told` : ""].join("");
  element.querySelector(".alert-count").textContent = words;
}

/** One message. */
export function messageItem(message, { isNamed = true } = {}) {
  const isFiring = message.status === "firing";
  return h(
    "li",
    { class: "alert" },
    h("span", { class: `mood ${isFiring ? severityMood(message.severity) : "matching"}` }, h("i", { class: "dot" }), isFiring ? message.severity || "firing" : "resolved"),
    h("div", { class: "alert-words" },
      h("p", null, message.message),
      h("p", { class: "soft small" }, isNamed ? [message.query_id ? h("a", { href: `#/rules/q${message.query_id}` }, message.query) : message.query, " · "] : null, ago(message.at), message.n_suppressed ? ` · ${plural(message.n_suppressed, "time")} not told before` : "", message.reason ? ` · ${message.reason}` : "")),
  );
}

const severityMood = (severity) => ({ info: "paused", warning: "failing" })[severity] ?? "firing";
