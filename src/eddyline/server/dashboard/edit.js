// Writing a rule, or changing one: names are offered and mistakes marked as one types, with what the rule would give and cost.

import { ApiError, get, isAbort, post, put } from "./api.js";
import { Completion, listOffers, messageOffers } from "./complete.js";
import { changedEntries, differenceBlock, pairsChanged } from "./difference.js";
import { fill, h, icon } from "./dom.js";
import { durationWords, plural } from "./format.js";
import { Editor } from "./editor.js";
import { live } from "./live.js";
import { attempt, card, COSTS, empty, errorNotice, field, heading, loading, markField, sentence, toast } from "./parts.js";
import { example, name as sqlName, streamOf, tokens } from "./sql.js";
import { sqlOffers } from "./sql_offers.js";
import { trialParts } from "./trial.js";

const WAIT_MS = 220; // after the last key
const DURATIONS = ["cooldown", "for", "resolve"];
const PROPERTIES = [
  { name: "message", help: "The text of its messages; {column} becomes its value.", placeholder: "{sym} fell to {price:.2f}", isWide: true },
  { name: "severity", help: "Of its alerts.", choices: ["", "info", "warning", "error", "critical"] },
  { name: "per", help: "One alert for each value of these columns.", placeholder: "sym" },
  { name: "cooldown", help: "After firing, send nothing more for so long.", placeholder: "5 minutes" },
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
    (error) => !stop.signal.aborted && fill(main, heading("Change rule"), errorNotice(error)),
  );
  return view;
}

