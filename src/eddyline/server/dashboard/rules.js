// My rules: which fire, are silent, fail or cost much, and how each fares.

import { get } from "./api.js";
import { arrows, fill, h, icon, reconcile, setText } from "./dom.js";
import { plural, short, whole } from "./format.js";
import { every, live } from "./live.js";
import { empty, heading, refresher, STATUSES } from "./parts.js";
import { lineKey, makeLine, TREND, updateLine } from "./rule_lines.js";
import { block, example } from "./sql.js";

const TILES = ["firing", "failing", "costly", "matching", "silent", "paused"];
const SORTS = { status: "needs attention", last: "latest result", results: "most results", cost: "highest cost", name: "name" };
const FIRST = "status"; // how the list is sorted by default
const EVERY_MS = 2_500;
const PER_PAGE = 50;

let address = "#/rules"; // address of the list, with its filters, when it was last shown

/** The address of the list as it was last shown: searched, filtered, sorted. */
export const listAddress = () => address;

export function show(main, { query, title }) {
  const stop = new AbortController();
  const { signal } = stop;
  const isAdmin = live.may("admin");
  const filters = {
    filter: query.get("filter") ?? "",
    status: query.get("status") ?? "",
    owner: query.get("owner"),
    sort: query.get("sort") ?? FIRST,
    page: Number(query.get("page") ?? 1),
  };
  let pending = new AbortController();
  let timer = 0;
  title(isAdmin ? "Rules" : "My rules");
  address = location.hash;

  const what = "Search names, SQL and parameters";
  const search = h("input", {
    class: "input", type: "search", placeholder: what, "aria-label": what, title: "Also one parameter: sym=ACME", value: filters.filter, autocomplete: "off", spellcheck: "false",
    on: { input: () => { clearTimeout(timer); timer = setTimeout(() => change({ filter: search.value, page: 1 }), 150); } },
  });
  search.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowDown") return;
    event.preventDefault();
    list.querySelector("a.rule-link, button.family-toggle")?.focus();
  });
  const sort = h("select", { class: "input sort", "aria-label": "Sort by", on: { change: () => change({ sort: sort.value, page: 1 }) } },
    Object.entries(SORTS).map(([value, words]) => h("option", { value, selected: value === filters.sort }, `Sort: ${words}`)));
  const tiles = h("div", { class: "tiles", role: "group", "aria-label": "Filter by status" });
  const owner = h("div", { class: "chosen" });
  const list = h("ul", { class: "rules", "aria-label": "Rules" });
  const columns = h("div", { class: "rule-columns", "aria-hidden": "true" }, ["Rule", "Status", "Last result", "Results", "Last hour", "Cost"].map((c) => h("span", null, c)));
  const pages = h("nav", { class: "pages", "aria-label": "Pages" });
  const place = h("div", { class: "card flush" }, columns, list);
  const notice = h("div");
  place.hidden = true;
  arrows(list, "a.rule-link, button.family-toggle");

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

  function change(to) {
    Object.assign(filters, to);
    const entries = Object.entries(filters).filter(([name, value]) => value !== "" && value !== null && !(name === "page" && value === 1) && !(name === "sort" && value === FIRST));
    const text = new URLSearchParams(entries).toString();
    address = `#/rules${text ? `?${text}` : ""}`;
    history.replaceState(null, "", address);
    refresh();
  }

  const refresh = refresher(notice, () => {
    pending.abort();
    pending = new AbortController();
    return get("/queries", { ...filters, fold: true, trend: TREND, per_page: PER_PAGE }, { signal: AbortSignal.any([signal, pending.signal]) });
  }, draw, { signal, what: "Loading the rules" });

  function draw(found) {
    drawTiles(found.statuses);
    fill(owner, filters.owner === null ? null : h("button", { class: "chip", type: "button", "aria-label": `Rules of ${filters.owner || "no owner"} only; press for all owners`, on: { click: () => change({ owner: null, page: 1 }) } }, `owner ${filters.owner || "none"}`, icon("close")));
    const n = Object.values(found.statuses).reduce((a, b) => a + b, 0);
    const isFiltered = filters.filter !== "" || filters.status !== "" || filters.owner !== null;
    place.hidden = found.lines.length === 0;
    if (found.lines.length) fill(notice);
    else if (filters.page > 1 && found.total) return change({ page: 1 });
    else fill(notice, isFiltered || n ? nothingFound() : firstSteps(isAdmin));
    reconcile(list, found.lines, lineKey, (entry) => makeLine(entry, { filters, change, isAdmin, signal }), updateLine);
    return drawPages(found);
  }

  /** Without `statuses` nothing is known yet. */
  function drawTiles(statuses) {
    const of = (name) => (statuses === null ? null : (statuses[name] ?? 0));
    const all = statuses === null ? null : Object.values(statuses).reduce((a, b) => a + b, 0);
    const shown = [["", "all", all], ...TILES.map((name) => [name, name, of(name)])];
    if (statuses?.suspended) shown.push(["suspended", "suspended", statuses.suspended]);
    reconcile(tiles, shown, ([name]) => name || "all", ([name, words]) => {
      const press = () => change({ status: filters.status === name ? "" : name, page: 1 });
      return h("button", { class: `tile ${name || "all"}`, type: "button", title: STATUSES[name] ?? "All rules", on: { click: press } }, h("span", { class: "tile-count" }), h("span", { class: "tile-name" }, h("i", { class: "dot" }), words));
    }, (element, [name, , n]) => {
      setText(element.firstElementChild, n === null ? "–" : short(n));
      element.setAttribute("aria-pressed", String(filters.status === name));
      element.classList.toggle("none", !n);
    });
  }

  function nothingFound() {
    const clear = h("button", { class: "button", type: "button", on: { click: () => { search.value = ""; change({ filter: "", status: "", owner: null, page: 1 }); } } }, "Show all rules");
    const words = filters.status ? `No rule is ${filters.status}` : "No rule matches";
    return empty(filters.filter ? `${words} with “${filters.filter}” in its name, text or parameters` : words, STATUSES[filters.status] ? `That would be: ${STATUSES[filters.status].toLowerCase()}.` : null, clear);
  }

  function drawPages(found) {
    fill(pages);
    if (found.n_pages < 2) return;
    const to = (page, words, picture) => h("button", { class: "button little", type: "button", disabled: page < 1 || page > found.n_pages, on: { click: () => { change({ page }); window.scrollTo(0, 0); } } }, picture === "back" ? icon("back") : null, words, picture === "next" ? icon("next") : null);
    fill(pages, to(found.page - 1, "Previous", "back"), h("span", { class: "soft small" }, `${whole((found.page - 1) * PER_PAGE + 1)}–${whole(Math.min(found.page * PER_PAGE, found.n_lines))} of ${whole(found.n_lines)}`), to(found.page + 1, "Next", "next"));
  }

  drawTiles(null);
  every(EVERY_MS, refresh, signal);
  return { close: () => { stop.abort(); pending.abort(); clearTimeout(timer); }, search: () => { search.focus(); search.select(); } };
}

/** Nothing there: no stream, or a stream and no rule on it. */
function firstSteps(isAdmin) {
  const [stream] = [...live.streams].sort((a, b) => b.n_rows - a.n_rows);
  if (stream === undefined) {
    return empty(
      "No stream yet",
      isAdmin ? "Rules read a stream: declare its columns, then send rows or let a pipeline read them." : "Rules read a stream. Ask an admin of this engine to declare one.",
      isAdmin ? h("a", { class: "button main", href: "#/streams?add=1" }, icon("plus"), "Declare a stream") : null,
    );
  }
  if (!live.may("author")) return empty("No rule yet", "This token reads only. Rules are registered with a token of role author.");
  const text = example(stream);
  return empty(
    "No rule yet",
    `A rule is a standing SELECT: every row of a stream it matches is a result. Stream ${stream.name} has ${plural(stream.n_rows, "row")} so far. For example:`,
    h("div", { class: "example" }, block(text)),
    h("a", { class: "button main", href: `#/new?${new URLSearchParams({ text, name: "my_first_rule" })}` }, "Begin with this"),
  );
}
