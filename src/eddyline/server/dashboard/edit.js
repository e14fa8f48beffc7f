// Writing a rule, or changing one: mistakes are shown as one types, with what the rule would give and cost.

import { ApiError, get, isAbort, post, put } from "./api.js";
import { fill, h, icon } from "./dom.js";
import { durationWords, plural } from "./format.js";
import { Editor } from "./editor.js";
import { live } from "./live.js";
import { attempt, card, COSTS, empty, field, heading, loading, sentence, toast, trouble } from "./parts.js";
import { example, name as sqlName, streamOf, tokens } from "./sql.js";

const WAIT_MS = 220; // after the last key
const DURATIONS = ["cooldown", "for", "resolve"];
const PROPERTIES = [
  { name: "message", help: "What an alert says; {column} stands for its value.", placeholder: "{sym} fell to {price:.2f}", isWide: true },
  { name: "severity", help: "How bad it is.", choices: ["", "info", "warning", "error", "critical"] },
  { name: "per", help: "One alert for each value of these columns.", placeholder: "sym" },
  { name: "cooldown", help: "After firing, say nothing more for so long.", placeholder: "5 minutes" },
  { name: "resolve", help: "Closes after so long without a matching row.", placeholder: "10 minutes" },
  { name: "for", help: "Fires only once rows match for so long. Needs resolve.", placeholder: "2 minutes" },
  { name: "deliver", help: "Only to these sinks; to all if empty.", placeholder: "ops, audit" },
];

export function show(main, context) {
  const stop = new AbortController();
  if (context.params.length === 0) {
    const stream = [...live.streams].sort((a, b) => b.n_rows - a.n_rows)[0];
    const text = context.query.get("text") ?? (stream ? example(stream) : "SELECT ");
    const page = draw(main, context, stop, { name: context.query.get("name") ?? "", text, properties: {}, params: {} }, null);
    return { close: () => stop.abort(), ...page };
  }
  const view = { close: () => stop.abort() };
  const key = `q${context.params[0]}`;
  fill(main, heading("Change rule"), loading());
  get(`/queries/${key}`, null, stop).then(
    (rule) => Object.assign(view, draw(main, context, stop, rule, rule)),
    (error) => !stop.signal.aborted && fill(main, heading("Change rule"), trouble(error)),
  );
  return view;
}

/** The properties of a rule as one writes them. */
export function written(properties) {
  const words = {};
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (name === "enabled" || (name === "emit" && value === "changes")) continue; // as they are unless said otherwise
    if (DURATIONS.includes(name)) words[name] = durationWords(value);
    else words[name] = Array.isArray(value) ? value.join(", ") : String(value);
  }
  return words;
}

const parametersOf = (text) => [...new Set(tokens(text).filter(([kind]) => kind === "parameter").map(([, word]) => word.slice(1)))];

/** A parameter as it was written: a number if it is one, else a text. */
const parameterValue = (text) => {
  if (text.trim() === "" || /^null$/i.test(text.trim())) return null;
  if (/^(true|false)$/i.test(text.trim())) return /^true$/i.test(text.trim());
  return /^-?\d+(\.\d+)?(e[+-]?\d+)?$/i.test(text.trim()) ? Number(text) : text;
};

