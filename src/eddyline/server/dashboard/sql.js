// SQL as a reader sees it: words, constants and comments distinguished, and the place of a mistake underlined.

import { h } from "./dom.js";

export const KEYWORDS =
  ("select from where and or not in is null like rlike ilike between case when then else end as distinct cast try_cast create replace view " +
    "table tblproperties interval true false on join inner left right full cross using group by having order asc desc limit union all " +
    "qualify over partition rows range preceding following current row exists any some escape date timestamp timestamp_ntz with div").split(" ");
const WORDS = new Set(KEYWORDS);

const TOKEN = new RegExp(
  [
    "(?<comment>--[^\\n]*|/\\*[\\s\\S]*?(?:\\*/|$))",
    "(?<string>'(?:[^'\\\\]|\\\\.|'')*(?:'|$)|\"(?:[^\"\\\\]|\\\\.|\"\")*(?:\"|$))",
    "(?<quoted>`(?:[^`]|``)*(?:`|$))",
    "(?<parameter>:[A-Za-z_]\\w*)",
    "(?<number>(?:\\d+(?:\\.\\d*)?|\\.\\d+)(?:[eE][+-]?\\d+)?\\w*)",
    "(?<word>[\\p{L}_][\\p{L}\\p{N}_]*)",
    "(?<space>\\s+)",
    "(?<sign>[^\\s])",
  ].join("|"),
  "gu",
);

/** [kind, text] of every piece; all pieces together are the text. */
export function tokens(text) {
  const found = [];
  for (const match of text.matchAll(TOKEN)) {
    let [kind] = Object.entries(match.groups).find(([, part]) => part !== undefined);
    if (kind === "word") {
      if (WORDS.has(match[0].toLowerCase())) kind = "keyword";
      else if (/^\s*\(/.test(text.slice(match.index + match[0].length, match.index + match[0].length + 8))) kind = "function";
    }
    found.push([kind, match[0]]);
  }
  return found;
}

/** The place of a character in UTF-16, as JavaScript counts, for one counted in characters, as the engine does. */
export function place(text, characters) {
  let at = 0;
  for (const character of text) {
    if (characters-- <= 0) return at;
    at += character.length;
  }
  return text.length;
}

/** Nodes of the highlighted text; what lies in `wrong`, [start, end) in characters, is marked. */
export function highlighted(text, wrong = null) {
  let [from, to] = wrong === null ? [-1, -1] : [place(text, wrong[0]), place(text, wrong[1])];
  if (wrong !== null && to <= from) to = from + 1;
  if (wrong !== null && from >= text.length && text.length > 0) [from, to] = [text.trimEnd().length - 1, text.length];
  const nodes = [];
  let at = 0;
  for (const [kind, piece] of tokens(text)) {
    const cuts = [0, from - at, to - at, piece.length].map((cut) => Math.min(Math.max(cut, 0), piece.length));
    for (let k = 0; k < 3; k += 1) {
      const part = piece.slice(cuts[k], cuts[k + 1]);
      if (part === "") continue;
      const isWrong = k === 1;
      const isPlain = kind === "space" || kind === "word" || kind === "sign";
      nodes.push(isPlain && !isWrong ? part : h("span", { class: `${isPlain ? "" : `sql-${kind}`}${isWrong ? " wrong" : ""}`.trim() }, part));
    }
    at += piece.length;
  }
  return nodes;
}

/** A block of SQL, wrapped. */
export const block = (text, wrong = null) => h("pre", { class: "sql" }, h("code", null, highlighted(text, wrong)));

/** One line of it. */
export const line = (text) => h("code", { class: "sql-line" }, highlighted(text.replace(/\s+/g, " ").trim()));

/** The stream a text reads from, as far as it says so already. */
export function streamOf(text) {
  const plain = tokens(text).filter(([kind]) => kind !== "comment" && kind !== "space");
  const from = plain.findIndex(([kind, word]) => kind === "keyword" && word.toLowerCase() === "from");
  const next = from < 0 ? undefined : plain[from + 1];
  return next === undefined ? null : next[1].replaceAll("`", "");
}

/** A name as SQL takes it. */
export const name = (text) => (/^[A-Za-z_]\w*$/.test(text) && !WORDS.has(text.toLowerCase()) ? text : `\`${text.replaceAll("`", "``")}\``);

/** A rule that makes sense for a stream: something to begin with. */
export function example(stream) {
  const isNumber = (c) => /^(DOUBLE|FLOAT|INT|BIGINT|SMALLINT|TINYINT|DECIMAL)/i.test(c.type);
  const isText = (c) => /^STRING/i.test(c.type);
  const number = stream.columns.find((c) => isNumber(c) && !/id$/i.test(c.name)) ?? stream.columns.find(isNumber);
  const text = stream.columns.find(isText);
  const shown = [text, number].filter(Boolean).map((c) => name(c.name));
  const condition = number ? `${name(number.name)} > 100` : text ? `${name(text.name)} LIKE 'A%'` : `${name(stream.columns[0].name)} IS NOT NULL`;
  return `SELECT ${shown.join(", ") || "*"}\nFROM ${name(stream.name)}\nWHERE ${condition}`;
}
