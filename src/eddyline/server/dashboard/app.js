// The frame of the page: which view is shown, the live numbers above it, keys, theme, and who is signed in.

import { drop, session } from "./api.js";
import { quantile, spark, sparkFrame } from "./charts.js";
import { fill, h, icon, setText } from "./dom.js";
import { agoWords, exactWords, short, tick, took } from "./format.js";
import { live } from "./live.js";
import { attempt, dialog, empty, loading } from "./parts.js";
import * as access from "./access.js";
import * as aggregates from "./aggregates.js";
import * as alerts from "./alerts.js";
import * as deadLetters from "./dead_letters.js";
import * as edit from "./edit.js";
import * as filters from "./filters.js";
import * as joins from "./joins.js";
import * as login from "./login.js";
import * as pipeline from "./pipeline.js";
import * as plan from "./plan.js";
import * as rounds from "./rounds.js";
import * as rule from "./rule.js";
import * as rules from "./rules.js";
import * as streams from "./streams.js";
import * as versions from "./versions.js";

const VIEWS = [
  { name: "rules", label: "Rules", short: "Rules", icon: "rules" },
  { name: "alerts", label: "Alerts", short: "Alerts", icon: "bell" },
  { name: "rounds", label: "Rounds", short: "Rounds", icon: "pulse" },
  { name: "streams", label: "Streams", short: "Streams", icon: "waves" },
  { name: "pipeline", label: "Sources and sinks", short: "Pipeline", icon: "pipe", role: "admin" },
  { name: "dead-letters", label: "Dead letters", short: "Dead", icon: "letter" },
  { name: "versions", label: "Versions", short: "Versions", icon: "versions", role: "admin" },
  { name: "access", label: "Access", short: "Access", icon: "key", role: "admin" },
];

// A view is show(main, {params, query}) and gives {close(), keys}; the first route that fits is taken.
const ROUTES = [
  [/^rules$/, rules, "rules"],
  [/^rules\/q(\d+)$/, rule, "rules"],
  [/^rules\/q(\d+)\/change$/, edit, "rules"],
  [/^new$/, edit, "rules"],
  [/^alerts$/, alerts, "alerts"],
  [/^rounds$/, rounds, "rounds"],
  [/^streams$/, streams, "streams"],
  [/^streams\/([^/]+)\/filters$/, filters, "streams"],
  [/^streams\/([^/]+)\/aggregates$/, aggregates, "streams"],
  [/^joins$/, joins, "streams"],
  [/^pipeline$/, pipeline, "pipeline"],
  [/^versions$/, versions, "versions"],
  [/^plan$/, plan, "versions"],
  [/^dead-letters$/, deadLetters, "dead-letters"],
  [/^access$/, access, "access"],
  [/^login$/, login, null],
];

const KEYS = [
  ["/", "search the rules"],
  ["n", "new rule"],
  ["1 – 8", "the views, in order"],
  ["↑ ↓", "move in a list, Enter opens"],
  ["p", "pause or resume the rule"],
  ["e", "change the rule"],
  ["h", "hold or follow its results"],
  ["Ctrl Space", "offer names in the editor"],
  ["Ctrl Enter", "save in the editor"],
  ["t", "light, dark, or as the machine"],
  ["Esc", "close, or back"],
  ["?", "these keys"],
];

const shell = document.getElementById("shell");
const main = document.getElementById("main");
const nav = document.getElementById("nav");
const links = new Map(); // by the name of the view
let current = null; // {close, keys} of the view that is shown
let nextHash = "#/rules"; // where to go after signing in

// ----------------------------------------------------------------------------------------------- routes

