// Alerts that are open, by rule, with what can be done about them; silences; recent messages.

import { ApiError, drop, get, isAbort } from "./api.js";
import { alertItem, alertKey, messageItem, severityMark, updateAlert } from "./alert_parts.js";
import { openAcknowledge, openSilence } from "./alert_actions.js";
import { fill, h, icon, reconcile, setText } from "./dom.js";
import { ago, agoWords, exactWords, keyWords, moment, plural, setAgo, short } from "./format.js";
import { every, live } from "./live.js";
import { attempt, card, empty, errorNotice, heading, loading, toast } from "./parts.js";

export { alertItem, alertKey, messageItem, updateAlert } from "./alert_parts.js";

const EVERY_MS = 2_500;
const UNFOLDED = 4; // a rule with more alerts is folded, if there are other rules
const TILES = [
  ["open", "open", "Open, and not silenced: what the badge counts", { silenced: false }],
  ["unacknowledged", "unacknowledged", "Open, and not acknowledged yet", { silenced: false, acknowledged: false }],
  ["acknowledged", "acknowledged", "Open, and acknowledged", { silenced: false, acknowledged: true }],
  ["silenced", "silenced", "Open, but no messages are sent for now", { silenced: true }],
];
const SEVERITIES = ["critical", "error", "warning", "info"];
const STATES = ["firing", "pending", "held"];

