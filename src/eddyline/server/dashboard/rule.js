// One rule: its text, its results as they come, why rows match or do not, what it costs and shares, its alerts.

import { ApiError, drop, follow, get, part, post } from "./api.js";
import { alertItem, alertKey, messageItem, updateAlert } from "./alerts.js";
import { bars } from "./charts.js";
import { arrows, fill, h, icon, reconcile, setText, svg } from "./dom.js";
import { restore, written } from "./edit.js";
import { ago, bytes, percent, plural, setAgo, short, took, value, whole } from "./format.js";
import { RuleGroups } from "./groups.js";
import { joinFacts } from "./joins.js";
import { lineagePicture } from "./lineage.js";
import { every, live } from "./live.js";
import { attempt, card, confirm, COSTS, empty, errorNotice, facts, loading, refresher, sentence, setStatus, statusMark, toast } from "./parts.js";
import { listAddress } from "./rules.js";
import { openResult, openTry, partWords, verdicts } from "./result.js";
import { block, line } from "./sql.js";

const EVERY_MS = 2_500;
const WHY_NOT_EVERY_MS = 10_000;
const ALERTS = 20; // on the page of a rule
const KEPT = 100; // results
const SHOWN = 15; // of them, until more are requested
const SECONDS = 60; // of the little bars

export function show(main, { params, title }) {
  const stop = new AbortController();
  const key = `q${params[0]}`;
  const view = { close: () => stop.abort(), keys: {} };
  fill(main, backLink(), loading("Looking for the rule"));
  begin();
  return view;

  async function begin() {
    try {
      const rule = await get(`/queries/${key}`, null, stop);
      title(rule.name);
      Object.assign(view, page(main, rule, stop));
    } catch (error) {
      if (stop.signal.aborted) return;
      if (!(error instanceof ApiError)) throw error;
      if (error.status === 404) fill(main, backLink(), h("h1", { tabindex: "-1" }, "No such rule"), empty("This rule does not exist", "It was dropped, or belongs to another owner.", h("a", { class: "button", href: "#/rules" }, "All rules")));
      else fill(main, backLink(), errorNotice(error, begin));
    }
  }
}

const backLink = () => h("a", { class: "back", href: listAddress() }, icon("back"), "Rules");

