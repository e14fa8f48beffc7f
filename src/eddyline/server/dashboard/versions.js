// Versions of the catalog: what each changed, and going back to one, shown before it is done.

import { get, post } from "./api.js";
import { changedEntries, differenceBlock, pairsChanged } from "./difference.js";
import { fill, h, icon, reconcile } from "./dom.js";
import { ago, plural, whole } from "./format.js";
import { every, live } from "./live.js";
import { attempt, dialog, empty, heading, refresher, toast } from "./parts.js";
import { change, countWords } from "./plan.js";
import { block } from "./sql.js";

const EVERY_MS = 5_000;
const AT_ONCE = 30;

export function show(main, { title }) {
  title("Versions");
  if (!live.may("admin")) {
    fill(main, heading("Versions"), empty("Only admins see this", `This token has role ${live.me.role}.`));
    return {};
  }
  const stop = new AbortController();
  const { signal } = stop;
  let shown = AT_ONCE;
  const list = h("ol", { class: "stack versions", "aria-label": "Versions, newest first" });
  const notice = h("div");
  const more = h("button", { class: "button little", type: "button", hidden: true, on: { click: () => { shown += AT_ONCE; refresh(); } } }, "Show older ones");
  fill(main, heading("Versions", h("a", { class: "button main", href: "#/plan" }, "Plan a change")), h("p", { class: "soft" }, "Every change of rules and streams is a version. Going back makes a new one: nothing is rewritten."), notice, list, h("div", { class: "more" }, more));
  const refresh = refresher(notice, () => get("/versions", { newest: shown + 1 }, stop), draw, { signal, what: "Loading versions" });

  function draw(found) {
    fill(notice, found.length ? null : empty("No versions", "An engine in memory stores no versions; one with a home does."));
    more.hidden = found.length <= shown;
    const newest = found[0]?.version;
    reconcile(list, found.slice(0, shown), (v) => v.version, make, (element, v) => {
      const isCurrent = v.version === newest;
      element.querySelector(".current").hidden = !isCurrent;
      element.querySelector(".back-to").hidden = isCurrent;
    });
  }

  function make(version) {
    const inside = h("div", { class: "stack-small" });
    const inner = h("div");
    const load = () => refresher(inner, () => get(`/versions/${version.version}`, null, stop), (found) => fill(inside, changeParts(found)), { signal, what: "Loading what changed" })();
    const back = h("button", { class: "button little back-to", type: "button", on: { click: () => openRollback(version, refresh) } }, icon("refresh"), `Roll back to ${version.version}`);
    const element = h("details", { class: "card version" },
      h("summary", null, h("b", { class: "version-number" }, `#${version.version}`), h("span", { class: "version-what" }, version.what || "a change"), h("span", { class: "chip plain current" }, "deployed"), h("span", { class: "soft small" }, ago(version.at))),
      inner, inside, h("div", { class: "buttons end" }, back));
    element.addEventListener("toggle", () => element.open && !inside.childNodes.length && load());
    return h("li", null, element);
  }

  every(EVERY_MS, refresh, signal);
  return { close: () => stop.abort() };
}

/** Rules a version or a rollback adds, changes and removes. */
function changeParts(found) {
  const streams = Object.entries(found.streams ?? {}).flatMap(([kind, names]) => names.map((name) => change(kind, `stream ${name}`)));
  const rules = Object.entries(found.changes).flatMap(([kind, entries]) => [
    ...entries.map((entry) => change(kind, `${entry.name}${entry.n_rules > 1 ? ` and ${plural(entry.n_rules - 1, "more rule")} of its template` : ""}`, entry.owner ? h("span", { class: "chip plain" }, entry.owner) : null, entryParts(kind, entry))),
    found[kind] > entries.reduce((n, entry) => n + (entry.n_rules ?? 1), 0) ? h("li", { class: "soft small" }, `and ${whole(found[kind] - entries.length)} more ${kind}`) : null,
  ]);
  return streams.length + rules.filter(Boolean).length ? h("ul", { class: "plan-changes" }, streams, rules) : h("p", { class: "soft" }, "It changed no rule and no stream.");
}

function entryParts(kind, entry) {
  if (kind !== "changed") return block(entry.text ?? entry.before ?? "");
  const state = entry.state !== entry.state_before ? { state: [entry.state_before, entry.state] } : {};
  return [
    entry.before !== entry.text ? differenceBlock(entry.before ?? "", entry.text ?? "") : null,
    pairsChanged({ ...state, ...changedEntries(entry.params_before, entry.params), ...entry.properties }),
  ];
}

/** What going back would change, and the button that does it. */
function openRollback(version, again) {
  const stop = new AbortController();
  const notice = h("div");
  const plan = h("div", { class: "stack-small" });
  const yes = h("button", { class: "button main", type: "button", hidden: true, on: { click: run } }, "Roll back");
  const close = dialog(`Roll back to version ${version.version}?`, h("div", { class: "stack" }, h("p", { class: "soft" }, version.what), notice, plan, h("div", { class: "buttons end" }, h("button", { class: "button", type: "button", on: { click: () => close() } }, "Cancel"), yes)), { onClose: () => stop.abort() });
  const refresh = refresher(notice, () => post(`/versions/${version.version}/rollback`, { dry_run: true }, stop), (found) => {
    const isAny = found.added + found.changed + found.removed > 0;
    fill(plan, h("p", null, h("b", null, isAny ? countWords(found) : "Nothing to do"), isAny ? "" : ": its rules are deployed."), isAny ? changeParts(found) : null);
    yes.hidden = !isAny;
  }, { signal: stop.signal, what: "Working out what that changes" });
  refresh();

  async function run() {
    yes.disabled = true;
    await attempt(async () => {
      const done = await post(`/versions/${version.version}/rollback`, { dry_run: false });
      toast(`Version ${done.version} has the rules of version ${done.to}: ${countWords(done)}`);
      live.hurry();
      close();
      again();
    });
    yes.disabled = false;
  }
}