function route() {
  if (location.hash === "#main") return; // the skip link
  const [path, search] = (location.hash.replace(/^#\/?/, "") || "rules").split("?");
  const found = ROUTES.find(([pattern]) => pattern.test(path)) ?? ROUTES[0];
  const [pattern, view, tab] = found;
  if (live.me === null && view !== login) return; // the first answer, or signing in, comes back here
  current?.close?.();
  shell.classList.toggle("alone", view === login);
  for (const [name, link] of links) {
    if (name === tab) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  fill(main);
  const params = path.match(pattern)?.slice(1) ?? [];
  current = view.show(main, { params, query: new URLSearchParams(search), title, signedIn });
  window.scrollTo(0, 0);
  (current.focus ?? main.querySelector("h1"))?.focus({ preventScroll: true });
}

function title(text) {
  document.title = text ? `${text} · eddyline` : "eddyline";
}

// ----------------------------------------------------------------------------------------------- who

function signedOut() {
  live.stop();
  if (!location.hash.startsWith("#/login")) nextHash = location.hash || "#/rules";
  location.hash = "#/login";
  if (location.hash === "#/login") route();
}

function begin() {
  live.start();
}

session.lost = signedOut;

function signedIn() {
  begin();
  const first = () => {
    live.removeEventListener("change", first);
    location.hash = nextHash;
  };
  live.addEventListener("change", first);
}

async function signOut() {
  if (await attempt(() => drop("/session"))) signedOut();
}

// ----------------------------------------------------------------------------------------------- the frame

function drawNav() {
  const shown = VIEWS.filter((view) => !view.role || live.may(view.role));
  if (links.size === shown.length) return;
  links.clear();
  for (const [k, view] of shown.entries()) {
    const tally = h("span", { class: "tally", hidden: true });
    const link = h("a", { href: `#/${view.name}`, title: `${view.label} (${k + 1})`, "aria-label": view.label }, icon(view.icon), h("span", { class: "long" }, view.label), h("span", { class: "short", "aria-hidden": "true" }, view.short), tally);
    links.set(view.name, link);
  }
  fill(nav, [...links.values()]);
}

function setTally(name, n, words) {
  const link = links.get(name);
  if (!link) return;
  const tally = link.querySelector(".tally");
  tally.hidden = !n;
  setText(tally, n > 99 ? "99+" : String(n));
  link.setAttribute("aria-label", n ? `${link.querySelector("span").textContent}, ${n} ${words}` : link.querySelector("span").textContent);
}

const METRICS = [
  { name: "rows/s", of: (s) => short(s.rates.rows), each: (r) => r.n_rows, what: "rows a second, over the last minute" },
  { name: "matches/s", of: (s) => short(s.rates.results), each: (r) => r.n_results, what: "results a second, over the last minute" },
  { name: "rounds/s", of: (s) => short(s.rates.rounds), note: (s) => `#${short(s.last_round)}`, each: () => null, what: "rounds a second, over the last minute, and the last one's number" },
  { name: "latency p50 / p99", of: () => null, each: (r) => r.seconds, what: "how long the last rounds took: half were faster than the first number, 99 of 100 than the second" },
];

function drawMetrics() {
  const list = h("dl");
  for (const metric of METRICS) {
    metric.value = h("span", null, "–");
    metric.beside = h("small");
    metric.line = sparkFrame();
    list.append(h("div", { title: metric.what, data: { metric: metric.name.split("/")[0].split(" ")[0] } }, h("dt", null, metric.name.split(" ")[0], h("span", null, metric.name.slice(metric.name.split(" ")[0].length))), h("dd", null, metric.value, " ", metric.beside), metric.line));
  }
  fill(document.getElementById("live"), list);
}

function refresh() {
  const { status, rounds: records } = live;
  const strip = document.getElementById("live");
  strip.classList.toggle("stale", live.state === "offline");
  if (status === null) return;
  drawNav();
  setTally("alerts", status.n_open_alerts, "open");
  const seconds = records.map((r) => r.seconds);
  for (const metric of METRICS) {
    if (metric.name.startsWith("latency")) {
      const [half, most] = [took(quantile(seconds, 0.5)), took(quantile(seconds, 0.99))];
      const [, unit] = most.split(" ");
      setText(metric.value, unit !== undefined && half.endsWith(` ${unit}`) ? half.slice(0, -unit.length - 1) : half);
      setText(metric.beside, seconds.length ? `/ ${most}` : "");
    } else {
      setText(metric.value, metric.of(status));
      setText(metric.beside, metric.note?.(status) ?? "");
    }
    const values = metric.name.startsWith("rounds") ? live.roundRates : records.slice(-60).map(metric.each);
    spark(metric.line, values);
  }
}

function drawConnection() {
  const element = document.getElementById("connection");
  const { state, lastAnswer, status } = live;
  const words = {
    live: status?.is_ready === false ? "live, but rounds do not run" : "live",
    waiting: "connecting…",
    offline: lastAnswer === null ? "offline, trying again" : `offline since ${agoWords(lastAnswer)}`.replace("since now", "just now"),
  }[state].replace("since ", "");
  const shown = status?.is_ready === false && state === "live" ? "waiting" : state;
  if (element.dataset.state !== shown || element.textContent !== words) {
    element.dataset.state = shown;
    element.title = status?.trouble ?? (lastAnswer === null ? "" : `last answer ${exactWords(lastAnswer)}`);
    fill(element, h("span", null, words));
  }
}

// ----------------------------------------------------------------------------------------------- theme, keys

const THEMES = { system: ["half", "as the machine"], light: ["sun", "light"], dark: ["moon", "dark"] };

function drawTools() {
  const theme = document.documentElement.dataset.theme;
  const [name, words] = THEMES[theme] ?? THEMES.system;
  const make = (picture, label, act) => h("button", { class: "button bare square", type: "button", title: label, "aria-label": label, on: { click: act } }, icon(picture));
  fill(
    document.getElementById("tools"),
    make(name, `Theme: ${words} (t)`, nextTheme),
    make("keys", "Keys (?)", showKeys),
    make("leave", "Sign out", signOut),
  );
}

function nextTheme() {
  const names = Object.keys(THEMES);
  const next = names[(names.indexOf(document.documentElement.dataset.theme) + 1) % names.length];
  document.documentElement.dataset.theme = next;
  try {
    localStorage.setItem("eddyline.theme", next);
  } catch {
    // storage is closed to us: the choice lasts as long as the page
  }
  drawTools();
  document.getElementById("tools").firstElementChild.focus();
}

function showKeys() {
  dialog("Keys", h("dl", { class: "keys" }, KEYS.map(([key, what]) => h("div", null, h("dt", null, key.split(" ").map((k) => (k === "–" ? " – " : h("kbd", null, k)))), h("dd", null, what)))));
}

document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || live.me === null) return;
  if (document.querySelector("dialog[open]")) return;
  const isTyping = event.target.closest?.("input, textarea, select, [contenteditable]");
  if (event.key === "Escape" && isTyping) return void event.target.blur();
  if (isTyping) return;
  const own = current?.keys?.[event.key];
  const views = [...links.values()];
  const act =
    own ??
    {
      "/": () => (location.hash.startsWith("#/rules") && current?.search ? current.search() : goSearch()),
      n: () => live.may("author") && (location.hash = "#/new"),
      t: nextTheme,
      "?": showKeys,
    }[event.key] ??
    (/^[1-9]$/.test(event.key) && views[event.key - 1] ? () => { location.hash = views[event.key - 1].hash; } : null);
  if (!act) return;
  event.preventDefault();
  act();
});

function goSearch() {
  location.hash = "#/rules";
  requestAnimationFrame(() => requestAnimationFrame(() => current?.search?.()));
}

// ----------------------------------------------------------------------------------------------- begin

drawTools();
drawMetrics();
drawConnection();
live.addEventListener("change", () => {
  refresh();
  drawConnection();
  if (current === null && live.me !== null) route();
  else if (current === null) fill(main, empty("The server cannot be reached", "It may be starting or restarting. This page tries again by itself; nothing is lost meanwhile."));
});
window.addEventListener("hashchange", route);
setInterval(() => { tick(); drawConnection(); }, 1_000);
if (!location.hash) history.replaceState(null, "", "#/rules");
if (location.hash.startsWith("#/login")) {
  route();
} else {
  fill(main, loading("Connecting"));
  begin();
}