function page(main, first, stop) {
  const { signal } = stop;
  const path = `/queries/q${first.id}`;
  const mayChange = live.may("author");
  let rule = first;

  // ------------------------------------------------------------------------------------------- head

  const state = statusMark(rule.status);
  const pauseButton = h("button", { class: "button", type: "button", title: "Pause or resume (p)", on: { click: () => setPaused(rule.state === "running") } });
  const head = h(
    "header",
    { class: "rule-head" },
    h("div", null, backLink(), h("div", { class: "rule-title" }, h("h1", { tabindex: "-1" }, rule.name), state, rule.owner ? h("span", { class: "chip plain" }, rule.owner) : null)),
    mayChange
      ? h("div", { class: "buttons" }, pauseButton, h("a", { class: "button", href: `#/rules/q${rule.id}/change`, title: "Change (e)" }, icon("edit"), "Change"), h("button", { class: "button danger", type: "button", on: { click: dropRule } }, icon("trash"), "Drop"))
      : null,
  );
  const notes = h("div", { class: "notes" });

  // ------------------------------------------------------------------------------------------- parts

  const numbers = h("dl", { class: "numbers" });
  const numberOf = (name) => {
    const shown = h("dd");
    numbers.append(h("div", null, h("dt", null, name), shown));
    return shown;
  };
  const shown = { results: numberOf("results"), last: ago(null), alerts: numberOf("open alerts"), dead: numberOf("dead letters"), share: numberOf("of the work") };
  const trend = svg("svg", { class: "trend", role: "img" });
  const trendScale = h("p", { class: "recent-scale small faint", "aria-hidden": "true" }, h("span", null, "3 hours ago"), h("span", null, "results a minute"), h("span", null, "now"));
  numbers.insertBefore(h("div", null, h("dt", null, "last result"), h("dd", null, shown.last)), numbers.children[1]);
  const sql = h("div");
  const properties = h("div", { class: "chips" });
  const since = h("p", { class: "soft small" });
  const lineage = h("div");
  const groups = new RuleGroups(path, signal);
  const results = new Results(path, rule, signal, () => groups.hurry());
  const alerts = h("ul", { class: "stack" });
  const alertNotice = h("div");
  const moreAlerts = h("p", { class: "small more-alerts" });
  const messages = h("ul", { class: "stack" });
  const alertCard = card("Alerts", {}, alertNotice, alerts, moreAlerts, h("h3", { class: "recent-title" }, "Recent messages"), messages);
  const whyNot = h("div", { class: "stack" });
  const tryButton = h("button", { class: "button little", type: "button", on: { click: () => openTry(path, nearestRow) } }, "Try a row");
  const refreshButton = h("button", { class: "button bare square little", type: "button", "aria-label": "Look again", title: "Look again", on: { click: () => refreshWhyNot() } }, icon("refresh"));
  const cost = h("div", { class: "stack" });
  let nearestRow = null;

  fill(
    main,
    head,
    notes,
    numbers,
    h("div", { class: "two" },
      h("div", { class: "stack" }, card("SQL", {}, sql, properties, since, lineage), card("Results over three hours", {}, trend, trendScale), groups.element, results.element),
      h("div", { class: "stack" }, alertCard, card("Why rows did not match", { tools: [tryButton, refreshButton] }, whyNot), card("Cost, and what it shares", {}, cost))),
  );
  main.querySelector("h1").focus({ preventScroll: true });

  // ------------------------------------------------------------------------------------------- drawing

  function draw() {
    setStatus(state, rule.status);
    const isRunning = rule.state === "running";
    fill(pauseButton, icon(isRunning ? "pause" : "play"), isRunning ? "Pause" : "Resume");
    setText(shown.results, short(rule.n_results));
    shown.results.title = whole(rule.n_results);
    setAgo(shown.last, rule.last_result_at, "none yet");
    setText(shown.alerts, whole(rule.n_open_alerts));
    shown.alerts.classList.toggle("hot", rule.n_open_alerts > 0);
    fill(shown.dead, rule.n_dead ? h("a", { href: `#/dead-letters?rule=q${rule.id}` }, short(rule.n_dead)) : "0");
    setText(shown.share, rule.cost_share === null ? "–" : percent(rule.cost_share));
    if (sql.dataset.text !== rule.text) {
      sql.dataset.text = rule.text;
      fill(sql, block(rule.text));
    }
    const counts = (rule.trend ?? []).map((n) => n ?? 0);
    bars(trend, counts, { width: 540, height: 48 });
    const total = counts.reduce((a, b) => a + b, 0);
    trend.setAttribute("aria-label", `${plural(total, "result")} in the last three hours, at most ${whole(Math.max(0, ...counts))} a minute`);
    const statedProperties = { ...written(rule.properties) };
    delete statedProperties.owner;
    const chips = [...Object.entries(rule.params ?? {}).map(([name, v]) => [`:${name}`, v === null ? "NULL" : String(v)]), ...Object.entries(statedProperties)];
    reconcile(properties, chips, ([name, v]) => `${name} ${v}`, ([name, v]) => h("span", { class: "chip plain" }, h("span", { class: "faint" }, name), v));
    fill(since, `q${rule.id} on `, h("b", null, rule.stream), ` · generation ${rule.generation} · since version ${rule.version}, `, ago(rule.registered));
    fill(
      notes,
      rule.state === "paused" ? h("p", { class: "note paused" }, "Paused: it is not evaluated until it is resumed; it skips rows that arrive in the meantime.") : null,
      rule.suspended ? h("p", { class: "note failing" }, "Suspended ", ago(rule.suspended.since), `: ${rule.suspended.why}. Change its text, or resume it once the cause is mended.`) : null,
      (rule.warnings ?? []).map((w) => h("p", { class: "note failing" }, `${sentence(w)}.`)),
    );
  }

  const refresh = refresher(alertNotice, load, update, { signal, what: "Loading alerts" });
  alertCard.hidden = !isAlertRule(rule);

  async function load() {
    try {
      return await Promise.all([get(path, null, stop), get("/alerts", { query: `q${first.id}` }, stop), get("/messages", { query: `q${first.id}`, newest: 3 }, stop)]);
    } catch (error) {
      if (error.status === 404) fill(notes, h("p", { class: "note failing" }, "This rule was dropped. What is shown is what was known last."));
      throw error;
    }
  }

  function update([now, open, recent]) {
    const isOther = now.generation !== rule.generation;
    rule = now;
    draw();
    alertCard.hidden = open.length === 0 && recent.messages.length === 0 && !isAlertRule(rule);
    reconcile(alerts, open.slice(0, ALERTS), alertKey, (alert) => alertItem(alert, { isNamed: false }), updateAlert);
    fill(moreAlerts, open.length > ALERTS ? h("a", { href: `#/alerts?${new URLSearchParams({ filter: rule.name })}` }, `and ${plural(open.length - ALERTS, "more alert")}`) : null);
    reconcile(messages, recent.messages.reverse(), (m) => m.id, (message) => messageItem(message, { isNamed: false }));
    if (!recent.messages.length) fill(messages, h("li", { class: "soft" }, "Nothing so far."));
    if (isOther) {
      results.become(rule);
      refreshWhyNot();
      refreshCost();
    }
  }

  const refreshWhyNot = refresher(whyNot, () => get(`${path}/why_not`, { last: 1000 }, stop), (found) => { nearestRow = found.nearest_row; fill(whyNot, whyNotParts(found)); }, { signal });
  const refreshCost = refresher(cost, () => get(`${path}/explain`, null, stop), (found) => { fill(lineage, lineagePicture(found.lineage, rule.name)); fill(cost, costParts(found, rule)); if (hasGroups(found)) groups.start(); }, { signal });

  // ------------------------------------------------------------------------------------------- changes

  async function setPaused(isPaused, isUndo = false) {
    const done = await attempt(() => post(`${path}/${isPaused ? "pause" : "resume"}`));
    if (!done) return;
    toast(`${rule.name} ${isPaused ? "is paused" : "is deployed again, from the next round on"}`, isUndo ? {} : { undo: () => setPaused(!isPaused, true) });
    await refresh();
  }

  async function dropRule() {
    const isSure = await confirm(`Drop ${rule.name}?`, `It is not evaluated on any later round. Its ${plural(rule.n_results, "result")} stay readable as long as results are stored; its open alerts resolve.`, "Drop rule");
    if (!isSure) return;
    const dropped = rule;
    if (!(await attempt(() => drop(path)))) return;
    live.hurry();
    location.hash = "#/rules";
    toast(`${dropped.name} was dropped`, { undo: () => restore(dropped), label: "Register it again" });
  }

  draw();
  results.start();
  every(EVERY_MS, refresh, signal);
  every(WHY_NOT_EVERY_MS, async () => { await refreshWhyNot(); await refreshCost(); }, signal);
  const keys = { Escape: () => { location.hash = listAddress(); }, h: () => results.toggle() };
  if (mayChange) Object.assign(keys, { p: () => setPaused(rule.state === "running"), e: () => { location.hash = `#/rules/q${rule.id}/change`; } });
  return { keys };
}

