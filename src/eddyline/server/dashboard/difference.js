// Two texts, line by line: what stays, what goes, what comes.

import { h, hidden } from "./dom.js";

const MOST = 400; // lines of each text that are compared; longer ones are shown one after the other

/** [sign, line] of every line: " " stays, "-" goes, "+" comes. */
export function differences(before, after) {
  const [a, b] = [before.split("\n"), after.split("\n")];
  if (a.length > MOST || b.length > MOST) return [...a.map((line) => ["-", line]), ...b.map((line) => ["+", line])];
  const common = Array.from({ length: a.length + 1 }, () => new Array(b.length + 1).fill(0)); // of the ends from i and j on
  for (let i = a.length - 1; i >= 0; i -= 1) for (let j = b.length - 1; j >= 0; j -= 1) common[i][j] = a[i] === b[j] ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1]);
  const found = [];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) { found.push([" ", a[i]]); i += 1; j += 1; }
    else if (i < a.length && (j >= b.length || common[i + 1][j] >= common[i][j + 1])) { found.push(["-", a[i]]); i += 1; }
    else { found.push(["+", b[j]]); j += 1; }
  }
  return found;
}

const WORDS = { " ": "", "-": "before: ", "+": "after: " };
const CLASSES = { " ": "stays", "-": "goes", "+": "comes" };

/** The same, drawn. */
export function differenceBlock(before, after) {
  return h("pre", { class: "sql difference" }, h("code", null, differences(before, after).map(([sign, text]) => h("span", { class: CLASSES[sign] }, h("span", { "aria-hidden": "true" }, `${sign} `), WORDS[sign] ? hidden(WORDS[sign]) : null, text, "\n"))));
}

/** Properties or parameters that differ, as {name: [before, after]}. */
export function pairsChanged(changed) {
  const shown = (value) => (value === null || value === undefined || value === "" ? "not set" : Array.isArray(value) ? value.join(", ") : String(value));
  const entries = Object.entries(changed);
  return entries.length ? h("ul", { class: "changed-pairs" }, entries.map(([name, [was, is]]) => h("li", null, h("b", null, name), " ", h("del", null, shown(was)), " → ", h("ins", null, shown(is))))) : null;
}

/** What is different in two objects, by name. */
export function changedEntries(before, after) {
  const names = new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})]);
  const differing = [...names].filter((name) => JSON.stringify(before?.[name] ?? null) !== JSON.stringify(after?.[name] ?? null));
  return Object.fromEntries(differing.map((name) => [name, [before?.[name] ?? null, after?.[name] ?? null]]));
}
