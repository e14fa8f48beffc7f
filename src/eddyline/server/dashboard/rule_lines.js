// Lines of the list of rules: one rule, or the rules of one template or rules table folded into a line that opens.

import { get } from "./api.js";
import { spark, sparkFrame } from "./charts.js";
import { fill, h, hidden, icon, reconcile, setText } from "./dom.js";
import { ago, percent, plural, setAgo, short, whole } from "./format.js";
import { bar, COSTS, refresher, setStatus, STATUSES, statusMark } from "./parts.js";
import { line } from "./sql.js";

export const TREND = 60; // minutes of the little line
const AT_ONCE = 20; // rules of a family until more are requested
const opened = new Set(); // families, by key; kept while the page is open

export const lineKey = (entry) => (entry.family ? `family ${entry.family}` : `rule ${entry.id}`);

export const makeLine = (entry, list) => (entry.family ? makeFamily(entry, list) : makeRule(entry, list));

export const updateLine = (element, entry) => (entry.family ? updateFamily(element, entry) : updateRule(element, entry));

/** A value of a parameter, as one searches for it. */
const written = (value) => (value === null ? "NULL" : typeof value === "object" ? JSON.stringify(value) : String(value));

/** What every line has: status, last result, results, trend, cost. */
function commonParts(entry) {
  return { status: statusMark(entry.status), last: ago(entry.last_result_at), results: h("span"), line: sparkFrame(), alerts: h("span", { class: "open-alerts", hidden: true }), cost: h("span", { class: "rule-cost" }) };
}

const cells = (parts) => [
  h("div", { class: "rule-status" }, parts.status, parts.alerts),
  h("div", { class: "rule-last" }, hidden("Last result "), parts.last),
  h("div", { class: "rule-results" }, parts.results, h("span", { class: "unit" }, " results")),
  h("div", { class: "rule-line" }, parts.line),
  parts.cost,
];

function updateCommon(parts, entry) {
  setStatus(parts.status, entry.status);
  setAgo(parts.last, entry.last_result_at, "no result yet");
  setText(parts.results, short(entry.n_results));
  parts.results.title = plural(entry.n_results, "result");
  parts.alerts.hidden = !entry.n_open_alerts;
  setText(parts.alerts, `${whole(entry.n_open_alerts)} open`);
  const counts = entry.trend ?? [];
  spark(parts.line, counts, { width: 80, height: 24 });
  parts.line.parentElement.title = `${plural(counts.reduce((a, b) => a + (b ?? 0), 0), "result")} in the last hour`;
  const cost = entry.cost_share === null ? entry.cost : percent(entry.cost_share);
  if (parts.costWords === cost) return;
  parts.costWords = cost;
  fill(parts.cost, hidden("Cost "), h("span", { class: "cost-words" }, cost), entry.cost_share === null ? null : bar(entry.cost_share, entry.status === "costly" ? "costly" : ""));
  parts.cost.title = `${entry.cost}: ${COSTS[entry.cost] ?? ""}${entry.cost_share === null ? "" : `; ${cost} of the measured work`}`;
}

const ownerChip = (entry, list) => (list.isAdmin && entry.owner ? h("button", { class: "chip", type: "button", title: `Only rules of ${entry.owner}`, on: { click: () => list.change({ owner: entry.owner, page: 1 }) } }, entry.owner) : null);

// ----------------------------------------------------------------------------------------------- one rule

function makeRule(rule, list) {
  const parts = { ...commonParts(rule), link: h("a", { class: "rule-link", href: `#/rules/q${rule.id}` }), text: h("span", { class: "rule-text" }), params: h("span", { class: "params" }) };
  const element = h("li", { class: "rule" }, h("div", { class: "rule-what" }, h("div", { class: "rule-name" }, parts.link, list.isInFamily ? null : ownerChip(rule, list)), parts.params, list.isInFamily ? null : parts.text), cells(parts));
  element.parts = parts;
  return element;
}