/** Whether groups are kept for a rule, that is, not only rows over their frames. */
const hasGroups = (explained) => explained.state === "running" && !explained.branches.length && explained.aggregates.some((each) => each.structures.some((s) => s.kind !== "over"));

const isAlertRule = (rule) => ["per", "cooldown", "for", "resolve", "message", "severity"].some((name) => name in rule.properties);

// ----------------------------------------------------------------------------------------------- results

/** The newest results, and those that come, newest on top. */
class Results {
  constructor(path, rule, signal, onResult) {
    Object.assign(this, { path, signal, onResult, waiting: [], isHeld: false, isLoaded: false, nSeen: 0 });
    this.counts = new Array(SECONDS).fill(0);
    this.second = Math.floor(Date.now() / 1000);
    this.button = h("button", { class: "button little", type: "button", "aria-pressed": "false", title: "Hold or follow (h)", on: { click: () => this.toggle() } });
    this.state = h("span", { class: "stream-state", role: "status" }, "connecting…");
    this.scale = h("p", { class: "recent-scale small faint", "aria-hidden": "true" }, h("span", null, "a minute ago"), h("span", null, "results a second"), h("span", null, "now"));
    this.recent = svg("svg", { class: "recent", role: "img", "aria-label": "Results in each second of the last minute" });
    this.notice = h("div");
    this.body = h("tbody", { role: "rowgroup" });
    this.headRow = h("tr", { role: "row" });
    this.table = h("table", { class: "table results few", role: "table", "aria-label": "Results, newest first", hidden: true }, h("thead", { role: "rowgroup" }, this.headRow), this.body);
    this.more = h("button", { class: "button little", type: "button", hidden: true, on: { click: () => this.showAll() } });
    this.element = card("Results", { tools: [this.state, this.button] }, this.recent, this.scale, this.notice, h("div", { class: "scroll" }, this.table), h("div", { class: "more" }, this.more));
    arrows(this.body, "button.why");
    this.button.append(icon("pause"), "Hold");
    this.become(rule);
  }

