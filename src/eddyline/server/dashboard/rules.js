// My rules: which fire, are silent, fail or cost much, and how each fares.

import { ApiError, get, isAbort } from "./api.js";
import { spark, sparkFrame } from "./charts.js";
import { arrows, fill, h, hidden, icon, reconcile, say } from "./dom.js";
import { ago, percent, plural, setAgo, short, whole } from "./format.js";
import { every, live } from "./live.js";
import { bar, COSTS, empty, heading, loading, mood, MOODS, setMood, trouble } from "./parts.js";
import { block, example, line } from "./sql.js";

const TILES = ["firing", "failing", "costly", "matching", "silent", "paused"];
const SORTS = { mood: "needs attention", last: "latest result", results: "most results", cost: "highest cost", name: "name" };
const FIRST = "mood"; // how the list is sorted unless asked otherwise
const EVERY_MS = 2_500;
const SEEN = 24; // how many looks back the little line goes

let left = "#/rules"; // how the list was when it was last seen

/** The list as it was left: searched, filtered, sorted. */
export const listAddress = () => left;

const counts = new Map(); // rule id -> results at each look; kept while the page is open, so that coming back shows it at once

export function show(main, { query, title }) {
  const stop = new AbortController();
  const { signal } = stop;
  const isAdmin = live.may("admin");
  const asked = {
    filter: query.get("filter") ?? "",
    mood: query.get("mood") ?? "",
    owner: query.get("owner"),
    sort: query.get("sort") ?? FIRST,
    page: Number(query.get("page") ?? 1),
  };
  let asking = new AbortController();
  let timer = 0;
  title(isAdmin ? "Rules" : "My rules");
  left = location.hash;

  const search = h("input", {
    class: "input", type: "search", placeholder: "Search names and SQL", "aria-label": "Search names and SQL", value: asked.filter, autocomplete: "off", spellcheck: "false",
    on: { input: () => { clearTimeout(timer); timer = setTimeout(() => change({ filter: search.value, page: 1 }), 150); } },
  });
  search.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowDown") return;
    event.preventDefault();
    list.querySelector("a.rule-link")?.focus();
  });
  const sort = h("select", { class: "input sort", "aria-label": "Sort by", on: { change: () => change({ sort: sort.value, page: 1 }) } },
    Object.entries(SORTS).map(([value, words]) => h("option", { value, selected: value === asked.sort }, `Sort: ${words}`)));
  const tiles = h("div", { class: "tiles", role: "group", "aria-label": "Filter by how rules fare" });
  const owner = h("div", { class: "chosen" });
  const list = h("ul", { class: "rules", "aria-label": "Rules" });
  const columns = h("div", { class: "rule-columns", "aria-hidden": "true" }, ["Rule", "Mood", "Last result", "Results", "Lately", "Cost"].map((c) => h("span", null, c)));
  const pages = h("nav", { class: "pages", "aria-label": "Pages" });
  const place = h("div", { class: "card flush" }, columns, list);
  const notice = h("div", null, loading("Looking at the rules"));
  place.hidden = true;
  arrows(list, "a.rule-link");

  const add = live.may("author") ? h("a", { class: "button main", href: "#/new", title: "New rule (n)" }, icon("plus"), "New rule") : null;
  fill(
    main,
    heading(isAdmin ? "Rules" : "My rules", add),
    tiles,
    h("div", { class: "bar-of-tools" }, h("div", { class: "search" }, icon("search"), search, h("kbd", { "aria-hidden": "true" }, "/")), owner, sort),
    notice,
    place,
    pages,
  );

  function change(what) {
    Object.assign(asked, what);
    const kept = Object.entries(asked).filter(([name, value]) => value !== "" && value !== null && !(name === "page" && value === 1) && !(name === "sort" && value === FIRST));
    const text = new URLSearchParams(kept).toString();
    left = `#/rules${text ? `?${text}` : ""}`;
    history.replaceState(null, "", left);
    ask();
  }

  async function ask() {
    asking.abort();
    asking = new AbortController();
    try {
      draw(await get("/queries", { ...asked, per_page: 50 }, { signal: AbortSignal.any([signal, asking.signal]) }));
    } catch (error) {
      if (isAbort(error)) return;
      if (!(error instanceof ApiError)) throw error;
      if (place.hidden || !error.isOffline) fill(notice, trouble(error, ask));
    }
  }

  function draw(found) {
    drawTiles(found.moods);
    fill(owner, asked.owner === null ? null : h("button", { class: "chip", type: "button", "aria-label": `Rules of ${asked.owner || "nobody"} only; press for all owners`, on: { click: () => change({ owner: null, page: 1 }) } }, `owner ${asked.owner || "none"}`, icon("close")));
    const n = Object.values(found.moods).reduce((a, b) => a + b, 0);
    const isFiltered = asked.filter !== "" || asked.mood !== "" || asked.owner !== null;
    place.hidden = found.queries.length === 0;
    if (found.queries.length) fill(notice);
    else if (asked.page > 1 && found.total) change({ page: 1 });
    else fill(notice, isFiltered || n ? nothingFound() : firstSteps(isAdmin));
    for (const rule of found.queries) note(rule);
    reconcile(list, found.queries, (rule) => rule.id, make, update);
    drawPages(found);
  }

  function drawTiles(moods) {
    const all = Object.values(moods).reduce((a, b) => a + b, 0);
    const shown = [["", "all", all], ...TILES.map((name) => [name, name, moods[name] ?? 0])];
    if (moods.suspended) shown.push(["suspended", "suspended", moods.suspended]);
    reconcile(tiles, shown, ([name]) => name || "all", ([name, words]) => {
      const press = () => change({ mood: asked.mood === name ? "" : name, page: 1 });
      return h("button", { class: `tile ${name || "all"}`, type: "button", title: MOODS[name] ?? "All rules", on: { click: press } }, h("span", { class: "tile-count" }), h("span", { class: "tile-name" }, h("i", { class: "dot" }), words));
    }, (element, [name, , n]) => {
      say(element.firstElementChild, short(n));
      element.setAttribute("aria-pressed", String(asked.mood === name));
      element.classList.toggle("none", n === 0);
    });
  }

  function nothingFound() {
    const clear = h("button", { class: "button", type: "button", on: { click: () => { search.value = ""; change({ filter: "", mood: "", owner: null, page: 1 }); } } }, "Show all rules");
    const what = asked.mood ? `No rule is ${asked.mood}` : "No rule fits";
    return empty(asked.filter ? `${what} with “${asked.filter}” in its name or text` : what, MOODS[asked.mood] ? `That would be: ${MOODS[asked.mood].toLowerCase()}.` : null, clear);
  }

  function make(rule) {
    const parts = {
      link: h("a", { class: "rule-link", href: `#/rules/q${rule.id}` }),
      owner: isAdmin && rule.owner ? h("button", { class: "chip", type: "button", title: `Only rules of ${rule.owner}`, on: { click: () => change({ owner: rule.owner, page: 1 }) } }, rule.owner) : null,
      text: h("span", { class: "rule-text" }),
      mood: mood(rule.mood),
      last: ago(rule.last_result_at),
      results: h("span"),
      line: sparkFrame(),
      alerts: h("span", { class: "open-alerts", hidden: true }),
      cost: h("span", { class: "rule-cost" }),
    };
    const element = h(
      "li",
      { class: "rule" },
      h("div", { class: "rule-what" }, h("div", { class: "rule-name" }, parts.link, parts.owner), parts.text),
      h("div", { class: "rule-mood" }, parts.mood, parts.alerts),
      h("div", { class: "rule-last" }, hidden("Last result "), parts.last),
      h("div", { class: "rule-results" }, parts.results, h("span", { class: "unit" }, " results")),
      h("div", { class: "rule-line" }, parts.line),
      parts.cost,
    );
    element.parts = parts;
    return element;
  }

  function update(element, rule) {
    const { parts } = element;
    say(parts.link, rule.name);
    if (parts.sql !== rule.text) {
      parts.sql = rule.text;
      fill(parts.text, line(rule.text.slice(0, 300)));
    }
    setMood(parts.mood, rule.mood);
    setAgo(parts.last, rule.last_result_at, "no result yet");
    say(parts.results, short(rule.n_results));
    parts.results.title = plural(rule.n_results, "result");
    parts.alerts.hidden = !rule.n_open_alerts;
    say(parts.alerts, `${whole(rule.n_open_alerts)} open`);
    spark(parts.line, grown(rule.id), { width: 80, height: 24 });
    const cost = rule.cost_share === null ? rule.cost : percent(rule.cost_share);
    if (parts.costWords !== cost) {
      parts.costWords = cost;
      fill(parts.cost, hidden("Cost "), h("span", { class: "cost-words" }, cost), rule.cost_share === null ? null : bar(rule.cost_share, rule.mood === "costly" ? "costly" : ""));
      parts.cost.title = `${rule.cost}: ${COSTS[rule.cost] ?? ""}${rule.cost_share === null ? "" : `; ${cost} of the measured work`}`;
    }
  }

  function drawPages(found) {
    fill(pages);
    if (found.n_pages < 2) return;
    const to = (page, words, picture) => h("button", { class: "button little", type: "button", disabled: page < 1 || page > found.n_pages, on: { click: () => { change({ page }); window.scrollTo(0, 0); } } }, picture === "back" ? icon("back") : null, words, picture === "next" ? icon("next") : null);
    fill(pages, to(found.page - 1, "Before", "back"), h("span", { class: "soft small" }, `${whole((found.page - 1) * 50 + 1)}–${whole(Math.min(found.page * 50, found.total))} of ${whole(found.total)}`), to(found.page + 1, "Next", "next"));
  }

  drawTiles({});
  every(EVERY_MS, ask, signal);
  return { close: () => { stop.abort(); asking.abort(); clearTimeout(timer); }, search: () => { search.focus(); search.select(); } };
}

