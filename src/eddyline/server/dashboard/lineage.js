// Where the rows of a rule come from, drawn: streams on the left, the views between, the rule, and the rules that read it.

import { h, svg } from "./dom.js";
import { part } from "./api.js";

const WIDTH = 124;
const HEIGHT = 34;
const GAP = 30;
const ROW = 46;
const MOST_LETTERS = 15;
const SHOWN_READERS = 3;

/** A picture of a rule's lineage, or nothing if it reads streams alone and no rule reads it. */
export function lineagePicture(lineage, name) {
  if (!lineage || (!lineage.n_readers && lineage.reads.every((each) => each.kind !== "view"))) return null;
  const columns = layers(lineage, name);
  const tallest = Math.max(...columns.map((column) => column.length));
  const width = columns.length * WIDTH + (columns.length - 1) * GAP + 2;
  const height = tallest * ROW;
  const places = new Map();
  columns.forEach((column, x) => column.forEach((node, y) => places.set(node.key, {
    x: 1 + x * (WIDTH + GAP),
    y: (tallest - column.length) * ROW / 2 + y * ROW + (ROW - HEIGHT) / 2,
  })));
  const nodes = columns.flat().filter((node) => !node.isPassed);
  const links = nodes.flatMap((node) => node.from.map((from) => link([from, ...passages(from, node, columns), node.key].map((key) => places.get(key)))));
  const words = nodes.map((node) => `${node.kind} ${node.label}`).join(", ");
  return h("figure", { class: "lineage" },
    h("figcaption", { class: "small soft" }, "Where its rows come from"),
    svg("svg", { role: "img", viewBox: `0 0 ${width} ${height}`, width, height, "aria-label": `Lineage: ${words}` }, links, nodes.map((node) => box(node, places.get(node.key)))));
}

/** Nodes by how far they are from streams; each once, however often it is read. */
function layers(lineage, name) {
  const nodes = new Map();
  const add = (key, node) => {
    if (!nodes.has(key)) nodes.set(key, { key, from: [], ...node });
    return nodes.get(key);
  };
  const visit = (input) => {
    const node = add(`in ${input.name}`, { label: input.name, kind: input.kind, id: input.id, title: input.text });
    node.from = [...new Set(input.reads.map((each) => visit(each).key))];
    node.level = node.from.length ? 1 + Math.max(...node.from.map((key) => nodes.get(key).level)) : 0;
    return node;
  };
  const own = { key: "own", label: name, kind: "this rule", from: [...new Set(lineage.reads.map((each) => visit(each).key))] };
  own.level = 1 + Math.max(0, ...own.from.map((key) => nodes.get(key).level));
  nodes.set("own", own);
  lineage.read_by.slice(0, SHOWN_READERS).forEach((reader) => add(`out ${reader.id}`, { label: reader.name, kind: "rule", id: reader.id, from: ["own"], level: own.level + 1 }));
  const nMore = lineage.n_readers - Math.min(lineage.read_by.length, SHOWN_READERS);
  if (nMore > 0) add("more", { label: `${nMore} more`, kind: "rules", from: ["own"], level: own.level + 1 });
  for (const node of nodes.values()) { // what reads nothing stands beside its first reader
    const readers = [...nodes.values()].filter((each) => each.from.includes(node.key));
    if (!node.from.length && readers.length) node.level = Math.min(...readers.map((each) => each.level)) - 1;
  }
  const columns = [];
  for (const node of nodes.values()) (columns[node.level] ??= []).push(node);
  for (const node of nodes.values()) {
    for (const from of node.from) {
      for (let level = nodes.get(from).level + 1; level < node.level; level += 1) columns[level].push({ key: passage(from, node.key, level), isPassed: true });
    }
  }
  return columns;
}

/** Where a link crosses a column between those of its ends: a place of its own, so that it does not run behind a box. */
function passage(from, to, level) {
  return `${from} to ${to} at ${level}`;
}

function passages(from, node, columns) {
  return columns.flatMap((column, level) => column.filter((each) => each.key === passage(from, node.key, level)).map((each) => each.key));
}

function box(node, { x, y }) {
  const label = node.label.length > MOST_LETTERS ? `${node.label.slice(0, MOST_LETTERS - 1)}…` : node.label;
  const drawn = svg("g", { class: `lineage-node is-${node.kind.replace(" ", "-")}` },
    svg("title", null, node.title ? `${node.label}: ${node.title}` : node.label),
    svg("rect", { x, y, width: WIDTH, height: HEIGHT, rx: 6 }),
    svg("text", { x: x + 10, y: y + 14, class: "lineage-kind" }, node.kind),
    svg("text", { x: x + 10, y: y + 27 }, label));
  if (node.kind === "stream" || node.kind === "table") return svg("a", { href: `#/streams/${part(node.label)}` }, drawn);
  return node.id ? svg("a", { href: `#/rules/q${node.id}` }, drawn) : drawn;
}

/** A line through places: from the right of one to the left of the next, and straight across those in between. */
function link(places) {
  const middle = (place) => place.y + HEIGHT / 2;
  const curves = places.slice(1).map((to, k) => {
    const [x1, y1, x2, y2] = [places[k].x + WIDTH, middle(places[k]), to.x, middle(to)];
    return `L${x1},${y1} C${x1 + GAP / 2},${y1} ${x2 - GAP / 2},${y2} ${x2},${y2}`;
  });
  return svg("path", { class: "lineage-link", d: `M${places[0].x + WIDTH},${middle(places[0])} ${curves.join(" ")}` });
}