function draw(main, { title }, stop, rule, old) {
  const heard = old ? `Change ${old.name}` : "New rule";
  title(heard);
  let checking = new AbortController();
  let timer = 0;
  let isGood = false;
  const before = written(rule.properties);

  const nameInput = h("input", { class: "input", placeholder: "cheap_tech", autocomplete: "off", spellcheck: "false", value: rule.name, disabled: old !== null, maxlength: "200" });
  const ownerInput = live.may("admin") && !old ? h("input", { class: "input", placeholder: live.me.owner || "nobody in particular", autocomplete: "off" }) : null;
  const inputs = Object.fromEntries(PROPERTIES.map((p) => {
    const common = { class: "input", on: { input: later, change: later } };
    const input = p.choices
      ? h("select", common, p.choices.map((c) => h("option", { value: c, selected: c === (before[p.name] ?? "") }, c || "not said")))
      : h("input", { ...common, placeholder: p.placeholder, value: before[p.name] ?? "", autocomplete: "off", spellcheck: "false" });
    return [p.name, input];
  }));
  const editor = new Editor({ text: rule.text, label: "SQL of the rule", onInput: () => { drawColumns(); drawParameters(); later(); } });
  const told = h("div", { class: "told", id: "told", "aria-live": "polite" });
  editor.input.setAttribute("aria-describedby", "told");
  const columns = h("div", { class: "columns" });
  const parameters = h("div", { class: "grid-fields", hidden: true });
  const parameterInputs = new Map();
  const preview = h("div", { class: "stack" });
  const save = h("button", { class: "button main", type: "submit", title: "Ctrl Enter" }, icon("check"), old ? "Save change" : "Add rule");
  const notice = h("div");
  const isAlert = PROPERTIES.some((p) => before[p.name]);
  const form = h(
    "form",
    { class: "edit" },
    h("div", { class: "edit-main stack" },
      h("section", { class: "card stack", "aria-label": "The rule" },
        old ? null : h("div", { class: "grid-fields" }, field("Name", nameInput, "How lists and alerts call it."), ownerInput ? field("Owner", ownerInput, "Whose rule it is: only they and admins see it.") : null),
        h("div", { class: "field" }, h("span", { class: "label" }, "SQL"), editor.element),
        told,
        parameters,
        columns),
      h("details", { class: "card", open: isAlert || (!old && matchMedia("(min-width: 60rem)").matches) }, h("summary", null, h("h2", null, "Alerts"), h("span", { class: "soft small" }, "all optional: without them every match is a result, and no more")),
        h("div", { class: "grid-fields" }, PROPERTIES.map((p) => { const f = field(sentence(p.name), inputs[p.name], p.help); if (p.isWide) f.classList.add("wide"); return f; })))),
    h("aside", { class: "edit-side stack", "aria-label": "Beside the rule" }, card("What it would do", {}, preview)),
    h("div", { class: "edit-foot" }, notice, h("div", { class: "buttons end" }, h("a", { class: "button", href: old ? `#/rules/q${old.id}` : "#/rules" }, "Cancel"), save)),
  );
  form.addEventListener("submit", submit);
  form.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); form.requestSubmit(); }
  });
  fill(main, heading(heard), form);

  function drawColumns() {
    const wanted = streamOf(editor.text);
    const streams = live.streams;
    const stream = streams.find((s) => s.name.toLowerCase() === wanted?.toLowerCase()) ?? (streams.length === 1 ? streams[0] : null);
    const key = stream?.name ?? "";
    if (columns.dataset.of === key && columns.childNodes.length) return;
    columns.dataset.of = key;
    const chip = (word, type) => h("button", { class: "chip", type: "button", title: `Insert ${word}`, on: { click: () => editor.insert(sqlName(word)) } }, word, type ? h("span", { class: "faint" }, type.toLowerCase()) : null);
    if (stream) fill(columns, h("p", { class: "small soft" }, "Columns of ", h("b", null, stream.name)), h("div", { class: "chips" }, stream.columns.map((c) => chip(c.name, c.type))));
    else if (streams.length) fill(columns, h("p", { class: "small soft" }, "Streams"), h("div", { class: "chips" }, streams.map((s) => chip(s.name))));
    else fill(columns, h("p", { class: "small soft" }, "There is no stream yet: ", h("a", { href: "#/streams?add=1" }, "declare one"), " first."));
  }

  function drawParameters() {
    const names = parametersOf(editor.text);
    parameters.hidden = names.length === 0;
    if (names.join() === [...parameterInputs.keys()].join()) return;
    const kept = new Map(parameterInputs);
    parameterInputs.clear();
    fill(parameters, names.map((name) => {
      const given = rule.params?.[name];
      const input = kept.get(name) ?? h("input", { class: "input", value: given === undefined || given === null ? "" : String(given), autocomplete: "off", on: { input: later } });
      parameterInputs.set(name, input);
      return field(`:${name}`, input);
    }));
  }

  function body() {
    const properties = {};
    for (const [name, input] of Object.entries(inputs)) {
      const text = input.value.trim();
      if (text !== "") properties[name] = text;
      else if (old && before[name]) properties[name] = null; // it had one, which is taken away
    }
    if (ownerInput?.value.trim()) properties.owner = ownerInput.value.trim();
    const params = Object.fromEntries([...parameterInputs].map(([name, input]) => [name, parameterValue(input.value)]));
    return { text: editor.text, properties, ...(parameterInputs.size ? { params } : {}) };
  }

  function later() {
    clearTimeout(timer);
    timer = setTimeout(check, WAIT_MS);
  }

  async function check() {
    checking.abort();
    checking = new AbortController();
    if (editor.text.trim() === "") {
      isGood = false;
      fill(told, h("p", { class: "soft small" }, "Write a SELECT. Every row it matches becomes a result."));
      return fill(preview, empty("Nothing to look at yet", null));
    }
    try {
      const asked = body();
      if (old) delete asked.properties.owner;
      asked.properties = Object.fromEntries(Object.entries(asked.properties).filter(([, value]) => value !== null));
      const found = await post("/queries/check", asked, { signal: AbortSignal.any([stop.signal, checking.signal]) });
      tell(found);
    } catch (error) {
      if (isAbort(error)) return undefined;
      fill(told, trouble(error, check));
    }
    return undefined;
  }

  function tell(found) {
    isGood = found.ok;
    const error = found.ok ? null : found.error;
    const span = error?.span && (error.text === null || error.text === editor.text) ? error.span : null;
    editor.mark(span);
    if (error) editor.input.setAttribute("aria-invalid", "true");
    const wrongProperty = error?.problem.match(/\bproperty (\w+)/)?.[1];
    for (const [name, input] of Object.entries(inputs)) input.setAttribute("aria-invalid", String(name === wrongProperty));
    if (error) {
      const place = span ? placeWords(editor.text, span[0]) : null;
      fill(told, h("div", { class: "trouble", data: { kind: error.kind } }, h("p", { class: "trouble-title" }, sentence(error.problem), place ? h("span", { class: "soft small" }, ` ${place}`) : null), error.detail ? h("p", null, error.detail) : null, error.hint ? h("p", { class: "hint" }, error.hint) : null));
      if (!preview.childNodes.length) fill(preview, h("p", { class: "soft" }, "Once the text is right, this says which columns it gives and what it costs."));
      preview.classList.add("old");
      return;
    }
    preview.classList.remove("old");
    fill(told, h("p", { class: "good" }, icon("check"), "This can stand."), (found.warnings ?? []).map((w) => h("p", { class: "warning" }, sentence(w))));
    drawPreview(found);
  }

  function drawPreview(found) {
    const { explain = {} } = found;
    const conditions = explain.conditions ?? [];
    fill(
      preview,
      h("div", null, h("h3", null, "Gives"), h("div", { class: "chips" }, found.columns.map((c) => h("span", { class: "chip plain" }, c.name, h("span", { class: "faint" }, c.type.toLowerCase()))))),
      h("div", null, h("h3", null, "Decided by"), conditions.length ? h("ul", { class: "served" }, conditions.map((c) => h("li", null, h("span", { class: `served-by ${c.served_by}` }, c.served_by), h("code", null, c.text)))) : h("p", { class: "soft" }, "No condition: every row matches.")),
      explain.n_sharing ? h("p", { class: "soft small" }, `Shares its shape with ${plural(explain.n_sharing, "rule")} that stand already.`) : null,
      explain.cost ? h("p", { class: "soft small" }, COSTS[explain.cost]) : null,
    );
  }

  async function submit(event) {
    event.preventDefault();
    if (!save.disabled) {
      save.disabled = true;
      try {
        await (old ? change() : add());
      } catch (error) {
        if (!(error instanceof ApiError)) throw error;
        fill(notice, trouble(error));
        if (error.span) editor.mark(error.span);
        notice.scrollIntoView({ block: "nearest" });
      } finally {
        save.disabled = false;
      }
    }
  }

  async function add() {
    const made = await post("/queries", { ...body(), ...(nameInput.value.trim() ? { name: nameInput.value.trim() } : {}) });
    live.hurry();
    toast(made.is_new === false && !made.is_changed ? `${made.name} was there already` : `${made.name} stands from the next round on`);
    location.hash = `#/rules/q${made.id}`;
  }

  async function change() {
    const wanted = body();
    await put(`/queries/q${old.id}`, wanted);
    const undone = { text: old.text, ...(old.params ? { params: old.params } : {}), properties: {} };
    for (const { name } of PROPERTIES) if (before[name] || wanted.properties[name]) undone.properties[name] = before[name] ?? null;
    toast(`${old.name} was changed`, { undo: async () => { await put(`/queries/q${old.id}`, undone); toast(`${old.name} is as before`); live.hurry(); } });
    location.hash = `#/rules/q${old.id}`;
  }

  drawColumns();
  drawParameters();
  check();
  live.addEventListener("change", drawColumns, { signal: stop.signal });
  return { focus: old ? null : nameInput, isGood: () => isGood };
}

function placeWords(text, character) {
  const before = [...text].slice(0, character).join("");
  const lineNumber = before.split("\n").length;
  const column = before.length - (before.lastIndexOf("\n") + 1) + 1;
  return `line ${lineNumber}, column ${column}`;
}

/** Register a dropped rule again. */
export async function restore(rule) {
  const properties = written(rule.properties);
  if (rule.owner) properties.owner = rule.owner;
  if (rule.state === "paused") properties.enabled = "false";
  await attempt(async () => {
    const made = await post("/queries", { text: rule.text, name: rule.name, properties, ...(rule.params && Object.keys(rule.params).length ? { params: rule.params } : {}) });
    live.hurry();
    toast(`${made.name} stands again, as a new rule`);
    location.hash = `#/rules/q${made.id}`;
  });
}

