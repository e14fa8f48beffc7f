// The expensive conditions of one stream: in which order they run and ran, what each costs, what sharing saves, what changed and why.

import { get, part } from "./api.js";
import { fill, h, icon } from "./dom.js";
import { percent, plural, short, took, whole } from "./format.js";
import { every } from "./live.js";
import { badge, OrderChart, steps } from "./order_chart.js";
import { bar, card, empty, heading, refresher, table } from "./parts.js";
import { line } from "./sql.js";

const EVERY_MS = 2_500;
const LATEST = 12; // changes
const SHOWN = 100; // filters
const OF_ANOTHER = "another owner's filter";

const POLICIES = {
  auto: "several learn side by side; the cheapest on the last sampled rows decides",
  fixed: "the order in which they came",
  random: "any order, for comparison",
  a_greedy: "first what drops most rows a second, of those the earlier ones let through",
  sweep: "the same, looking at one place at a time",
  independent: "by drops a second, as if they had nothing to do with each other",
  local_swaps: "neighbours change places where that pays",
  tickets: "by lot, with more tickets for those that drop more",
  shared_greedy: "by what is known of each row so far: first what settles most rules a second",
  greedy_variant: "in phases, close to the best for many rules",
  fixed_greedy: "one order, by rules settled a second",
  phased: "a few filters at once, then decided anew",
};

export function show(main, { params, title }) {
  const stop = new AbortController();
  const name = decodeURIComponent(params[0]);
  title(`Filters of ${name}`);
  const notice = h("div");
  const numbers = h("dl", { class: "numbers" });
  const chart = new OrderChart();
  const rest = h("div", { class: "stack" });
  const body = h("div", { class: "stack", hidden: true }, numbers, chart.element, rest);
  fill(main, h("a", { class: "back", href: "#/streams" }, icon("back"), "Streams"), heading(`Filters of ${name}`), notice, body);
  let drawn = "";

  const refresh = refresher(notice, () => get(`/streams/${part(name)}/filters`, { bound: true }, stop), (found) => {
    const isNone = found.is_strict || found.filters.length === 0;
    body.hidden = isNone;
    fill(notice, isNone ? none(found) : null);
    if (isNone) return;
    const names = named(found);
    fill(numbers, numberParts(found));
    chart.set(steps(found.history, found.filters.filter((f) => f.id !== null).map((f) => f.id), found.last_round), names);
    const now = JSON.stringify(found);
    if (now !== drawn && !rest.contains(document.activeElement)) {
      fill(rest, restParts(found, names));
      drawn = now;
    }
  }, { signal: stop.signal, what: "Loading the filters" });

  every(EVERY_MS, refresh, stop.signal);
  return { keys: { Escape: () => { location.hash = "#/streams"; } }, close: () => { stop.abort(); chart.close(); } };
}

function none(found) {
  if (found.is_strict) return empty("This engine is strict", "Conditions run in the order of each rule's text, each only where all before it are true. None is shared or moved.");
  return empty("No filters", "A filter is a condition that calls a function or a regular expression. All rules that have it share it: it runs once for a row, and first where it settles most. No rule on this stream has one.");
}

/** By id: a number, which is its letter and colour wherever it is shown, and its text. */
function named(found) {
  const ids = found.filters.map((f) => f.id).filter((id) => id !== null).sort((a, b) => a - b);
  return new Map(found.filters.filter((f) => f.id !== null).map((f) => [f.id, { number: ids.indexOf(f.id), text: f.text ?? OF_ANOTHER }]));
}

function numberParts(found) {
  const { n_evaluations: nShared, n_alone: alone, bound } = found;
  const number = (name, what, words) => h("div", { title: words }, h("dt", null, name), h("dd", null, what));
  const about = found.is_at_least ? "at least" : "about";
  const isFewer = nShared > 0 && alone > nShared;
  return [
    number("policy", found.decides.split("_").flatMap((word, k) => (k ? ["_", h("wbr"), word] : [word])), POLICIES[found.decides]),
    number("evaluations", short(nShared), `${whole(nShared)}, on ${plural(found.n_rows, "row")}`),
    number("without sharing", isFewer ? `${about} ${short(alone)}` : "as many", "if every rule ran its own, in its best order, up to the first that drops the row"),
    number("fewer by sharing", isFewer ? `${short(alone / nShared)} ×` : "–", "evaluations without sharing, by those made"),
    number("from the best possible", bound ? `${bound.ratio.toFixed(2)} ×` : "–", bound ? `${took(bound.policy_s)} a row; no strategy could take less than ${took(bound.least_s)}, on ${plural(bound.n_rows, "sampled row")}` : "not known yet"),
    number("rows sampled", found.n_sampled_rows ? percent(found.sample_rate) : "none", `${plural(found.n_sampled_evaluations, "evaluation")} more, ${took(found.sampled_s)}`),
  ];
}