/** The properties of a rule as one writes them. */
export function written(properties) {
  const words = {};
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (name === "enabled" || (name === "emit" && value === "changes")) continue; // as they are unless stated otherwise
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
  const pageTitle = old ? `Change ${old.name}` : "New rule";
  title(pageTitle);
  let checking = new AbortController();
  let timer = 0;
  let isGood = false;
  let columnsGiven = []; // by the text as it was last right
  let vocabulary = null;
  let tried = null; // the text that was tried
  const before = written(rule.properties);

  const nameInput = h("input", { class: "input", placeholder: "cheap_tech", autocomplete: "off", spellcheck: "false", value: rule.name, disabled: old !== null, maxlength: "200", on: { input: later } });
  const ownerInput = live.may("admin") && !old ? h("input", { class: "input", placeholder: live.me.owner || "no owner", autocomplete: "off", on: { input: later } }) : null;
  const inputs = Object.fromEntries(PROPERTIES.map((p) => {
    const common = { class: "input", on: { input: later, change: later } };
    const input = p.choices
      ? h("select", common, p.choices.map((c) => h("option", { value: c, selected: c === (before[p.name] ?? "") }, c || "none")))
      : h("input", { ...common, placeholder: p.placeholder, value: before[p.name] ?? "", autocomplete: "off", spellcheck: "false" });
    return [p.name, input];
  }));
  const editor = new Editor({ text: rule.text, label: "SQL of the rule", onInput: () => { drawColumns(); drawParameters(); later(); trial.classList.toggle("old", tried !== null && tried !== editor.text); } });
  const findings = h("div", { class: "findings", id: "findings", "aria-live": "polite" });
  editor.input.setAttribute("aria-describedby", "findings");
  const columns = h("div", { class: "columns" });
  const parameters = h("div", { class: "grid-fields", hidden: true });
  const parameterInputs = new Map();
  const preview = h("div", { class: "stack" });
  const save = h("button", { class: "button main", type: "submit", title: "Ctrl Enter" }, icon("check"), old ? "Save change" : "Add rule");
  const notice = h("div");
  const isAlert = PROPERTIES.some((p) => before[p.name]);
  const trial = h("div", { class: "stack", "aria-live": "polite" }, h("p", { class: "soft" }, "How many of the last 10,000 rows would have matched? Nothing is registered or delivered."));
  const tryButton = h("button", { class: "button little", type: "button", on: { click: tryIt } }, icon("play"), "Try it");
  const changes = h("div", { class: "stack-small" });
  const alertFields = h("details", { class: "card", open: isAlert || (!old && matchMedia("(min-width: 60rem)").matches) }, h("summary", null, h("h2", null, "Alerts"), h("span", { class: "soft small" }, "all optional: without them every match is a result, and no more")),
    h("div", { class: "grid-fields" }, PROPERTIES.map((p) => { const f = field(sentence(p.name), inputs[p.name], p.help); if (p.isWide) f.classList.add("wide"); return f; })));
  const form = h(
    "form",
    { class: "edit" },
    h("div", { class: "edit-main stack" },
      h("section", { class: "card stack", "aria-label": "The rule" },
        old ? null : h("div", { class: "grid-fields" }, field("Name", nameInput, "Shown in lists and alerts."), ownerInput ? field("Owner", ownerInput, "Only the owner and admins see the rule.") : null),
        h("div", { class: "field" }, h("span", { class: "label" }, "SQL"), editor.element),
        findings,
        parameters,
        columns),
      alertFields),
    h("aside", { class: "edit-side stack", "aria-label": "Beside the rule" }, old ? card("What would change", {}, changes) : null, card("What it would do", {}, preview), live.may("author") ? card("On recent rows", { tools: tryButton }, trial) : null),
    h("div", { class: "edit-foot" }, notice, h("div", { class: "buttons end" }, h("a", { class: "button", href: old ? `#/rules/q${old.id}` : "#/rules" }, "Cancel"), save)),
  );
  form.addEventListener("submit", submit);
  form.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); form.requestSubmit(); }
  });
  fill(main, heading(pageTitle), form);
  const streams = () => live.streams;
  const columnOffers = () => columnsGiven.map((c) => ({ word: c.name, note: c.type.toLowerCase() }));
  const sinks = () => (vocabulary?.sinks ?? []).map((word) => ({ word, note: "sink" }));
  new Completion(editor.input, { label: "Offered words", offers: sqlOffers(streams, () => vocabulary), place: () => editor.cursorPlace() });
  new Completion(inputs.message, { label: "Offered words", offers: messageOffers(columnOffers) });
  new Completion(inputs.per, { label: "Offered words", offers: listOffers(columnOffers) });
  new Completion(inputs.deliver, { label: "Offered words", offers: listOffers(sinks) });
  get("/vocabulary", null, stop).then((found) => { vocabulary = found; }, () => {}); // without it streams and columns are offered all the same

  function drawColumns() {
    const streamName = streamOf(editor.text);
    const streams = live.streams;
    const stream = streams.find((s) => s.name.toLowerCase() === streamName?.toLowerCase()) ?? (streams.length === 1 ? streams[0] : null);
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
    const oldInputs = new Map(parameterInputs);
    parameterInputs.clear();
    fill(parameters, names.map((name) => {
      const argument = rule.params?.[name];
      const input = oldInputs.get(name) ?? h("input", { class: "input", value: argument === undefined || argument === null ? "" : String(argument), autocomplete: "off", on: { input: later } });
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
      fill(findings, h("p", { class: "soft small" }, "Write a SELECT. Every row it matches becomes a result."));
      return fill(preview, empty("Nothing to look at yet", null));
    }
    try {
      const request = body();
      if (old) delete request.properties.owner;
      request.properties = Object.fromEntries(Object.entries(request.properties).filter(([, value]) => value !== null));
      if (!old && nameInput.value.trim()) request.name = nameInput.value.trim();
      const found = await post("/queries/check", request, { signal: AbortSignal.any([stop.signal, checking.signal]) });
      tell(found);
    } catch (error) {
      if (isAbort(error)) return undefined;
      fill(findings, errorNotice(error, check));
    }
    return undefined;
  }

  /** Every mistake is marked in its own field; those of the text are listed below it. */
  function tell(found) {
    isGood = found.ok;
    const errors = found.errors ?? [];
    const ofText = errors.find((error) => error.field === "text") ?? null;
    const span = ofText?.span && (ofText.text === null || ofText.text === editor.text) ? ofText.span : null;
    editor.mark(span);
    if (ofText) editor.input.setAttribute("aria-invalid", "true");
    const marked = new Set(ofText ? ["text"] : []);
    for (const [field, input] of fields()) {
      const error = errors.find((each) => each.field === field) ?? null;
      if (markField(input, error)) marked.add(field);
    }
    if ([...marked].some((field) => field.startsWith("properties.") && field !== "properties.owner")) alertFields.open = true;
    const others = errors.filter((error) => error !== ofText && !marked.has(error.field));
    const nMarked = errors.length - others.length - (ofText ? 1 : 0);
    fill(
      findings,
      ofText ? mistake(ofText, span ? placeWords(editor.text, span[0]) : null) : null,
      others.map((error) => mistake(error, null)),
      !ofText && nMarked ? h("p", { class: "warning" }, `The text is right; ${nMarked === 1 ? "a field" : `${nMarked} fields`} below or above it ${nMarked === 1 ? "is" : "are"} not.`) : null,
      found.ok ? h("p", { class: "good" }, icon("check"), "This can be deployed.") : null,
      (found.warnings ?? []).map((w) => h("p", { class: "warning" }, sentence(w))),
    );
    preview.classList.toggle("old", !found.ok);
    tryButton.disabled = ofText !== null;
    if (found.ok) {
      columnsGiven = found.columns;
      drawPreview(found);
    } else if (!preview.childNodes.length) fill(preview, h("p", { class: "soft" }, "When the text is correct, its columns and its cost are shown here."));
    drawChanges();
  }

  /** Inputs by the field the server calls them. */
  function fields() {
    return [
      ...(old ? [] : [["name", nameInput]]),
      ...(ownerInput ? [["properties.owner", ownerInput]] : []),
      ...[...parameterInputs].map(([name, input]) => [`params.${name}`, input]),
      ...Object.entries(inputs).map(([name, input]) => [`properties.${name}`, input]),
    ];
  }

  /** What saving would change, of a rule that is there already. */
  function drawChanges() {
    if (!old) return;
    const edited = body();
    const properties = changedEntries(before, { ...before, ...edited.properties });
    const params = changedEntries(old.params, { ...old.params, ...edited.params });
    const isText = old.text !== edited.text;
    const isAny = isText || Object.keys({ ...properties, ...params }).length > 0;
    fill(changes, isAny ? [isText ? differenceBlock(old.text, edited.text) : null, pairsChanged({ ...params, ...properties })] : h("p", { class: "soft" }, "Nothing so far."));
  }

  async function tryIt() {
    tryButton.disabled = true;
    fill(trial, loading("Trying it on recent rows"));
    try {
      const { text, properties, params } = body();
      const stated = Object.fromEntries(Object.entries(properties).filter(([name, value]) => value !== null && !(old && name === "owner")));
      tried = editor.text;
      fill(trial, trialParts(await post("/queries/try", { text, properties: stated, ...(params ? { params } : {}) }, { signal: stop.signal })));
      trial.classList.remove("old");
    } catch (error) {
      if (isAbort(error)) return;
      fill(trial, errorNotice(error, error.span ? undefined : tryIt));
    }
    tryButton.disabled = false;
  }

  function drawPreview(found) {
    const { explain = {} } = found;
    const conditions = explain.conditions ?? [];
    const nOthers = (explain.n_sharing ?? 0) - (old && old.text === editor.text ? 1 : 0); // a rule that is changed is one of them itself
    fill(
      preview,
      h("div", null, h("h3", null, "Columns"), h("div", { class: "chips" }, found.columns.map((c) => h("span", { class: "chip plain" }, c.name, h("span", { class: "faint" }, c.type.toLowerCase()))))),
      h("div", null, h("h3", null, "Evaluated by"), conditions.length ? h("ul", { class: "served" }, conditions.map((c) => h("li", null, h("span", { class: `served-by ${c.served_by}` }, c.served_by), h("code", null, c.text)))) : h("p", { class: "soft" }, "No condition: every row matches.")),
      nOthers > 0 ? h("p", { class: "soft small" }, `Shares its shape with ${plural(nOthers, "other rule")}.`) : null,
      explain.cost ? h("p", { class: "soft small" }, COSTS[explain.cost]) : null,
    );
  }

  async function submit(event) {
    event.preventDefault();
    if (save.disabled) return;
    save.disabled = true;
    fill(notice);
    try {
      await check();
      const wrong = form.querySelector("[aria-invalid=true]");
      if (wrong) wrong.focus();
      else await (old ? change() : add());
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      fill(notice, errorNotice(error));
      if (error.span) editor.mark(error.span);
      notice.scrollIntoView({ block: "nearest" });
    } finally {
      save.disabled = false;
    }
  }

  async function add() {
    const created = await post("/queries", { ...body(), ...(nameInput.value.trim() ? { name: nameInput.value.trim() } : {}) });
    live.hurry();
    toast(created.is_new === false && !created.is_changed ? `${created.name} already exists, as written here` : `${created.name} is deployed from the next round on`);
    location.hash = `#/rules/q${created.id}`;
  }

  async function change() {
    const edited = body();
    await put(`/queries/q${old.id}`, edited);
    const undone = { text: old.text, ...(old.params ? { params: old.params } : {}), properties: {} };
    for (const { name } of PROPERTIES) if (before[name] || edited.properties[name]) undone.properties[name] = before[name] ?? null;
    toast(`${old.name} was changed`, { undo: async () => { await put(`/queries/q${old.id}`, undone); toast(`${old.name} is as before`); live.hurry(); } });
    location.hash = `#/rules/q${old.id}`;
  }

  drawColumns();
  drawParameters();
  check();
  live.addEventListener("change", drawColumns, { signal: stop.signal });
  return { focus: old ? null : nameInput, isGood: () => isGood };
}

const mistake = (error, place) => h("div", { class: "error-notice", data: { kind: error.kind } }, h("p", { class: "error-title" }, sentence(error.problem), place ? h("span", { class: "soft small" }, ` ${place}`) : null), error.detail ? h("p", null, error.detail) : null, error.hint ? h("p", { class: "hint" }, error.hint) : null);

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
    const created = await post("/queries", { text: rule.text, name: rule.name, properties, ...(rule.params && Object.keys(rule.params).length ? { params: rule.params } : {}) });
    live.hurry();
    toast(`${created.name} is deployed again, as a new rule`);
    location.hash = `#/rules/q${created.id}`;
  });
}

