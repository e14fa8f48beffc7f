// How recent rows would have fared with a rule: how many would match, what stopped the others, samples, and rows in error.

import { h } from "./dom.js";
import { pairs, percent, plural, value, whole } from "./format.js";
import { bar, empty, sentence, table } from "./parts.js";
import { line } from "./sql.js";

/** The answer of `POST /queries/try`, for users. */
export function trialParts(found) {
  if (found.parts.length) return unionParts(found);
  const notes = found.notes.map((note) => h("p", { class: "soft small" }, sentence(note), "."));
  if (found.n_matched === null) return [h("p", { class: "warning" }, "A join is not tried on recent rows."), notes, h("ul", { class: "stack-small" }, found.inputs.map((each) => h("li", null, h("b", null, whole(each.n_passed)), ` of ${plural(each.n_rows, "recent row")} of ${each.input} pass its own conditions.`)))];
  if (found.n_rows === 0) return empty("No recent rows", "The server retains the last rows of every stream in memory: when some have arrived, a rule can be tried on them.");
  const isGrouped = found.n_groups != null; // of groups or windows, which the rows make
  const share = found.n_matched / Math.max(1, isGrouped ? found.n_groups : found.n_rows);
  const of = isGrouped ? ` of ${plural(found.n_groups, found.noun)} of the last ${plural(found.n_rows, "row")} would be in the answer` : ` of the last ${plural(found.n_rows, "row")} would have matched`;
  return [
    h("p", { class: "trial-words" }, h("b", null, whole(found.n_matched)), of, h("span", { class: "soft" }, ` (${percent(share)})`)),
    bar(share),
    found.n_in_error ? h("p", { class: "warning" }, `${plural(found.n_in_error, "row")} could not be decided: they would be dead letters.`) : null,
    notes,
    found.conditions.length > 1 || (found.conditions.length && found.n_matched === 0)
      ? h("ul", { class: "stops", "aria-label": "How many rows each condition stopped" }, found.conditions.map((text, k) => h("li", { class: "stop" }, line(text), h("span", { class: "small soft" }, `stopped ${whole(found.stopped[k])}${isGrouped ? "" : `, ${percent(found.stopped[k] / found.n_rows)}`}`))))
      : null,
    ...examples(found),
  ];
}

/** A query with UNION ALL: all its results, and how rows fared with each part. */
function unionParts(found) {
  return [
    found.n_matched === null ? null : h("p", { class: "trial-words" }, h("b", null, whole(found.n_matched)), ` ${found.n_matched === 1 ? "result" : "results"} would have come of the last ${plural(found.n_rows, "row")}`),
    found.parts.map((each) => h("section", { class: "stack-small" }, h("h3", null, sentence(each.part)), trialParts(each))),
    ...examples(found),
  ];
}

function examples(found) {
  return [
    found.samples.length ? h("div", { class: "stack-small" }, h("h3", null, "Newest matches"), sampleTable(found.samples)) : null,
    found.errors.length ? h("div", { class: "stack-small" }, h("h3", null, "Could not be decided"), found.errors.map((each) => h("div", { class: "letter" }, h("p", { class: "wrong-words" }, sentence(each.message)), pairs(each.row)))) : null,
  ];
}

const sampleTable = (rows) => table(Object.keys(rows[0]).map((name) => ({ name, of: (row) => value(row[name]) })), rows, { label: "Newest matches" });

/** The same in a line, for plans. */
export function trialWords(tried) {
  if (!tried || tried.n_matched === null || tried.n_rows === 0) return null;
  const wrong = tried.n_in_error ? `, ${whole(tried.n_in_error)} could not be decided` : "";
  if (tried.n_rules) return `Its first ${plural(tried.n_rules, "rule")} would have had ${plural(tried.n_matched, "result")} in the last ${plural(tried.n_rows, "row")}${wrong}`;
  if (tried.parts?.length) return `${plural(tried.n_matched, "result")} would have come of the last ${plural(tried.n_rows, "row")}${wrong}`;
  if (tried.n_groups != null) return `${whole(tried.n_matched)} of ${plural(tried.n_groups, tried.noun)} of the last ${plural(tried.n_rows, "row")} would be in the answer${wrong}`;
  return `${whole(tried.n_matched)} of the last ${plural(tried.n_rows, "row")} would have matched${wrong}`;
}
