// What could be written next in a rule: streams after FROM and JOIN, columns of the streams it reads, functions, words of SQL, properties.

import { fitting } from "./complete.js";
import { KEYWORDS, name as sqlName, tokens } from "./sql.js";

/** What is known to write with: `streams` with their columns, `vocabulary` of the server (null until it has answered). */
export function sqlOffers(streams, vocabulary) {
  return (text, cursor, isAsked) => {
    const before = tokens(text.slice(0, cursor));
    const last = before.at(-1);
    const isWord = last !== undefined && ["word", "keyword", "function"].includes(last[0]);
    if (last !== undefined && ["string", "comment", "quoted", "number", "parameter"].includes(last[0])) return null;
    const written = isWord ? last[1] : "";
    const words = (isWord ? before.slice(0, -1) : before).filter(([kind]) => kind !== "space" && kind !== "comment");
    const previous = words.at(-1)?.[1].toLowerCase();
    if (!written && !isAsked && previous !== ".") return null;
    const options = optionsAfter(words, previous, text, streams(), vocabulary());
    return { from: cursor - written.length, options: fitting(options, written) };
  };
}

const stream = (s) => ({ word: s.name, insert: sqlName(s.name), note: "stream" });
const column = (c, of) => ({ word: c.name, insert: sqlName(c.name), note: of ? `${c.type.toLowerCase()} of ${of}` : c.type.toLowerCase() });

function optionsAfter(words, previous, text, streams, vocabulary) {
  const read = streamsRead(text, streams);
  if (previous === ".") {
    const alias = words.at(-2)?.[1].replaceAll("`", "").toLowerCase();
    return (read.get(alias)?.columns ?? []).map((c) => column(c));
  }
  if (previous === "from" || previous === "join") return streams.map(stream);
  if (isInProperties(words)) return (vocabulary?.properties ?? []).map((word) => ({ word, insert: `${word} = `, note: "property" }));
  const several = new Set([...read.values()].map((s) => s.name)).size > 1;
  const known = new Map();
  for (const s of read.values()) for (const c of s.columns) if (!known.has(c.name)) known.set(c.name, column(c, several ? s.name : ""));
  const functions = (vocabulary?.functions ?? []).map((f) => ({ word: f.name, insert: `${f.name}(`, note: f.signature }));
  const keywords = KEYWORDS.map((word) => ({ word: word.toUpperCase(), note: "" }));
  return [...known.values(), ...keywords, ...functions, ...streams.map(stream)];
}

/** By alias and by name, in lower case. */
function streamsRead(text, streams) {
  const plain = tokens(text).filter(([kind]) => kind !== "space" && kind !== "comment").map(([kind, word]) => [kind, word.replaceAll("`", "")]);
  const read = new Map();
  for (const [k, [kind, word]] of plain.entries()) {
    if (kind !== "keyword" || !["from", "join"].includes(word.toLowerCase())) continue;
    let at = k + 1;
    if (plain[at]?.[1].toLowerCase() === "recent" && plain[at + 1]?.[1] === "(") at += 2; // recent(news, 100) n
    const found = streams.find((s) => s.name.toLowerCase() === plain[at]?.[1].toLowerCase());
    if (!found) continue;
    read.set(found.name.toLowerCase(), found);
    let next = at + 1;
    if (plain[at - 1]?.[1] === "(") while (plain[next] && plain[next - 1][1] !== ")") next += 1;
    if (plain[next]?.[1].toLowerCase() === "as") next += 1;
    if (plain[next]?.[0] === "word") read.set(plain[next][1].toLowerCase(), found);
  }
  return read;
}

/** Whether the cursor is in TBLPROPERTIES ( … ), where a name is expected. */
function isInProperties(words) {
  const begin = words.findLastIndex(([, word]) => word.toLowerCase() === "tblproperties");
  if (begin < 0 || words.slice(begin).some(([, word]) => word === ")")) return false;
  return ["(", ","].includes(words.at(-1)[1]);
}
