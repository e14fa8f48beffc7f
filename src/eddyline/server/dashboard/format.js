// Numbers, times and values as people read them.

import { h } from "./dom.js";

const plain = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const STEPS = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];

/** 1,234,567 */
export const whole = (n) => plain.format(n ?? 0);

/** 12.3 k: at most four characters and a letter. */
export function short(n) {
  if (n === null || n === undefined || Number.isNaN(n)) return "–";
  const size = Math.abs(n);
  const step = STEPS.find(([least]) => size >= least * 0.9995);
  if (step && size >= 9999.5) return `${three(n / step[0])} ${step[1]}`;
  return size >= 1000 ? plain.format(n) : three(n);
}

function three(n) {
  const size = Math.abs(n);
  if (size === 0 || Number.isInteger(n)) return String(n);
  if (size >= 99.95) return n.toFixed(0);
  if (size >= 9.995) return n.toFixed(1).replace(/\.0$/, "");
  return size >= 0.095 ? n.toFixed(2).replace(/\.?0+$/, "") : n.toPrecision(1);
}

/** 46.3 kB */
export function bytes(n) {
  if (n === null || n === undefined || Number.isNaN(n)) return "–";
  const units = ["B", "kB", "MB", "GB", "TB"];
  let [size, k] = [n, 0];
  while (size >= 999.5 && k < units.length - 1) [size, k] = [size / 1000, k + 1];
  return `${three(k ? size : Math.round(size))} ${units[k]}`;
}

export const plural = (n, one, many = `${one}s`) => `${whole(n)} ${n === 1 ? one : many}`;

/** A share as per cent. */
export function percent(share) {
  if (share === null || share === undefined) return "–";
  const n = share * 100;
  if (n > 0 && n < 0.1) return "< 0.1 %";
  return `${n >= 9.95 ? n.toFixed(0) : n.toFixed(1).replace(/\.0$/, "")} %`;
}

/** Seconds a machine took. */
export function took(seconds) {
  if (seconds === null || seconds === undefined || Number.isNaN(seconds)) return "–";
  if (seconds === 0) return "0";
  if (seconds < 1e-6) return `${three(seconds * 1e9)} ns`;
  if (seconds < 1e-3) return `${three(seconds * 1e6)} µs`;
  if (seconds < 1) return `${three(seconds * 1e3)} ms`;
  return seconds < 120 ? `${three(seconds)} s` : span(seconds);
}

/** Seconds a person waits: 2 h 5 min. */
export function span(seconds) {
  const s = Math.round(seconds);
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min${s % 60 && s < 600 ? ` ${s % 60} s` : ""}`;
  if (s < 86400) return `${Math.floor(s / 3600)} h${s % 3600 >= 60 ? ` ${Math.floor((s % 3600) / 60)} min` : ""}`;
  return `${Math.floor(s / 86400)} d${s % 86400 >= 3600 ? ` ${Math.floor((s % 86400) / 3600)} h` : ""}`;
}

const UNITS = [[604800e6, "week"], [86400e6, "day"], [3600e6, "hour"], [60e6, "minute"], [1e6, "second"], [1e3, "ms"], [1, "us"]];

/** Microseconds in the words a property is written in: 5 minutes. */
export function durationWords(microseconds) {
  if (typeof microseconds !== "number") return microseconds ?? "";
  const [size, unit] = UNITS.find(([size]) => microseconds >= size && microseconds % size === 0) ?? [1e6, "second"];
  const n = microseconds / size;
  return unit.endsWith("s") ? `${n} ${unit}` : `${n} ${unit}${n === 1 ? "" : "s"}`;
}

// ----------------------------------------------------------------------------------------------- times

/** The moment of a time as the server writes it; those without a zone are in UTC. */
export function moment(text) {
  if (text === null || text === undefined || text === "") return null;
  const iso = String(text).replace(" ", "T");
  const at = new Date(/(Z|[+-]\d\d:?\d\d)$/.test(iso) ? iso : `${iso}Z`);
  return Number.isNaN(at.getTime()) ? null : at;
}

export function agoWords(at, now = Date.now()) {
  const seconds = (now - at.getTime()) / 1000;
  if (seconds < -2) return `in ${span(-seconds)}`;
  if (seconds < 1.5) return "now";
  return `${span(seconds).replace(/ \d+ s$/, (tail) => (seconds >= 60 ? "" : tail))} ago`;
}

/** The exact time as the log and the API write it: ISO 8601 in UTC, to the second. */
export const exactWords = (at) => `${at.toISOString().slice(0, 19)}Z`;

/** "3 s ago", which keeps counting, with the exact time on hover. */
export function ago(text, none = "never") {
  const element = h("time", { class: "ago" });
  setAgo(element, text, none);
  return element;
}

export function setAgo(element, text, none = "never") {
  const at = text instanceof Date ? text : moment(text);
  if (at === null) {
    element.removeAttribute("datetime");
    element.removeAttribute("title");
    if (element.textContent !== none) element.textContent = none;
    return;
  }
  const iso = at.toISOString();
  if (element.getAttribute("datetime") !== iso) {
    element.setAttribute("datetime", iso);
    element.title = exactWords(at);
  }
  const words = agoWords(at);
  if (element.textContent !== words) element.textContent = words;
}

/** Let every "ago" of the page count on. */
export function tick() {
  const now = Date.now();
  for (const element of document.querySelectorAll("time.ago[datetime]")) {
    const words = agoWords(new Date(element.getAttribute("datetime")), now);
    if (element.textContent !== words) element.textContent = words;
  }
}

// ----------------------------------------------------------------------------------------------- values

/** A value of a row. */
export function value(v) {
  if (v === null || v === undefined) return h("span", { class: "null" }, "NULL");
  if (typeof v === "number") return h("span", { class: "number" }, Number.isInteger(v) ? String(v) : String(Number(v.toPrecision(12))));
  if (typeof v === "boolean") return h("span", { class: "number" }, String(v));
  if (typeof v === "object") return h("span", { class: "nested" }, JSON.stringify(v));
  const text = String(v);
  return text.length > 400 ? h("span", { title: `${text.length} characters` }, `${text.slice(0, 400)}…`) : h("span", null, text);
}

/** The key of an alert. */
export const keyWords = (key) => Object.entries(key ?? {}).map(([name, v]) => `${name} ${v === null ? "NULL" : typeof v === "object" ? JSON.stringify(v) : v}`).join(", ");

/** Values with their names, wrapping. */
export function pairs(row) {
  const names = Object.keys(row ?? {});
  return h("dl", { class: "pairs" }, names.map((name) => h("div", null, h("dt", null, name), h("dd", null, value(row[name])))));
}
