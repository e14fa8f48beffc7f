// One result at the side of its rule: its row, why it matched, its receipt, and the proof of it.

import { ApiError, get, part, post } from "./api.js";
import { fill, h, icon } from "./dom.js";
import { ago, pairs, plural, took, value } from "./format.js";
import { live } from "./live.js";
import { copyButton, dialog, errorNotice, facts, loading, sentence } from "./parts.js";
import { block, line } from "./sql.js";

/** The verdict of each condition, with the values it looked at. */
export function verdicts(clauses) {
  if (!clauses.length) return h("p", { class: "soft" }, "It has no condition: every row matches.");
  const words = { true: "holds", false: "does not hold", null: "NULL: does not hold", error: "could not be decided" };
  return h(
    "ul",
    { class: "verdicts" },
    clauses.map((clause) =>
      h(
        "li",
        { class: `verdict ${clause.verdict}` },
        h("span", { class: "verdict-sign", role: "img", "aria-label": words[clause.verdict], title: words[clause.verdict] }, icon(clause.verdict === "true" ? "check" : "close")),
        h("div", null, line(clause.condition), h("p", { class: "small soft verdict-values" }, Object.entries(clause.values ?? {}).map(([name, v]) => h("span", null, `${name} = `, h("b", null, value(v)))), clause.message ? h("span", { class: "wrong-words" }, clause.message) : null)),
      ),
    ),
  );
}

/** Which part of UNION ALL it is about. */
export const partWords = (found) => (found.part ? h("h3", null, sentence(found.part)) : null);

const partVerdicts = (found) => [partWords(found), notes(found), verdicts(found.clauses)];

/** Open a result. */
export function openResult(result, rule) {
  const stop = new AbortController();
  const why = h("div", null, loading("Asking each condition"));
  const receipt = h("div", { class: "stack-small" }, loading("Looking for the receipt"));
  const proof = h("div", { "aria-live": "polite" });
  const at = result.at ?? live.timeOf(result.round) ?? result.receivedAt ?? null;
  const prove = h("button", { class: "button", type: "button", on: { click: run } }, icon("shield"), "Prove it");
  const path = `/results/${part(result.cursor)}`;

  dialog(
    `Result ${result.cursor}`,
    h(
      "div",
      { class: "stack" },
      h("p", { class: "soft small" }, rule.name, ` · round ${result.round}`, at ? [" · ", ago(at)] : null, result.is_late ? " · late" : ""),
      pairs(result.row),
      h("section", { class: "stack" }, h("h3", null, "Why it matched"), why),
      h("section", { class: "stack" }, h("h3", null, "Receipt"), receipt),
      h("section", { class: "stack" }, h("div", { class: "buttons" }, live.may("author") ? prove : null, h("span", { class: "soft small" }, "runs the rule's own text again over its rows, in plain Spark SQL")), proof),
    ),
    { isSide: true, label: `Result ${result.cursor}`, onClose: () => stop.abort() },
  );
  load(why, () => get(`${path}/why`, null, stop), (found) => [partWords(found), found.error ? h("p", { class: "warning" }, found.error) : null, notes(found), verdicts(found.clauses)]);
  load(receipt, () => get(`${path}/receipt`, null, stop), receiptParts);

  async function load(place, request, draw) {
    try {
      fill(place, draw(await request()));
    } catch (error) {
      if (stop.signal.aborted) return;
      if (!(error instanceof ApiError)) throw error;
      fill(place, errorNotice(error));
    }
  }

  async function run() {
    prove.disabled = true;
    fill(proof, loading("Running it again in Spark; the first time takes a while"));
    await load(proof, () => post(`${path}/prove`, {}, stop), proofParts);
    prove.disabled = false;
  }
}

