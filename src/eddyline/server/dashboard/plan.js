// The plan of a change: rule files are chosen or pasted, what they would change is shown, and only then applied.

import { post } from "./api.js";
import { differenceBlock, pairsChanged } from "./difference.js";
import { fill, h, icon } from "./dom.js";
import { plural, whole } from "./format.js";
import { live } from "./live.js";
import { card, confirm, empty, errorNotice, field, heading, loading, sentence, toast } from "./parts.js";
import { block } from "./sql.js";
import { trialWords } from "./trial.js";

const PASTED = "pasted.sql";
const EXAMPLE = "CREATE OR REPLACE VIEW cheap TBLPROPERTIES (severity = 'warning') AS\n  SELECT sym, price FROM trades WHERE price < 10;";

export function show(main, { title }) {
  title("Plan a change");
  const stop = new AbortController();
  const back = h("a", { class: "back", href: "#/versions" }, icon("back"), "Versions");
  if (!live.may("admin")) {
    fill(main, back, heading("Plan a change"), empty("Only admins see this", `This token has role ${live.me.role}.`));
    return {};
  }
  const chosen = new Map(); // text by name of file
  const names = h("ul", { class: "chips", "aria-label": "Files" });
  const files = h("input", { type: "file", multiple: true, accept: ".sql,.csv,.json,.parquet", class: "input", on: { change: take } });
  const pasted = h("textarea", { class: "input mono", rows: "7", spellcheck: "false", placeholder: EXAMPLE, on: { input: () => { apply.hidden = true; } } });
  const prune = h("input", { type: "checkbox", id: "prune", on: { change: () => { apply.hidden = true; } } });
  const notice = h("div", { "aria-live": "polite" });
  const planButton = h("button", { class: "button main", type: "submit" }, "Show the plan");
  const apply = h("button", { class: "button main", type: "button", hidden: true, on: { click: run } }, icon("check"), "Apply");
  const form = h("form", { class: "card stack" }, field("Rule files", files, "The .sql files of a rules folder, and the tables they name."), names, field("Or SQL", pasted, "Statements separated by semicolons, as in a rule file."), h("label", { class: "check", for: "prune" }, prune, " Also drop rules that are in no file"), h("div", { class: "buttons end" }, planButton));
  const result = h("div", { class: "stack" });
  form.addEventListener("submit", (event) => { event.preventDefault(); plan(); });
  fill(main, back, heading("Plan a change"), form, notice, result, h("div", { class: "buttons end" }, apply));

  async function take() {
    for (const file of files.files) chosen.set(file.webkitRelativePath || file.name, await file.text());
    files.value = "";
    drawNames();
  }

  function drawNames() {
    apply.hidden = true;
    fill(names, [...chosen.keys()].map((name) => h("li", null, h("button", { class: "chip", type: "button", "aria-label": `Leave out ${name}`, on: { click: () => { chosen.delete(name); drawNames(); } } }, name, icon("close")))));
  }

  const body = () => ({ files: { ...Object.fromEntries(chosen), ...(pasted.value.trim() ? { [PASTED]: pasted.value } : {}) }, prune: prune.checked });

  async function plan() {
    apply.hidden = true;
    fill(result);
    if (Object.keys(body().files).length === 0) return fill(notice, empty("No rule yet", "Choose rule files, or write a statement."));
    fill(notice, loading("Comparing with what is deployed"));
    try {
      const found = await post("/rules/plan", body(), { signal: stop.signal });
      fill(notice);
      fill(result, planParts(found.plan));
      apply.hidden = found.plan.mistakes.length > 0 || !isChange(found.plan);
    } catch (error) {
      if (stop.signal.aborted) return undefined;
      fill(notice, errorNotice(error));
    }
    return undefined;
  }

  async function run() {
    if (prune.checked && !(await confirm("Apply, and drop rules that are in no file?", "Dropped rules are not evaluated on any later round.", "Apply"))) return;
    apply.disabled = true;
    try {
      const { applied } = await post("/rules/apply", body(), { signal: stop.signal });
      toast(`Applied: ${countWords(applied)}; version ${applied.version}`);
      live.hurry();
      location.hash = "#/versions";
    } catch (error) {
      if (!stop.signal.aborted) fill(notice, errorNotice(error));
    }
    apply.disabled = false;
  }

  return { close: () => stop.abort(), keys: { Escape: () => { location.hash = "#/versions"; } } };
}

const isChange = (plan) => plan.added + plan.changed + plan.removed > 0 || plan.streams.some((s) => s.change !== "unchanged");

export const countWords = (counts) => ["added", "changed", "removed"].filter((kind) => counts[kind]).map((kind) => `${whole(counts[kind])} ${kind}`).join(", ") || "no change";

function planParts(plan) {
  const moving = plan.queries.filter((q) => q.change !== "unchanged");
  const tables = plan.tables.filter((t) => t.added + t.changed + t.removed > 0);
  const streams = plan.streams.filter((s) => s.change !== "unchanged");
  return [
    card("The plan", {},
      h("p", { class: "plan-words" }, h("b", null, countWords(plan)), h("span", { class: "soft" }, `, ${plural(plan.unchanged, "rule")} unchanged`, plan.unlisted.count && !plan.unlisted.is_removed ? `; ${plural(plan.unlisted.count, "rule")} in no file stay` : "")),
      plan.mistakes.map((each) => h("div", { class: "error-notice" }, h("p", { class: "error-title" }, sentence(each.problem), h("span", { class: "soft small" }, ` ${each.file ?? ""}${each.line ? `, line ${each.line}` : ""}`)), each.detail ? h("p", null, each.detail) : null, each.hint ? h("p", { class: "hint" }, each.hint) : null)),
      plan.refused.slice(0, 20).map((row) => h("p", { class: "warning" }, `${row.file}: row ${row.row}: ${row.reason}`)),
      h("ul", { class: "plan-changes" },
        streams.map((s) => change(s.change, `stream ${s.name}`, s.new_columns.length ? h("p", { class: "soft small" }, `new columns ${s.new_columns.join(", ")}`) : null)),
        moving.map((q) => change(q.change, q.name, ruleParts(q))),
        tables.map((t) => change("changed", t.name, [h("p", { class: "soft small" }, countWords(t)), words(trialWords(t.tried)), block(t.text)])),
        plan.unlisted.is_removed ? plan.unlisted.names.map((name) => change("removed", name, h("p", { class: "soft small" }, "in no file"))) : null)),
  ];
}

const words = (text) => (text ? h("p", { class: "small tried" }, text) : null);

function ruleParts(query) {
  return [
    query.before !== null && query.before !== query.text ? differenceBlock(query.before, query.text) : query.before === null ? block(query.text) : null,
    query.change === "changed" ? pairsChanged(query.properties) : null,
    words(trialWords(query.tried)),
    query.warnings.map((w) => h("p", { class: "warning" }, sentence(w))),
  ];
}

/** One entry of a plan, a version or a rollback. */
export function change(kind, name, ...more) {
  return h("li", { class: `plan-change ${kind}` }, h("p", null, h("span", { class: "plan-kind" }, kind), " ", h("b", null, name)), more);
}
