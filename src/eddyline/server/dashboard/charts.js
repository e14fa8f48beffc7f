// Charts drawn by hand. All describe in words what they show, and the numbers are also in a table nearby.

import { fill, h, svg } from "./dom.js";
import { exactWords, moment } from "./format.js";

/** The value that `share` of the sorted values lie below. */
export function quantile(values, share) {
  if (!values.length) return null;
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))];
}

function path(values, width, height, top, pad = 1) {
  const step = values.length > 1 ? width / (values.length - 1) : 0;
  return values.map((v, k) => `${k ? "L" : "M"}${(k * step).toFixed(1)} ${(height - pad - (top ? v / top : 0) * (height - 2 * pad)).toFixed(1)}`).join("");
}

/** A line in the size of a word. */
export function spark(element, values, { width = 96, height = 28 } = {}) {
  const known = values.map((v) => v ?? 0);
  const top = Math.max(...known, 0);
  element.setAttribute("viewBox", `0 0 ${width} ${height}`);
  element.setAttribute("preserveAspectRatio", "none");
  if (known.length < 4) return fill(element, svg("path", { class: "spark-none", d: `M0 ${height - 2}H${width}`, "vector-effect": "non-scaling-stroke" }));
  const line = path(known, width, height, top, 2);
  return fill(
    element,
    svg("path", { class: "spark-area", d: `${line}L${width} ${height}L0 ${height}Z` }),
    svg("path", { class: "spark-line", d: line, "vector-effect": "non-scaling-stroke" }),
  );
}

export const sparkFrame = () => svg("svg", { class: "spark", "aria-hidden": "true", focusable: "false" });

/** Little bars, newest right. */
export function bars(element, values, { width = 240, height = 36 } = {}) {
  const top = Math.max(...values, 1);
  const each = width / values.length;
  element.setAttribute("viewBox", `0 0 ${width} ${height}`);
  element.setAttribute("preserveAspectRatio", "none");
  fill(
    element,
    values.map((v, k) => {
      const tall = v > 0 ? Math.max(2, (v / top) * (height - 2)) : 1;
      const at = { x: (k * each + each * 0.15).toFixed(2), y: (height - tall).toFixed(2), width: (each * 0.7).toFixed(2), height: tall.toFixed(2) };
      return svg("rect", { class: v > 0 ? "bar-some" : "bar-none", ...at });
    }),
  );
}

function ticks(top) {
  if (top <= 0) return [0];
  const size = 10 ** Math.floor(Math.log10(top));
  const step = [0.2, 0.25, 0.5, 1, 2, 2.5, 5].map((k) => k * size).find((s) => top / s <= 4) ?? size;
  const found = [];
  for (let at = 0; at <= top * 1.001; at += step) found.push(at);
  return found;
}

/**
 * A chart of one number per round, which follows as rounds come. `series`: [{of(record), label, kind}]; kind is area or line.
 * `show(n)` writes a number of the axis, `unit(record)` says what it counts. Moving over it, or the arrow keys, tell of single rounds.
 */