function updateRule(element, rule) {
  const { parts } = element;
  setText(parts.link, rule.name);
  if (parts.sql !== rule.text) {
    parts.sql = rule.text;
    fill(parts.text, line(rule.text.slice(0, 300)));
  }
  const paramsText = JSON.stringify(rule.params ?? {});
  if (parts.paramsText !== paramsText) {
    parts.paramsText = paramsText;
    fill(parts.params, Object.entries(rule.params ?? {}).map(([name, value]) => h("span", { class: "param" }, h("span", { class: "faint" }, `${name} `), written(value))));
    parts.params.hidden = paramsText === "{}";
  }
  updateCommon(parts, rule);
}

// ----------------------------------------------------------------------------------------------- a family

function makeFamily(family, list) {
  const id = `family-${family.family}`;
  const parts = { ...commonParts(family), count: h("span", { class: "chip plain family-count" }), statuses: h("span", { class: "family-statuses" }), list, shown: AT_ONCE };
  parts.toggle = h("button", { class: "family-toggle", type: "button", "aria-expanded": "false", "aria-controls": id, on: { click: () => open(element, parts.toggle.getAttribute("aria-expanded") !== "true") } }, icon("next"), h("span", { class: "family-name" }, family.name));
  parts.notice = h("div", { class: "family-notice" });
  parts.members = h("ul", { class: "rules", "aria-label": `Rules of ${family.name}` });
  parts.more = h("button", { class: "button little", type: "button", hidden: true, on: { click: () => { parts.shown += AT_ONCE * 2; parts.refresh(); } } });
  parts.inside = h("div", { class: "family-rules", id, hidden: true }, parts.notice, parts.members, h("div", { class: "more" }, parts.more));
  const element = h("li", { class: "family" },
    h("div", { class: "rule family-head" },
      h("div", { class: "rule-what" }, h("div", { class: "rule-name" }, parts.toggle, parts.count, ownerChip(family, list)), parts.statuses, h("span", { class: "rule-text" }, line(family.text.slice(0, 300)))),
      cells(parts)),
    parts.inside);
  element.parts = parts;
  return element;
}

function updateFamily(element, family) {
  const { parts } = element;
  parts.family = family;
  setText(parts.count, family.n_rules === family.n_all ? plural(family.n_all, "rule") : `${whole(family.n_rules)} of ${plural(family.n_all, "rule")}`);
  const several = Object.entries(family.statuses);
  const now = JSON.stringify(several);
  if (parts.now !== now) {
    parts.now = now;
    fill(parts.statuses, several.length > 1 ? several.map(([name, n]) => h("span", { class: `status ${name}`, title: STATUSES[name] }, `${whole(n)} ${name}`)) : null);
    parts.statuses.hidden = several.length < 2;
  }
  updateCommon(parts, family);
  const isFew = parts.list.filters.filter !== "" && family.n_rules <= 10; // what was searched for is in sight at once
  const isOpen = opened.has(family.family) || (isFew && !parts.isClosed);
  if (isOpen && parts.inside.hidden) open(element, true, { isRemembered: false });
  else if (isOpen) parts.refresh();
}

function open(element, isOpen, { isRemembered = true } = {}) {
  const { parts } = element;
  const { family, list } = parts;
  if (isRemembered) {
    parts.isClosed = !isOpen;
    if (isOpen) opened.add(family.family);
    else opened.delete(family.family);
  }
  parts.toggle.setAttribute("aria-expanded", String(isOpen));
  element.classList.toggle("open", isOpen);
  parts.inside.hidden = !isOpen;
  if (!isOpen) return;
  const inside = { ...list, isInFamily: true };
  const load = () => get("/queries", { ...list.filters, page: 1, family: family.family, per_page: parts.shown, trend: TREND }, { signal: list.signal });
  parts.refresh ??= refresher(parts.notice, load, (found) => {
    reconcile(parts.members, found.queries, (rule) => rule.id, (rule) => makeRule(rule, inside), updateRule);
    parts.more.hidden = found.total <= found.queries.length;
    setText(parts.more, `Show more, ${whole(found.queries.length)} of ${whole(found.total)} are here`);
  }, { signal: list.signal, what: "Loading its rules" });
  parts.refresh();
}
