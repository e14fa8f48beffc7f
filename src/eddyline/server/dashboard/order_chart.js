// The places of filters after each change of their order, drawn by hand. The words and numbers are beside it.

import { fill, h, svg } from "./dom.js";

const MOST = 12; // filters; those further down could not be distinguished
const ROW = 30;
const LEAST_STEP = 30; // between two changes
const TOP = 10;
const BOTTOM = 22;
const LEFT = 26;

/** A for the first, B for the second, …: the same on the chart, in the table and in the tree. */
export const letter = (number) => (number < 26 ? String.fromCharCode(65 + number) : `${Math.floor(number / 26)}${String.fromCharCode(65 + (number % 26))}`);

/** The letter of a filter in its colour. */
export const badge = (number) => h("span", { class: `badge of-${number % 8}`, "aria-hidden": "true" }, letter(number));

/** Orders one after the other, those that change nothing left out, and how it is now at the end: [{round, order, words}]. */
export function steps(history, order, lastRound) {
  const found = [];
  for (const entry of history) {
    const last = found.at(-1);
    if (last && String(last.order) === String(entry.order)) {
      if (entry.words) last.words.push(entry.words);
    } else if (entry.order.length) {
      found.push({ round: entry.round, order: entry.order, words: entry.words ? [entry.words] : [] });
    }
  }
  found.push({ round: lastRound, order, words: [], isNow: true });
  return found;
}

/** A chart of steps. Moving over it, or the arrow keys, tell of single changes. */
export class OrderChart {
  constructor() {
    this.steps = [];
    this.names = new Map(); // by id: {number, text}
    this.at = null;
    this.drawing = svg("svg", { class: "order-chart", role: "img", tabindex: "0" });
    this.caption = h("p", { class: "chart-caption" });
    this.element = h("figure", { class: "card chart-card" }, h("figcaption", null, h("h2", null, "Order over time"), this.caption), this.drawing);
    this.drawing.addEventListener("pointermove", (event) => this.pick(this.nearest(event)));
    this.drawing.addEventListener("pointerleave", () => this.pick(null));
    this.drawing.addEventListener("blur", () => this.pick(null));
    this.drawing.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step) return;
      event.preventDefault();
      this.pick(Math.min(Math.max((this.at ?? this.shown.length) + step, 0), this.shown.length - 1));
    });
    this.watcher = new ResizeObserver(() => this.draw());
    this.watcher.observe(this.element);
  }

  close() {
    this.watcher.disconnect();
  }

  set(found, names) {
    this.steps = found;
    this.names = names;
    this.draw();
  }

  pick(at) {
    this.at = at;
    this.draw();
  }

  get width() {
    return Math.max(220, Math.round(this.drawing.clientWidth || 600));
  }

  /** Room for what is at the end of a line: its text where the page is wide, else its letter. */
  get right() {
    return this.width > 620 ? 250 : 34;
  }

  get inner() {
    return this.width - LEFT - this.right;
  }

  /** The newest steps, as many as fit. */
  get shown() {
    return this.steps.slice(-Math.max(2, Math.floor(this.inner / LEAST_STEP) + 1));
  }

  x(at) {
    const n = this.shown.length;
    return LEFT + (n > 1 ? (at / (n - 1)) * this.inner : this.inner);
  }

  nearest(event) {
    const { left } = this.drawing.getBoundingClientRect();
    const share = (event.clientX - left - LEFT) / Math.max(1, this.inner);
    return Math.round(Math.min(Math.max(share, 0), 1) * (this.shown.length - 1));
  }

  draw() {
    const { shown, width } = this;
    if (!shown.length) return;
    const now = shown.at(-1).order.slice(0, MOST);
    const nPlaces = Math.min(MOST, Math.max(...shown.map((s) => s.order.length), 1));
    const height = TOP + nPlaces * ROW + BOTTOM;
    const y = (place) => TOP + (place + 0.5) * ROW;
    this.drawing.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.drawing.setAttribute("height", height);
    const parts = Array.from({ length: nPlaces }, (_, place) => [
      svg("line", { class: "grid", x1: LEFT, x2: LEFT + this.inner, y1: y(place), y2: y(place) }),
      svg("text", { class: "axis", x: LEFT - 12, y: y(place) + 4, "text-anchor": "end" }, String(place + 1)),
    ]);
    if (this.at !== null) parts.push(svg("line", { class: "cross", x1: this.x(this.at), x2: this.x(this.at), y1: TOP, y2: TOP + nPlaces * ROW }));
    for (const id of new Set([...now, ...shown.flatMap((s) => s.order)])) {
      const { number, text } = this.names.get(id) ?? { number: id, text: "" };
      const places = shown.map((s) => s.order.indexOf(id)).map((place) => (place < 0 || place >= nPlaces ? null : place));
      const colour = `of-${number % 8} ${number % 16 > 7 ? "dashed" : ""}`;
      parts.push(svg("path", { class: `order-line ${colour}`, d: this.curve(places, y) }));
      for (const [at, place] of places.entries()) {
        const isTurn = place !== null && (at === 0 || places[at - 1] !== place || at === places.length - 1);
        if (isTurn) parts.push(svg("circle", { class: `order-dot ${colour}`, cx: this.x(at), cy: y(place), r: 4 }));
      }
      const last = places.at(-1);
      if (last !== null) {
        const words = width > 620 ? `${letter(number)}  ${cut(text, 34)}` : letter(number);
        parts.push(svg("text", { class: `order-name of-${number % 8}`, x: LEFT + this.inner + 12, y: y(last) + 4 }, words));
      }
    }
    fill(this.drawing, parts, this.rounds(shown, height));
    this.tell(shown);
  }

  curve(places, y) {
    let d = "";
    for (const [at, place] of places.entries()) {
      if (place === null) continue;
      const here = `${this.x(at).toFixed(1)} ${y(place)}`;
      const before = at ? places[at - 1] : null;
      const half = ((this.x(at) + this.x(at - 1)) / 2).toFixed(1);
      d += before === null ? `M${here}` : `C${half} ${y(before)} ${half} ${y(place)} ${here}`;
    }
    return d;
  }

  rounds(shown, height) {
    const found = [];
    let free = -Infinity; // right end of the last number
    for (const [at, step] of shown.entries()) {
      const isLast = at === shown.length - 1;
      const room = this.x(shown.length - 1) - 46;
      if (!isLast && (this.x(at) < free || this.x(at) > room)) continue;
      free = this.x(at) + 46;
      found.push(svg("text", { class: "axis", x: this.x(at), y: height - 5, "text-anchor": isLast ? "end" : at === 0 ? "start" : "middle" }, at === 0 ? `round ${step.round}` : String(step.round)));
    }
    return found;
  }

  tell(shown) {
    const step = shown[this.at ?? shown.length - 1];
    const order = step.order.slice(0, MOST).map((id) => letter(this.names.get(id)?.number ?? id)).join(", ");
    const more = step.words.length ? ` · ${step.words.join("; ")}` : "";
    this.caption.textContent = `${step.isNow ? "now" : `round ${step.round}`}: ${order}${this.at === null ? "" : more}`;
    const names = step.order.slice(0, MOST).map((id) => this.names.get(id)?.text ?? "").join(", then ");
    const nChanges = Math.max(0, this.steps.length - 2);
    this.drawing.setAttribute("aria-label", `Order over time: ${nChanges} ${nChanges === 1 ? "change" : "changes"}. ${step.isNow ? "Now" : `After round ${step.round}`}: ${names}${more}`);
  }
}

const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