function note(rule) {
  const seen = counts.get(rule.id) ?? [];
  seen.push(rule.n_results);
  if (seen.length > SEEN + 1) seen.shift();
  counts.set(rule.id, seen);
}

/** How many results came between one look and the next. */
function grown(id) {
  const seen = counts.get(id) ?? [];
  return seen.slice(1).map((n, k) => Math.max(0, n - seen[k]));
}

/** Nothing there: no stream, or a stream and no rule on it. */
function firstSteps(isAdmin) {
  const [stream] = [...live.streams].sort((a, b) => b.n_rows - a.n_rows);
  if (stream === undefined) {
    return empty(
      "No stream yet",
      isAdmin ? "Rules stand on a stream: say which columns its rows have, then send rows or let a pipeline read them." : "Rules stand on a stream. Ask whoever runs this engine to declare one.",
      isAdmin ? h("a", { class: "button main", href: "#/streams?add=1" }, icon("plus"), "Declare a stream") : null,
    );
  }
  if (!live.may("author")) return empty("No rule yet", "This token reads only. Rules are registered with a token of role author.");
  const text = example(stream);
  return empty(
    "No rule yet",
    `A rule is a SELECT that stands: every row of a stream it matches is a result. Stream ${stream.name} has ${plural(stream.n_rows, "row")} so far. For example:`,
    h("div", { class: "example" }, block(text)),
    h("a", { class: "button main", href: `#/new?${new URLSearchParams({ text, name: "my_first_rule" })}` }, "Begin with this"),
  );
}