  /** Another text may give other columns. */
  become(rule) {
    this.rule = rule;
    this.columns = (rule.columns ?? []).map((c) => c.name);
    const head = (name, className) => h("th", { role: "columnheader", scope: "col", class: className }, name);
    fill(this.headRow, head("When"), this.columns.map((name) => head(name)), head(h("span", { class: "sr" }, "Why")));
    fill(this.body);
    this.drawEmpty();
  }

  drawEmpty() {
    this.table.hidden = this.body.childElementCount === 0;
    const nMore = this.body.childElementCount - SHOWN;
    this.more.hidden = nMore <= 0 || !this.table.classList.contains("few");
    setText(this.more, `Show ${nMore} more`);
    if (!this.isLoaded) return undefined; // loading is not "no result yet"
    if (!this.table.hidden) return fill(this.notice);
    const words = this.rule.state === "running" ? "It is deployed: the next matching row appears here. Beside this list, you see which conditions stopped the last rows." : "It is not evaluated now.";
    return fill(this.notice, empty("No result yet", words));
  }

  showAll() {
    this.table.classList.remove("few");
    this.drawEmpty();
    this.body.children[SHOWN]?.querySelector("button.why")?.focus();
  }

  start() {
    const load = () => get(`${this.path}/results`, { newest: KEPT }, { signal: this.signal });
    refresher(this.notice, load, (found) => this.begin(found), { signal: this.signal, what: "Loading results" })();
  }

  begin(found) {
    const next = found.next ?? "0";
    this.isLoaded = true;
    this.waiting.push(...found.results);
    this.flush();
    this.drawEmpty();
    const clock = setInterval(() => this.beat(), 500);
    this.signal.addEventListener("abort", () => clearInterval(clock), { once: true });
    follow("/results/stream", { query: `q${this.rule.id}` }, {
      after: next, signal: this.signal, onEvent: (event) => this.take(event),
      state: (state) => {
        const words = state === "live" ? "live" : state === "waiting" ? "reconnecting…" : sentence(state.problem);
        this.state.dataset.state = state === "live" ? "live" : "waiting";
        setText(this.state, words);
      },
    });
  }