export function show(main, { query, title }) {
  const stop = new AbortController();
  const { signal } = stop;
  const mayAct = live.may("author");
  const isAdmin = live.may("admin");
  const filters = { show: query.get("show") ?? "open", filter: query.get("filter") ?? "", severity: query.get("severity") ?? "", state: query.get("state") ?? "" };
  if (!TILES.some(([name]) => name === filters.show)) filters.show = "open";
  const unfolded = new Map(); // by rule: what was chosen
  let pending = new AbortController();
  let timer = 0;
  title("Alerts");

  const search = h("input", {
    class: "input", type: "search", placeholder: "Search rules, keys and messages", "aria-label": "Search rules, keys and messages", value: filters.filter, autocomplete: "off", spellcheck: "false",
    on: { input: () => { clearTimeout(timer); timer = setTimeout(() => change({ filter: search.value }), 150); } },
  });
  const severity = choice("Severity", [["", "Any severity"], ...SEVERITIES.map((name) => [name, name])], "severity");
  const state = choice("State", [["", "Any state"], ...STATES.map((name) => [name, name])], "state");
  const tiles = h("div", { class: "tiles", role: "group", "aria-label": "Which alerts" });
  const notice = h("div", { class: "card" }, loading("Looking for open alerts"));
  const groups = h("ul", { class: "alert-groups", "aria-label": "Open alerts by rule" });
  const more = h("p", { class: "soft small centered", hidden: true });
  const silences = h("ul", { class: "stack" });
  const silencesCard = card("Silences", {}, silences);
  silencesCard.hidden = true;
  const recent = h("ul", { class: "stack" });
  const recentNotice = h("div", null, loading());
  const add = mayAct ? h("button", { class: "button", type: "button", on: { click: () => openSilence({}, refresh) } }, icon("mute"), "New silence") : null;
  fill(
    main,
    heading("Alerts", add),
    tiles,
    h("div", { class: "bar-of-tools" }, h("div", { class: "search" }, icon("search"), search, h("kbd", { "aria-hidden": "true" }, "/")), h("div", { class: "choices-of-alerts" }, severity, state)),
    notice,
    groups,
    more,
    silencesCard,
    card("Recent messages", {}, recentNotice, recent),
  );

  function choice(label, options, name) {
    const select = h("select", { class: "input sort", "aria-label": label, on: { change: () => change({ [name]: select.value }) } },
      options.map(([value, words]) => h("option", { value, selected: value === filters[name] }, words)));
    return select;
  }

  function change(what) {
    Object.assign(filters, what);
    const entries = Object.entries(filters).filter(([name, value]) => value !== "" && !(name === "show" && value === "open"));
    const text = new URLSearchParams(entries).toString();
    history.replaceState(null, "", `#/alerts${text ? `?${text}` : ""}`);
    refresh();
  }

  async function refresh() {
    pending.abort();
    pending = new AbortController();
    const both = { signal: AbortSignal.any([signal, pending.signal]) };
    const { show: _, ...matching } = filters;
    const chosen = TILES.find(([name]) => name === filters.show)[3];
    try {
      const [found, quiet, latest] = await Promise.all([get("/alerts/groups", { ...matching, ...chosen }, both), get("/silences", null, both), get("/messages", { newest: 30 }, both)]);
      draw(found);
      drawSilences(quiet);
      fill(recentNotice, latest.messages.length ? null : empty("No message yet", "Rules with message, severity, per, cooldown or resolve send one when they fire. Give one of them when you write or change a rule."));
      reconcile(recent, latest.messages.reverse(), (message) => message.id, (message) => messageItem(message));
    } catch (error) {
      if (isAbort(error)) return;
      if (!(error instanceof ApiError)) throw error;
      if (!error.isOffline) {
        notice.hidden = false;
        fill(recentNotice);
        fill(notice, errorNotice(error, refresh));
      }
    }
  }

  function draw(found) {
    reconcile(tiles, TILES, ([name]) => name, ([name, words, what]) =>
      h("button", { class: `tile alerts-${name}`, type: "button", title: what, on: { click: () => change({ show: name }) } }, h("span", { class: "tile-count" }), h("span", { class: "tile-name" }, h("i", { class: "dot" }), words)),
    (element, [name]) => {
      setText(element.firstElementChild, short(found.counts[name]));
      element.setAttribute("aria-pressed", String(filters.show === name));
      element.classList.toggle("none", found.counts[name] === 0);
    });
    for (const option of severity.options) if (option.value) setText(option, `${option.value} (${short(found.severities[option.value])})`);
    for (const option of state.options) if (option.value) setText(option, `${option.value} (${short(found.states[option.value])})`);
    notice.hidden = found.groups.length > 0;
    fill(notice, found.groups.length ? null : nothing(found));
    reconcile(groups, found.groups, (group) => group.query_id, makeGroup, (element, group) => updateGroup(element, group, found.n_groups));
    more.hidden = found.n_groups <= found.groups.length;
    setText(more, `and ${plural(found.n_groups - found.groups.length, "more rule")} with open alerts: search, or choose a severity`);
  }

  function nothing(found) {
    const isFiltered = filters.filter !== "" || filters.severity !== "" || filters.state !== "";
    const others = found.counts.silenced;
    if (isFiltered) {
      const clear = () => {
        search.value = severity.value = state.value = "";
        change({ filter: "", severity: "", state: "" });
      };
      return empty("No open alert matches", filters.filter ? `Nothing with “${filters.filter}” in its rule, key or message.` : null, h("button", { class: "button", type: "button", on: { click: clear } }, "Show all"));
    }
    if (filters.show === "unacknowledged" && found.counts.open) return empty("Every open alert is acknowledged", `${plural(found.counts.acknowledged, "alert")} acknowledged.`);
    if (filters.show === "acknowledged") return empty("No alert is acknowledged", "Acknowledge an open alert to show others that you are working on it.");
    if (filters.show === "silenced") return empty("No open alert is silenced", "A silence withholds messages for a time, for example during a deployment. Alerts continue; withheld messages that still apply are sent when it ends.");
    return empty("No alert is open", others ? `${plural(others, "alert")} silenced.` : "A rule with resolve opens one at its first matching row, and closes it when rows stop coming.");
  }

  // ------------------------------------------------------------------------------------------- one rule

  function makeGroup(group) {
    const id = `alerts-of-${group.query_id}`;
    const parts = {
      mark: severityMark(group.severity),
      fold: h("button", { class: "button bare square little fold", type: "button", "aria-controls": id, on: { click: () => { unfolded.set(group.query_id, parts.fold.getAttribute("aria-expanded") !== "true"); fold(element, parts); } } }, icon("next")),
      counts: h("span", { class: "soft small" }),
      since: ago(group.since),
      list: h("ul", { class: "alert-list", id }),
      more: h("p", { class: "soft small alert-more", hidden: true }),
    };
    const about = { query: `q${group.query_id}`, name: group.query };
    const buttons = mayAct
      ? h("div", { class: "buttons" },
        h("button", { class: "button little acknowledge-all", type: "button", on: { click: () => openAcknowledge({ ...about, n: element.group.n }, refresh) } }, icon("check"), "Acknowledge all"),
        h("button", { class: "button little", type: "button", on: { click: () => openSilence(about, refresh) } }, icon("mute"), "Silence rule"))
      : null;
    const element = h("li", { class: "card flush alert-group", data: { severity: group.severity }, "aria-label": group.query },
      h("div", { class: "alert-head" }, parts.fold, parts.mark,
        h("div", { class: "alert-rule" }, h("a", { href: `#/rules/q${group.query_id}` }, group.query), isAdmin && group.owner ? h("span", { class: "chip plain" }, group.owner) : null, parts.counts),
        buttons),
      parts.list, parts.more);
    element.parts = parts;
    return element;
  }

  function updateGroup(element, group, nGroups) {
    const { parts } = element;
    element.group = group;
    element.isSmall = group.n <= UNFOLDED || nGroups === 1;
    const states = Object.entries(group.states).filter(([, n]) => n).map(([name, n]) => `${short(n)} ${name}`);
    const noted = group.n_acknowledged ? `${short(group.n_acknowledged)} acknowledged` : null;
    const quiet = group.n_silenced && filters.show !== "silenced" ? `${short(group.n_silenced)} silenced` : null;
    setText(parts.counts, [...states, noted, quiet].filter(Boolean).join(" · "));
    setAgo(parts.since, group.since);
    const all = element.querySelector(".acknowledge-all");
    if (all) all.hidden = group.n_acknowledged === group.n || group.n < 2;
    reconcile(parts.list, group.alerts, alertKey, (alert) => alertItem(alert, { isNamed: false, isListed: true, actions: mayAct ? { acknowledge: refresh, silence: refresh } : null }), updateAlert);
    parts.more.dataset.n = group.n - group.alerts.length;
    setText(parts.more, `and ${plural(group.n - group.alerts.length, "more alert")} of this rule`);
    fold(element, parts);
  }

  function fold(element, parts) {
    const isOpen = unfolded.get(element.group.query_id) ?? element.isSmall;
    parts.fold.setAttribute("aria-expanded", String(isOpen));
    parts.fold.setAttribute("aria-label", isOpen ? `Fold the alerts of ${element.group.query}` : `Show the alerts of ${element.group.query}`);
    parts.list.hidden = !isOpen;
    parts.more.hidden = !isOpen || parts.more.dataset.n === "0";
  }

  // ------------------------------------------------------------------------------------------- silences

  function drawSilences(found) {
    silencesCard.hidden = found.length === 0;
    reconcile(silences, found, (silence) => silence.id, silenceItem, (element, silence) => {
      setText(element.querySelector(".silence-count"), silence.n_withheld ? `${plural(silence.n_withheld, "message")} withheld` : "nothing withheld yet");
      setText(element.querySelector(".silence-end"), `ends ${agoWords(moment(silence.until))}`);
    });
  }

  function silenceItem(silence) {
    const about = [silence.query, keyWords(silence.key), silence.severity, isAdmin && silence.owner && silence.query_id === null ? `of ${silence.owner}` : null].filter(Boolean).join(", ");
    const mayEnd = mayAct && (isAdmin || silence.owner === live.me.owner);
    const end = async () => {
      const isDone = await attempt(() => drop(`/silences/${silence.id}`));
      if (!isDone) return;
      toast(`The silence of ${about} has ended: withheld messages that still hold are sent with the next round`);
      live.hurry();
      refresh();
    };
    return h("li", { class: "silence", data: { silence: silence.id } },
      h("div", { class: "silence-words" },
        h("p", null, silence.query_id === null ? h("strong", null, silence.query) : h("a", { href: `#/rules/q${silence.query_id}` }, silence.query), ...[keyWords(silence.key), silence.severity && `severity ${silence.severity}`, silence.query_id === null && (silence.owner ? `rules of ${silence.owner}` : "rules of everybody")].filter(Boolean).map((words) => [" · ", words])),
        h("p", { class: "soft small" }, h("span", { class: "silence-end", title: exactWords(moment(silence.until)) }), " · ", silence.n_withheld === null ? h("span", { class: "silence-count", hidden: true }) : [h("span", { class: "silence-count" }), " · "], silence.by ? `by ${silence.by} ` : "", ago(silence.at), silence.reason ? `: ${silence.reason}` : "")),
      mayEnd ? h("button", { class: "button little", type: "button", "aria-label": `End the silence of ${about} now`, on: { click: end } }, "End now") : null);
  }

  every(EVERY_MS, refresh, signal);
  return { close: () => { clearTimeout(timer); stop.abort(); }, search: () => search.focus(), keys: { "/": () => search.focus() } };
}
