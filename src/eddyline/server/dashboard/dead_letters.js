// Dead letters: rows that no rule could decide, or that did not fit their stream, by what was wrong with them.

import { get } from "./api.js";
import { fill, h, reconcile } from "./dom.js";
import { ago, pairs, plural, whole } from "./format.js";
import { every, live } from "./live.js";
import { empty, heading, refresher } from "./parts.js";

const EVERY_MS = 4_000;
const SHOWN = 20; // letters of one kind

export function show(main, { query, title }) {
  const stop = new AbortController();
  title("Dead letters");
  let rule = query.get("rule") ?? "";
  const choice = h("select", { class: "input sort", "aria-label": "Only of one rule", on: { change: () => { rule = choice.value; refresh(); } } }, h("option", { value: "" }, "Every rule"));
  const total = h("p", { class: "soft" });
  const notice = h("div");
  const groups = h("div", { class: "stack" });
  fill(main, heading("Dead letters", choice), total, notice, groups);
  const known = new Map();

  function offer(letters) {
    for (const letter of letters) if (letter.query_id !== null) known.set(`q${letter.query_id}`, letter.query);
    if (rule && !known.has(rule)) known.set(rule, `rule ${rule}`);
    const options = [["", "Every rule"], ...[...known].sort((a, b) => a[1].localeCompare(b[1]))];
    if (choice.options.length === options.length) return;
    fill(choice, options.map(([value, words]) => h("option", { value, selected: value === rule }, words)));
  }

  const refresh = refresher(notice, () => get("/dead_letters", { query: rule, newest: 500 }, stop), (found) => { offer(found.letters); draw(found); }, { signal: stop.signal, what: "Loading dead letters" });

  function draw(found) {
    const byError = Map.groupBy([...found.letters].reverse(), (letter) => letter.error);
    const none = rule ? "This rule could decide every row." : "Every row fitted its stream, and every rule could decide about it.";
    fill(notice, found.letters.length ? null : empty("No dead letters", none));
    total.hidden = found.total === 0;
    total.textContent = `${plural(found.total, "letter")} so far${found.total > found.letters.length ? `, the newest ${whole(found.letters.length)} are here` : ""}. A dead letter is a row that could not be decided; it stops nothing else.`;
    reconcile(groups, [...byError], ([error]) => error, make, update);
  }

  function make([error]) {
    const count = h("span", { class: "tally-large" });
    const element = h("details", { class: "card letters" }, h("summary", null, count, h("span", { class: "letters-what" }, h("b", null, error), h("span", { class: "soft small letters-last" }))), h("ol", { class: "stack letters-list" }));
    element.open = groups.children.length < 3;
    return element;
  }

  function update(element, [, letters]) {
    element.querySelector(".tally-large").textContent = whole(letters.length);
    element.querySelector(".letters-last").textContent = letters[0].message;
    reconcile(element.querySelector("ol"), letters.slice(0, SHOWN), (l) => `${l.round_number}-${l.arrival}-${l.query_id}-${l.message}`, (l) => letterItem(l, l.message !== letters[0].message));
  }

  every(EVERY_MS, refresh, stop.signal);
  return { close: () => stop.abort() };
}

function letterItem(letter, hasMessage) {
  const at = live.timeOf(letter.round_number);
  return h(
    "li",
    { class: "letter" },
    h("p", { class: "small" },
      letter.query_id === null ? h("span", { class: "chip" }, `stream ${letter.stream}`) : h("a", { href: `#/rules/q${letter.query_id}` }, letter.query),
      h("span", { class: "soft" }, ` · round ${letter.round_number}`, at ? [" · ", ago(at)] : null)),
    hasMessage ? h("p", { class: "letter-message" }, letter.message) : null,
    pairs(letter.row),
  );
}