  take(event) {
    if (event.event === "lost") return toast(event.data.n === null ? `Up to ${plural(event.data.at_most, "result")} are no longer stored` : `${plural(event.data.n, "result")} are no longer stored`, { kind: "wrong" });
    if (event.event !== "result") return undefined;
    this.counts[SECONDS - 1] += 1;
    this.nSeen += 1;
    this.waiting.push({ ...event.data, receivedAt: new Date(), isNew: true });
    this.onResult();
    if (this.waiting.length > 5 * KEPT) this.waiting.splice(0, this.waiting.length - KEPT);
    return undefined;
  }

  beat() {
    const second = Math.floor(Date.now() / 1000);
    for (; this.second < second; this.second += 1) {
      this.counts.shift();
      this.counts.push(0);
    }
    bars(this.recent, this.counts, { width: 480, height: 32 });
    this.flush();
  }

  toggle() {
    this.isHeld = !this.isHeld;
    this.button.setAttribute("aria-pressed", String(this.isHeld));
    this.flush();
  }

  flush() {
    const isHeld = this.isHeld || document.querySelector("dialog[open]") !== null;
    const words = isHeld && this.waiting.length ? `${this.waiting.length > KEPT ? `${KEPT}+` : this.waiting.length} waiting` : this.isHeld ? "Follow" : "Hold";
    const drawn = `${this.isHeld ? "play" : "pause"} ${words}`;
    if (this.button.dataset.drawn !== drawn) {
      this.button.dataset.drawn = drawn;
      fill(this.button, icon(this.isHeld ? "play" : "pause"), words);
    }
    if (isHeld || !this.waiting.length) return;
    const come = this.waiting.splice(0).slice(-KEPT);
    this.body.prepend(...come.reverse().map((result) => this.row(result)));
    while (this.body.childElementCount > KEPT) this.body.lastElementChild.remove();
    this.drawEmpty();
  }

  row(result) {
    const at = result.at ?? live.timeOf(result.round) ?? result.receivedAt ?? null;
    const open = () => openResult(result, this.rule);
    const cell = (name, ...what) => h("td", { role: "cell", data: { label: name } }, what);
    const when = at ? ago(at) : h("span", { class: "soft" }, `round ${result.round}`);
    return h(
      "tr",
      { role: "row", class: result.isNew ? "new" : "", data: { cursor: result.cursor }, on: { click: (event) => !event.target.closest("button, a") && !String(getSelection()) && open() } },
      cell("When", when, result.is_late ? h("span", { class: "chip plain late", title: "It arrived after its stream's watermark" }, "late") : null, changeChip(result.change)),
      this.columns.map((name) => cell(name, value(result.row[name]))),
      h("td", { role: "cell", class: "action" }, h("button", { class: "button little why", type: "button", "aria-label": `Why did result ${result.cursor} match?`, on: { click: open } }, "Why")),
    );
  }
}

const CHANGES = { delete: "retracted", update_preimage: "before update", update_postimage: "updated" };

const changeChip = (change) => (change in CHANGES ? h("span", { class: "chip plain late" }, CHANGES[change]) : null);

// ----------------------------------------------------------------------------------------------- why not

function whyNotParts(found) {
  return found.part ? [found, ...found.others].map((each) => h("section", { class: "stack-small" }, partWords(each), whyNotPart(each))) : whyNotPart(found);
}

/** A query, or one part of a query with UNION ALL. */
function whyNotPart(found) {
  if (found.inputs) return joinWhyNotParts(found);
  if (found.groups) return groupWhyNotParts(found);
  if (found.n_rows === 0) return empty("No rows since it was deployed", found.notes?.length ? sentence(found.notes.join("; ")) : "When rows arrive, this shows which condition stops them.");
  return [
    h("p", { class: "soft" }, h("b", null, whole(found.n_matched)), ` of the last ${plural(found.n_rows, "row")} matched.`, found.n_in_error ? ` ${whole(found.n_in_error)} could not be decided.` : ""),
    ...stopParts(found, "It has no condition: every row matches."),
  ];
}