export class RoundChart {
  constructor({ title, unit, series, show, levels = () => [] }) {
    Object.assign(this, { title, unit, series, show, levels });
    this.records = [];
    this.at = null;
    this.left = 44; // of the axis: as wide as its longest number
    this.drawing = svg("svg", { class: "chart", role: "img", tabindex: "0" });
    this.caption = h("p", { class: "chart-caption" });
    this.element = h("figure", { class: "card chart-card" }, h("figcaption", null, h("h2", null, title), this.caption), this.drawing);
    this.drawing.addEventListener("pointermove", (event) => this.pick(this.nearest(event)));
    this.drawing.addEventListener("pointerleave", () => this.pick(null));
    this.drawing.addEventListener("blur", () => this.pick(null));
    this.drawing.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step || !this.records.length) return;
      event.preventDefault();
      this.pick(Math.min(Math.max((this.at ?? this.records.length) + step, 0), this.records.length - 1));
    });
    this.watcher = new ResizeObserver(() => this.draw());
    this.watcher.observe(this.element);
  }

  close() {
    this.watcher.disconnect();
  }

  set(records) {
    this.records = records;
    if (this.at !== null) this.at = Math.min(this.at, records.length - 1);
    this.draw();
  }

  pick(at) {
    this.at = at;
    this.draw();
  }

  nearest(event) {
    const box = this.drawing.getBoundingClientRect();
    const share = (event.clientX - box.left - this.left) / Math.max(1, box.width - this.left - 4);
    return this.records.length ? Math.round(Math.min(Math.max(share, 0), 1) * (this.records.length - 1)) : null;
  }

  draw() {
    const width = Math.max(200, Math.round(this.drawing.clientWidth || 600));
    const height = Math.max(90, Math.round(this.drawing.clientHeight || 140));
    const lines = this.series.map((s) => this.records.map((r) => s.of(r) ?? 0));
    const levels = this.levels(this.records);
    const highest = Math.max(...lines.flat(), ...levels.map((l) => l.value ?? 0), 0);
    const marks = ticks(highest);
    this.left = Math.max(30, 14 + 6.5 * Math.max(...marks.map((m) => this.show(m).length)));
    const [top, right, bottom, left] = [8, 4, 18, this.left];
    const inner = { width: width - left - right, height: height - top - bottom };
    const most = Math.max(highest * 1.05, marks.at(-1), Number.MIN_VALUE);
    const y = (v) => top + inner.height - (v / most) * inner.height;
    const x = (k) => left + (this.records.length > 1 ? (k / (this.records.length - 1)) * inner.width : inner.width);
    this.drawing.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const parts = marks.map((m) => [
      svg("line", { class: "grid", x1: left, x2: width - right, y1: y(m), y2: y(m) }),
      svg("text", { class: "axis", x: left - 8, y: y(m) + 3.5, "text-anchor": "end" }, this.show(m)),
    ]);
    for (const [k, values] of lines.entries()) {
      if (values.length < 2) continue;
      const d = values.map((v, at) => `${at ? "L" : "M"}${x(at).toFixed(1)} ${y(v).toFixed(1)}`).join("");
      const { kind } = this.series[k];
      if (kind === "area") parts.push(svg("path", { class: "area", d: `${d}L${x(values.length - 1).toFixed(1)} ${y(0)}L${x(0).toFixed(1)} ${y(0)}Z` }));
      parts.push(svg("path", { class: `line ${kind}`, d }));
    }
    for (const level of levels) {
      if (level.value === null) continue;
      parts.push(svg("line", { class: "level", x1: left, x2: width - right, y1: y(level.value), y2: y(level.value) }));
      parts.push(svg("text", { class: "axis level-name", x: width - right - 2, y: y(level.value) - 4, "text-anchor": "end" }, level.label));
    }
    if (this.records.length) {
      const [first, last] = [this.records[0], this.records.at(-1)];
      parts.push(svg("text", { class: "axis", x: left, y: height - 3 }, `round ${first.round_number}`));
      parts.push(svg("text", { class: "axis", x: width - right, y: height - 3, "text-anchor": "end" }, String(last.round_number)));
    }
    const record = this.at === null ? null : this.records[this.at];
    if (record) {
      parts.push(svg("line", { class: "cross", x1: x(this.at), x2: x(this.at), y1: top, y2: top + inner.height }));
      for (const values of lines) parts.push(svg("circle", { class: "cross-dot", cx: x(this.at), cy: y(values[this.at]), r: 3.5 }));
    }
    fill(this.drawing, parts);
    const shown = record ?? this.records.at(-1);
    const words = shown ? this.series.map((s) => `${s.label ? `${s.label} ` : ""}${this.show(s.of(shown))}`).join(", ") : "no round yet";
    const when = record ? ` · ${exactWords(moment(record.at))}` : "";
    this.caption.textContent = shown ? `${record ? `round ${shown.round_number}` : "latest"}: ${words} ${this.unit(shown)}${when}`.replace("  ", " ").trim() : words;
    this.drawing.setAttribute("aria-label", `${this.title}, last ${this.records.length} rounds. ${this.caption.textContent}. Highest ${this.show(highest)}.`);
  }
}
