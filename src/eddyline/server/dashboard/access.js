// Access: tokens, and who changed what.

import { ApiError, drop, get, part, post } from "./api.js";
import { fill, h, icon } from "./dom.js";
import { ago } from "./format.js";
import { every, live } from "./live.js";
import { attempt, card, confirm, copyButton, dialog, empty, errorNotice, field, heading, refresher, table, toast } from "./parts.js";

const EVERY_MS = 5_000;

export function show(main, { title }) {
  title("Access");
  if (!live.may("admin")) {
    fill(main, heading("Access"), empty("Only admins see this", "This token has role " + live.me.role + "."));
    return {};
  }
  const stop = new AbortController();
  const tokens = h("div");
  const audit = h("div");
  const add = h("button", { class: "button main", type: "button", on: { click: () => openAdd(refresh) } }, icon("plus"), "New token");
  fill(main, heading("Access", add), card("Tokens", {}, tokens), card("Changes", {}, audit));

  const tokenColumns = [
    { name: "Id", of: (t) => [h("code", null, t.id), t.id === live.me.id ? h("span", { class: "chip plain late" }, "this one") : null] },
    { name: "Role", of: (t) => t.role },
    { name: "Owner", of: (t) => t.owner || h("span", { class: "faint" }, t.role === "admin" ? "all" : "none") },
    { name: "Note", of: (t) => t.note || "–" },
    { name: "Created", of: (t) => ago(t.created) },
    { name: "Last used", of: (t) => ago(t.used) },
    { name: "Expires", of: (t) => ago(t.expires, "never") },
    { name: "Drop", isSilent: true, class: "action", of: (t) => h("button", { class: "button little danger", type: "button", "aria-label": `Drop token ${t.id}`, on: { click: () => dropToken(t, refresh) } }, "Drop") },
  ];
  const auditColumns = [
    { name: "When", of: (e) => ago(e.at) },
    { name: "Who", of: (e) => h("code", null, e.who) },
    { name: "What", of: (e) => e.what },
    { name: "Owner", of: (e) => e.owner || "–" },
    { name: "Detail", class: "wide", of: (e) => h("span", { class: "nested" }, detail(e.detail)) },
  ];

  const drawn = { tokens: "", audit: "" }; // a table that has not changed is not drawn again
  const isNew = (name, found) => { const now = JSON.stringify(found); const is = drawn[name] !== now; drawn[name] = now; return is; };
  const { signal } = stop;
  const refreshTokens = refresher(tokens, () => get("/tokens", null, stop), (all) => isNew("tokens", all) && fill(tokens, table(tokenColumns, all, { label: "Tokens" })), { signal, what: "Loading tokens" });
  const refreshAudit = refresher(audit, () => get("/audit", { newest: 100 }, stop), (changes) => isNew("audit", changes) && fill(audit, changes.length ? table(auditColumns, changes, { label: "Changes, newest first" }) : empty("No change yet", "Every change of rules, streams and tokens is listed here.")), { signal, what: "Loading changes" });
  const refresh = () => Promise.all([refreshTokens(), refreshAudit()]);

  every(EVERY_MS, refresh, stop.signal);
  return { close: () => stop.abort() };
}

const detail = (what) => (typeof what === "string" ? what : Object.entries(what ?? {}).map(([name, v]) => `${name} ${typeof v === "object" ? JSON.stringify(v) : v}`).join(", "));

async function dropToken(token, again) {
  const isOwn = token.id === live.me.id;
  const isSure = await confirm(`Drop token ${token.id}?`, isOwn ? "It is the one this page uses: you are signed out at once." : "Requests with it are refused from now on.", "Drop token");
  if (isSure && (await attempt(() => drop(`/tokens/${part(token.id)}`)))) {
    toast("The token was dropped");
    again();
  }
}

function openAdd(again) {
  const role = h("select", { class: "input" }, [["author", "author: sees and changes the owner's rules"], ["reader", "reader: sees the owner's rules"], ["admin", "admin: sees and changes everything"]].map(([value, words]) => h("option", { value }, words)));
  const owner = h("input", { class: "input", placeholder: "anna", autocomplete: "off" });
  const note = h("input", { class: "input", placeholder: "laptop of Anna", autocomplete: "off" });
  const expires = h("input", { class: "input", placeholder: "30 days", autocomplete: "off" });
  const notice = h("div");
  const form = h("form", { class: "stack" }, field("Role", role), h("div", { class: "grid-fields" }, field("For owner", owner, "Whose rules it is for."), field("Expires after", expires, "Never, if empty.")), field("Note", note), notice, h("div", { class: "buttons end" }, h("button", { class: "button main", type: "submit" }, "Create token")));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      const created = await post("/tokens", { role: role.value, owner: owner.value.trim(), note: note.value.trim(), ...(expires.value.trim() ? { expires: expires.value.trim() } : {}) });
      fill(form, h("p", null, "This is the token. It is shown once and not stored: copy it now."), h("pre", { class: "sql" }, h("code", { class: "token" }, created.token)), h("div", { class: "buttons" }, copyButton(created.token, "Copy token")));
      again();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      fill(notice, errorNotice(error));
    }
  });
  dialog("New token", form);
  role.focus();
}