/** Aggregates: what stops rows of the stream, then groups or windows, and which of these came nearest. */
function groupWhyNotParts(found) {
  const { below } = found;
  const counted = found.noun === "row" ? ` of the last ${plural(found.n_rows, "row")} matched.` : ` of ${plural(found.n_rows, found.noun)} are in the answer.`;
  return [
    below.n_rows ? h("p", { class: "soft" }, h("b", null, whole(below.n_matched)), ` of the last ${plural(below.n_rows, "row")} take part.`) : null,
    below.n_rows && below.conditions.length ? h("ul", { class: "stops" }, below.conditions.map((text, k) => h("li", { class: "stop" }, line(text), stopBar({ stopped: below.stopped[k], alone: 0 }, below.n_rows), h("span", { class: "small soft" }, `stopped ${whole(below.stopped[k])}`)))) : null,
    h("p", { class: "soft" }, h("b", null, whole(found.n_matched)), counted, found.n_in_error ? ` ${whole(found.n_in_error)} in error.` : ""),
    ...stopParts({ ...found, nearest: null }, "It has no condition on them."),
    found.groups.map((group, k) => h("div", { class: "nearest" }, h("h3", null, k ? "Then" : "Nearest miss"), rowPairs({ ...group.group, ...group.values }), verdicts(group.clauses), group.notes.map((note) => h("p", { class: "soft small" }, sentence(note))))),
  ];
}

/** A join: what stops the rows of each stream alone, and then pairs of them. */
function joinWhyNotParts(found) {
  const sides = found.inputs.map((side) => h("div", { class: "stack-small" },
    h("h3", null, side.input),
    h("p", { class: "soft" }, h("b", null, whole(side.n_passed)), ` of the last ${plural(side.n_rows, "row")} pass its own conditions.`, Object.entries(side.without_partner).filter(([, n]) => n).map(([other, n]) => ` ${plural(n, "row")} found no partner in ${other}.`)),
    side.conditions.length ? h("ul", { class: "stops" }, side.conditions.map((text, k) => h("li", { class: "stop" }, line(text), stopBar({ stopped: side.stopped[k], alone: 0 }, Math.max(1, side.n_rows)), h("span", { class: "small soft" }, `stopped ${whole(side.stopped[k])}`)))) : null));
  return [
    h("p", { class: "soft" }, h("b", null, whole(found.n_matched)), ` of ${plural(found.n_rows, "pair")} of the last rows matched.`),
    ...sides,
    ...stopParts(found, "No condition is about both: every pair matches."),
  ];
}

function stopParts(found, none) {
  const most = Math.max(1, found.n_rows);
  const rows = found.conditions.map((text, k) => ({ text, stopped: found.stopped[k], alone: found.stopped_alone[k] }));
  const nearest = found.nearest && found.nearest_row;
  return [
    (found.notes ?? []).map((note) => h("p", { class: "warning" }, sentence(note))),
    rows.length
      ? h("ul", { class: "stops", "aria-label": "How many rows each condition stopped" }, rows.map((r) => h("li", { class: "stop" }, line(r.text), stopBar(r, most), h("span", { class: "small soft" }, `stopped ${whole(r.stopped)}, ${percent(r.stopped / most)}`, r.alone ? h("span", { class: "alone" }, ` · ${whole(r.alone)} by this alone`) : ""))))
      : h("p", { class: "soft" }, none),
    nearest ? h("div", { class: "nearest" }, h("h3", null, "Nearest miss"), verdicts(found.nearest.clauses), h("details", { class: "small" }, h("summary", null, "the whole row"), rowPairs(found.nearest_row))) : null,
  ];
}

function stopBar({ stopped, alone }, most) {
  const all = h("i", { class: "all" });
  const only = h("i", { class: "only" });
  all.style.width = `${(stopped / most) * 100}%`;
  only.style.width = `${(alone / most) * 100}%`;
  return h("span", { class: "bar stacked", "aria-hidden": "true" }, all, only);
}

const rowPairs = (row) => h("dl", { class: "pairs" }, Object.entries(row).map(([name, v]) => h("div", null, h("dt", null, name), h("dd", null, value(v)))));