function receiptParts(receipt) {
  const { round = {}, rows = [], functions = [], recorded = [], written_out: writtenOut } = receipt;
  const params = { ...receipt.params, ...writtenOut?.params };
  return [
    facts([
      ["round", `${round.number ?? ""}${round.now ? `, its now() ${round.now}` : ""}`],
      ["part", receipt.part ?? null],
      ["version", receipt.version],
      ["generation", receipt.generation],
      ["time zone", round.time_zone],
      ["functions", functions.map((f) => (Array.isArray(f) ? f.join(" ") : `${f.name} ${f.version}`)).join(", ")],
      ["recorded", recorded.length ? pairs(Object.fromEntries(recorded.map((each) => [`${each.function}, call ${each.call}`, each.value]))) : null],
      ["parameters", Object.keys(params).length ? pairs(Object.fromEntries(Object.entries(params).map(([name, p]) => [name, p?.value ?? null]))) : null],
      ["checksum", receipt.checksum ? h("code", { class: "wrap" }, receipt.checksum) : null],
    ]),
    rows.map((row) => h("div", { class: "stack-small" }, h("p", { class: "small soft" }, `Row ${row.arrival ?? ""} of ${row.stream ?? "the stream"}`), pairs(row.row))),
    writtenOut ? h("details", { class: "small" }, h("summary", null, "the rule with its views written out"), block(writtenOut.text)) : null,
    h("div", { class: "buttons" }, copyButton(JSON.stringify(receipt, null, 2), "Copy receipt")),
  ];
}

function proofParts(proof) {
  const detail = proof.is_proven
    ? h("p", null, `${proof.engine} gave the same row${proof.seconds ? `, in ${took(proof.seconds)}` : ""}.`)
    : [h("p", null, `${proof.engine ?? "The other engine"} gave something else.`), shown("expected", proof.expected), shown("found", proof.found)];
  return h("div", { class: `proof ${proof.is_proven ? "yes" : "no"}` }, h("p", { class: "error-title" }, icon(proof.is_proven ? "shield" : "close"), proof.is_proven ? "Proven" : "Not proven"), detail, proof.note ? h("p", { class: "soft small" }, sentence(proof.note)) : null, proof.text ? h("details", { class: "small" }, h("summary", null, "what was run"), block(proof.text)) : null);
}

const notes = (found) => (found.notes ?? []).map((note) => h("p", { class: "warning" }, sentence(note)));

const shown = (name, what) => (what === undefined || what === null ? null : h("p", { class: "small" }, h("span", { class: "soft" }, `${name} `), h("code", { class: "wrap" }, JSON.stringify(what))));

/** Evaluate a rule on a row that the user writes. */
export function openTry(path, row) {
  const input = h("textarea", { class: "input mono", rows: "8", spellcheck: "false", "aria-label": "A row, as JSON", value: JSON.stringify(row ?? {}, null, 2) });
  const answer = h("div", { "aria-live": "polite" });
  const tryRow = async () => {
    let parsed;
    try {
      parsed = JSON.parse(input.value);
    } catch (error) {
      return fill(answer, errorNotice(new ApiError(0, { problem: "this is not JSON", detail: error.message, hint: 'Write a row such as {"price": 9.5}; columns left out are NULL.' })));
    }
    try {
      const found = await post(`${path}/why`, { row: parsed });
      return fill(answer, h("p", { class: found.matches ? "good" : "warning" }, found.error || (found.matches ? "It would match." : `It would not match: ${plural(found.clauses.filter((c) => c.verdict !== "true").length, "condition")} against it.`)), partVerdicts(found), found.others.map((other) => h("section", { class: "stack-small" }, partVerdicts(other))));
    } catch (error) {
      return fill(answer, errorNotice(error));
    }
  };
  dialog("Try a row", h("div", { class: "stack" }, h("p", { class: "soft small" }, "The rule is evaluated on this row; no row is sent to the stream."), input, h("div", { class: "buttons" }, h("button", { class: "button main", type: "button", on: { click: tryRow } }, "Evaluate")), answer));
}