function restParts(found, names) {
  const changes = latest(found.history.filter((c) => c.words !== null)).reverse();
  return [
    card("Filters", {}, filterTable(found, names), found.filters.length > SHOWN ? h("p", { class: "soft small" }, `and ${whole(found.filters.length - SHOWN)} more`) : null),
    h("div", { class: "two" },
      card("What changed", {}, changes.length ? h("ol", { class: "changes" }, changes.map(changeLine)) : h("p", { class: "soft" }, "Nothing yet.")),
      h("div", { class: "stack" }, policyCard(found), found.tree ? card("First decisions", {}, h("p", { class: "soft small" }, "For rows that every rule still looks at: what runs first, and then, by its answer."), h("ul", { class: "tree" }, treeNode(found.tree, names))) : null)),
  ];
}

/** The last changes. Those of costs, which tell least, are a third of them at most and hide no others. */
function latest(changes) {
  const costs = changes.filter((c) => c.what === "cost").slice(-LATEST / 3);
  return changes.filter((c) => c.what !== "cost" || costs.includes(c)).slice(-LATEST);
}

function filterTable(found, names) {
  const own = (value) => (f) => (f.is_own ? value(f) : "–");
  const columns = [
    { name: "Place", of: (f) => (f.place === null ? "–" : f.place), class: "number place" },
    { name: "Filter", class: "wide filter-name", of: (f) => [f.id === null ? null : badge(names.get(f.id).number), f.text === null ? h("span", { class: "soft" }, OF_ANOTHER) : line(f.text)] },
    { name: "Passes", of: own((f) => (f.pass_rate === null ? "–" : h("span", { class: "pass-rate" }, percent(f.pass_rate), bar(f.pass_rate)))) },
    { name: "A row takes", class: "number", of: own((f) => (f.cost_s === null ? "–" : took(f.cost_s))) },
    { name: "Ran on rows", class: "number", of: own((f) => h("span", { title: whole(f.n_rows) }, short(f.n_rows))) },
    { name: "For rules", class: "number", of: own((f) => whole(f.n_queries)) },
    { name: "Saved", class: "number", of: own((f) => (f.n_alone > f.n_rows ? `about ${short(f.n_alone - f.n_rows)}` : "–")) },
  ];
  return table(columns, found.filters.slice(0, SHOWN), { label: "Filters, in the order in which they run", key: (f) => f.id });
}

/** A change, its SQL set apart: it is between backquotes. */
function changeLine(change) {
  const pieces = change.words.split("`").map((piece, k) => (k % 2 ? h("code", null, piece) : piece));
  return h("li", null, h("span", { class: "soft" }, `round ${change.round}`), h("p", null, pieces));
}

function policyCard(found) {
  const ranked = Object.entries(found.candidates).sort(([, a], [, b]) => a - b);
  const most = Math.max(...ranked.map(([, cost]) => cost), 0);
  const isAlone = ranked.length < 2;
  const words = (policy) => POLICIES[policy] ?? "";
  return card("Policy", {},
    isAlone
      ? h("p", null, h("b", null, found.decides), h("span", { class: "soft" }, `: ${words(found.decides)}.`))
      : h("ul", { class: "policies" }, ranked.map(([policy, cost]) => h("li", { class: policy === found.decides ? "decides" : "", title: words(policy) }, h("span", null, policy, policy === found.decides ? h("span", { class: "small" }, " in use") : null), h("span", { class: "number" }, took(cost)), bar(most ? cost / most : 0)))),
    found.policy === "auto" ? h("p", { class: "soft small" }, `Auto: ${POLICIES.auto}. Times are of a row.`) : null);
}

function treeNode(node, names, label = null) {
  const known = names.get(node.filter);
  const sides = [["passes", node.passes], ["drops", node.drops]].filter(([, side]) => side);
  return h("li", null,
    h("div", { class: "tree-node" }, label ? h("span", { class: `tree-side ${label}` }, label) : null, known ? badge(known.number) : null, node.text === null ? h("span", { class: "soft" }, OF_ANOTHER) : line(node.text), h("span", { class: "soft small" }, percent(node.share))),
    sides.length ? h("ul", null, sides.map(([side, child]) => treeNode(child, names, side))) : null);
}