// ----------------------------------------------------------------------------------------------- cost

const SERVED = { index: "index", pairs: "remaining pairs", residual: "computed", function: "function", constant: "once" };

/** A condition that is a filter: the rules that share it, and its place in the order. */
function filterWords(filter, stream) {
  const others = filter.n_others ? `shared with ${plural(filter.n_others, "other rule")}` : "of this rule alone";
  const rate = filter.pass_rate === null || filter.pass_rate === undefined ? "" : `, passes ${percent(filter.pass_rate)}`;
  const words = filter.place === null ? `${others}; it has not run on any row yet` : `${others}; ${took(filter.cost_s)} a row${rate}`;
  const place = filter.place === null ? "a filter" : `filter ${filter.place} of ${filter.n_filters}`;
  return h("span", { class: "small soft filter-words" }, stream === null ? place : h("a", { href: `#/streams/${part(stream)}/filters` }, place), `, ${words}`);
}

/** What a class of the rule keeps, and with how many rules it shares that. */
function aggregateFacts(found) {
  const counted = (s) => [["group", s.groups], ["slice", s.slices], ["row", s.rows]].filter(([, n]) => n !== null).map(([noun, n]) => plural(n, noun)).join(", ");
  return [
    ["aggregates", [line(found.words), found.n_queries > 1 ? h("div", { class: "small soft" }, `rows shared with ${plural(found.n_queries - 1, "other rule")}`) : null]],
    ...found.structures.map((s) => ["kept", [`${counted(s)}, ${bytes(s.nbytes)}`, h("div", { class: "small soft" }, s.words.join("; "), s.deadline ? [", time changes it ", ago(s.deadline)] : null)]]),
  ];
}

function costParts(explained, rule) {
  const { index, functions = [], n_sharing: nSharing } = explained;
  const others = Math.max(0, (nSharing ?? 1) - 1);
  return [
    h("p", null, h("b", null, sentence(rule.cost)), h("span", { class: "soft" }, `: ${COSTS[rule.cost] ?? ""}.`)),
    facts([
      ["share of the work", rule.cost_share === null ? "not measured yet" : percent(rule.cost_share)],
      ...(explained.join && !explained.branches?.length ? joinFacts(explained.join) : []),
      ...(explained.aggregates ?? []).flatMap(aggregateFacts),
      ["same shape", others ? `${plural(others, "other rule")}: parsed, bound and stored once` : "no other rule"],
      index ? ["served by", `${index.kind}${index.attributes.length ? ` on ${index.attributes.join(", ")}` : ""}, ${index.n_queries > 1 ? `with ${plural(index.n_queries - 1, "other rule")}` : "for this rule alone"}`] : null,
      index?.n_rows ? ["that takes", `${took(index.ns_per_row / 1e9)} a row, for all of them`] : null,
      index?.n_rows ? ["matches a row", short(index.hits_per_row)] : null,
      ...functions.map((f) => [`calls ${f.name}`, `${plural(f.n_calls, "call")} on ${plural(f.n_rows, "row")}, ${took(f.seconds)}${f.n_failed ? `, ${whole(f.n_failed)} failed` : ""} · version ${f.version}`]),
    ]),
    explained.branches?.length
      ? explained.branches.map((part, k) => [h("h3", null, `Part ${k + 1}: ${part.stream}`), part.join ? facts(joinFacts(part.join)) : null, servedList(part)])
      : servedList(explained),
  ];
}

function servedList({ conditions = [], join, stream }) {
  if (!conditions.length) return null;
  return h("ul", { class: "served", "aria-label": "How each condition is evaluated" }, conditions.map((c) => h("li", { title: c.structure ?? "" }, h("span", { class: `served-by ${c.served_by}` }, SERVED[c.served_by] ?? c.served_by), h("span", null, line(c.text), c.filter ? filterWords(c.filter, join ? null : stream) : null))));
}

