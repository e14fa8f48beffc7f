// The groups of a rule as they are now: a table that is updated in place, and one group's value against the rule's threshold.

import { get } from "./api.js";
import { RoundChart } from "./charts.js";
import { arrows, fill, h, reconcile, setText } from "./dom.js";
import { exactWords, moment, plural, short, value, whole } from "./format.js";
import { every, live } from "./live.js";
import { attempt, card, empty, refresher } from "./parts.js";

const EVERY_MS = 2_500;
const SOON_MS = 300; // after a result: several come with one round
const SHOWN = 50; // groups
const LEFT_MS = 12_000; // for how long a group that left is shown as such
const POINTS = 240; // of the plot
const REST = 9; // times as long as groups took to come, until they are asked for again: a million take a second
const PAST = 500; // results that the plot begins with

const LARGEST_FIRST = [">", ">="];

/** The card of a rule with GROUP BY. */
export class RuleGroups {
  constructor(path, signal) {
    Object.assign(this, { path, signal, isAll: false, chosen: null, rows: new Map(), points: [], timer: 0, restUntil: 0, thresholds: [] });
    this.notice = h("div");
    this.count = h("span", { class: "soft small", role: "status" });
    this.all = h("button", { class: "button little", type: "button", "aria-pressed": "false", title: "Also groups that HAVING leaves out", on: { click: () => this.toggle() } }, "All groups");
    this.headRow = h("tr", { role: "row" });
    this.body = h("tbody", { role: "rowgroup" });
    this.table = h("table", { class: "table groups", role: "table", "aria-label": "Groups now", hidden: true }, h("thead", { role: "rowgroup" }, this.headRow), this.body);
    this.plot = new RoundChart({ title: "Value", unit: () => "", series: [], show: short, levels: () => this.levels() });
    this.plotNotice = h("p", { class: "soft small" }, "Choose a group to plot its value.");
    this.plot.element.hidden = true;
    this.element = card("Groups now", { tools: [this.count, this.all] }, this.notice, h("div", { class: "scroll" }, this.table), this.plotNotice, this.plot.element);
    this.element.hidden = true;
    arrows(this.body, "button.group-key");
    signal.addEventListener("abort", () => { clearTimeout(this.timer); this.plot.close(); }, { once: true });
  }

  /** Show them, once it is known that the rule has any; again is no change. */
  start() {
    if (!this.element.hidden) return;
    this.element.hidden = false;
    this.refresh = refresher(this.notice, () => this.load(), (found) => this.draw(found), { signal: this.signal, what: "Loading the groups" });
    every(EVERY_MS, () => (performance.now() < this.restUntil ? null : this.refresh()), this.signal);
  }

  /** A result came: the groups are others now. */
  hurry() {
    if (this.element.hidden || this.timer) return;
    this.timer = setTimeout(() => { this.timer = 0; this.refresh(); }, Math.max(SOON_MS, this.restUntil - performance.now()));
  }

  async load() {
    const began = performance.now();
    const [threshold] = this.thresholds;
    const order = threshold ? `${threshold.words} ${LARGEST_FIRST.includes(threshold.operator) ? "desc" : "asc"}` : null;
    const found = await get(`${this.path}/groups`, { having: !this.isAll, limit: SHOWN, order }, { signal: this.signal });
    found.chosen = found.groups.find((group) => keyOf(group) === this.chosen) ?? null;
    if (this.chosen !== null && found.chosen === null && !("window" in this.chosenKey)) {
      const where = JSON.stringify(this.chosenKey);
      const alone = await get(`${this.path}/groups`, { having: false, limit: 1, where }, { signal: this.signal });
      found.chosen = alone.groups[0] ?? null;
    }
    this.restUntil = performance.now() + REST * (performance.now() - began);
    return found;
  }

  toggle() {
    this.isAll = !this.isAll;
    this.all.setAttribute("aria-pressed", String(this.isAll));
    this.rows.clear();
    this.refresh();
  }

  draw(found) {
    this.thresholds = found.thresholds;
    setText(this.count, `${this.isAll ? `${whole(found.n_results)} of ` : ""}${plural(found.n_total, "group")} in the answer`);
    const now = Date.now();
    const come = new Map(found.groups.map((group) => [keyOf(group), { group, leftAt: null }]));
    for (const [key, row] of this.rows) {
      const leftAt = row.leftAt ?? now;
      if (!come.has(key) && found.n_total <= SHOWN && now - leftAt < LEFT_MS) come.set(key, { group: row.group, leftAt });
    }
    this.rows = come;
    this.table.hidden = come.size === 0;
    fill(this.notice, come.size ? null : empty("No group in the answer", this.isAll ? "No row that takes part has come since the rule was registered." : "Press All groups to see those that HAVING leaves out."));
    const columns = columnsOf([...come.values()].map((row) => row.group), this.thresholds);
    const heads = JSON.stringify(columns.map((c) => c.name));
    if (this.headRow.dataset.heads !== heads) {
      this.headRow.dataset.heads = heads;
      fill(this.headRow, columns.map((c) => h("th", { role: "columnheader", scope: "col" }, c.name)));
      fill(this.body);
    }
    reconcile(this.body, [...come.values()], (row) => keyOf(row.group), () => h("tr", { role: "row" }), (element, row) => this.update(element, row, columns));
    this.follow(found);
  }

  update(element, { group, leftAt }, columns) {
    const key = keyOf(group);
    const drawn = JSON.stringify([group, leftAt !== null, key === this.chosen]);
    if (element.dataset.drawn === drawn) return;
    const isChanged = element.dataset.drawn !== undefined && leftAt === null;
    element.dataset.drawn = drawn;
    element.className = leftAt === null ? (group.is_result ? "" : "is-out") : "has-left";
    if (isChanged) {
      element.classList.remove("new");
      requestAnimationFrame(() => element.classList.add("new"));
    }
    const hadFocus = element.contains(document.activeElement);
    fill(element, columns.map((c, k) => h("td", { role: "cell", data: { label: c.name } }, k ? c.of(group) : this.keyButton(group, c, leftAt))));
    if (hadFocus) element.querySelector("button")?.focus();
  }

  keyButton(group, column, leftAt) {
    const isChosen = keyOf(group) === this.chosen;
    const words = "window" in group.key ? "closed" : "left";
    return [
      h("button", { class: "group-key", type: "button", "aria-pressed": String(isChosen), title: "Plot its value", on: { click: () => this.choose(group) } }, column.of(group)),
      leftAt === null ? null : h("span", { class: "chip plain late" }, words),
      group.error ? h("span", { class: "chip plain late", title: group.error }, "error") : null,
    ];
  }

  async choose(group) {
    const key = keyOf(group);
    this.chosen = this.chosen === key ? null : key;
    this.chosenKey = group.key;
    this.points = [];
    if (this.chosen !== null) {
      await attempt(async () => {
        const past = await this.past(group);
        if (this.chosen === key) this.points = past; // else another was chosen meanwhile
      });
    }
    this.refresh();
  }

  /** The values the group had in results that are stored, where SELECT has its key and the value. */
  async past(group) {
    const name = this.thresholds[0]?.words ?? numberColumn(group);
    const found = await get(`${this.path}/results`, { newest: PAST }, { signal: this.signal });
    const isOfGroup = ({ row }) => name in row && Object.entries(group.key).every(([key, v]) => JSON.stringify(row[key]) === JSON.stringify(v));
    const after = found.results.filter((result) => ["insert", "update_postimage"].includes(result.change) && isOfGroup(result));
    return after.slice(-POINTS).map((result) => ({ round_number: result.round, at: result.at, value: Number(result.row[name]) }));
  }

  /** Take the value of the chosen group; one point for each round. */
  follow(found) {
    this.plot.element.hidden = this.chosen === null;
    this.plotNotice.hidden = this.chosen !== null;
    if (this.chosen === null) return;
    const [threshold] = this.thresholds;
    const words = threshold?.words ?? numberColumn(found.chosen);
    const current = found.chosen === null ? null : threshold ? found.chosen.compared[0] : found.chosen.row?.[words];
    if (current !== null && current !== undefined && (this.points.at(-1)?.round_number ?? 0) < found.round_number) {
      this.points.push({ round_number: found.round_number, at: live.timeOf(found.round_number) ?? new Date().toISOString(), value: Number(current) });
      if (this.points.length > POINTS) this.points.shift();
    }
    const title = `${words ?? "value"} of ${Object.entries(this.chosenKey).map(([name, v]) => `${name} ${shown(v)}`).join(", ") || "all rows"}`;
    this.plot.title = title;
    setText(this.plot.element.querySelector("h2"), title);
    this.plot.unit = () => (found.chosen === null ? "(it has left)" : "");
    this.plot.series = [{ label: "", kind: "area", of: (point) => point.value }];
    this.plot.set(this.points);
  }

  levels() {
    return this.thresholds.slice(0, 1).filter((t) => t.value !== null).map((t) => ({ value: Number(t.value), label: `${t.words} ${t.operator} ${t.value}` }));
  }
}

const keyOf = (group) => JSON.stringify(group.key);

/** A window from its start to its end; other values as they are. */
function shown(v) {
  if (v === null || typeof v !== "object" || !("start" in v)) return v === null ? "NULL" : String(v);
  const [start, end] = [moment(v.start), moment(v.end)].map((at) => exactWords(at).replace("T", " "));
  return `${start.slice(0, 16)} – ${start.slice(0, 10) === end.slice(0, 10) ? end.slice(11, 16) : end.slice(0, 16)}`;
}

/** The key, then what SELECT adds to it, then what thresholds compare. */
function columnsOf(groups, thresholds) {
  const [first] = groups;
  if (!first) return [];
  const keys = Object.keys(first.key);
  const selected = [...new Set(groups.flatMap((group) => Object.keys(group.row ?? {})))].filter((name) => !keys.includes(name));
  const compared = thresholds.map((t, k) => ({ words: t.words, k })).filter(({ words }) => !selected.includes(words));
  const ofKey = (name) => (group) => (typeof group.key[name] === "object" && group.key[name] !== null ? h("span", null, shown(group.key[name])) : value(group.key[name]));
  const all = h("span", { class: "soft" }, "all rows");
  return [
    ...(keys.length ? keys.map((name) => ({ name, of: ofKey(name) })) : [{ name: "Group", of: () => all.cloneNode(true) }]),
    ...selected.map((name) => ({ name, of: (group) => (group.row === null ? "–" : value(group.row[name])) })),
    ...compared.map(({ words, k }) => ({ name: words, of: (group) => value(group.compared[k]) })),
  ];
}

/** What to plot of a rule without a threshold: its first number. */
function numberColumn(group) {
  return Object.entries(group?.row ?? {}).find(([name, v]) => typeof v === "number" && !(name in group.key))?.[0];
}
