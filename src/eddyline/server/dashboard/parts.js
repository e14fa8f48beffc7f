// Parts that several views use.

import { ApiError, isAbort } from "./api.js";
import { fill, h, hidden, icon } from "./dom.js";

export const STATUSES = {
  firing: "An alert is open",
  failing: "Rows could not be decided: see its dead letters",
  costly: "Takes a large share of the measured work, or matches everything",
  matching: "Had results within the hour",
  silent: "No result within the hour",
  paused: "Sees no rows until it is resumed",
  suspended: "The engine paused it: its source lost a column, or its function only failed",
};

export const COSTS = {
  index: "decided by the index, for all rules at once: the cheapest",
  residual: "an expression is computed on rows the index has not ruled out",
  function: "a function of yours is called on rows the index has not ruled out",
  "matches everything": "no condition at all: every row is a result",
};

export function statusMark(name) {
  const element = h("span");
  setStatus(element, name);
  return element;
}

/** Show a status; `words` where they are not its name. */
export function setStatus(element, name, words = name) {
  if (element.textContent === words) return;
  element.className = `status ${name}`;
  element.title = STATUSES[words] ?? "";
  fill(element, h("i", { class: "dot" }), words);
}

/** The title of a view; it takes the focus, so that a screen reader says where one is. */
export function heading(text, ...beside) {
  return h("header", { class: "heading" }, h("h1", { tabindex: "-1" }, text), h("div", { class: "buttons" }, beside));
}

export function card(title, { id, tools, label } = {}, ...children) {
  const head = title === null ? null : h("div", { class: "card-head" }, h("h2", id ? { id } : null, title), tools ? h("div", { class: "buttons" }, tools) : null);
  return h("section", { class: "card", "aria-label": label ?? title }, head, children);
}

export const loading = (what = "Loading") => h("p", { class: "loading", role: "status" }, h("i", { class: "spinner", "aria-hidden": "true" }), `${what}…`);

/**
 * Ask for something, once or again and again: until the first answer `notice` says that it is loading, a refusal says what is
 * wrong, with a way to try again. Gives the function that asks; `draw(answer)` may put something else into `notice`.
 */
export function refresher(notice, load, draw, { signal, what } = {}) {
  let isFirst = true;
  const begin = () => { fill(notice, loading(what)); notice.dataset.state = "waiting"; };
  const refresh = async () => {
    try {
      const found = await load();
      if (signal.aborted) return;
      if (notice.dataset.state !== "answered") fill(notice);
      notice.dataset.state = "answered";
      isFirst = false;
      draw(found);
    } catch (error) {
      if (signal.aborted || isAbort(error)) return;
      if (!(error instanceof ApiError)) throw error;
      if (!isFirst && error.isOffline) return; // the frame says so, and what was known stays
      notice.dataset.state = "refused";
      fill(notice, errorNotice(error, () => { begin(); refresh(); }));
    }
  };
  begin();
  return refresh;
}

/** Nothing there yet, and what to do about it. */
export function empty(title, words, ...more) {
  return h("div", { class: "empty" }, h("p", { class: "empty-title" }, title), words ? h("p", { class: "soft" }, words) : null, more);
}

/** What went wrong, in the engine's words. */
export function errorNotice(error, again) {
  if (!(error instanceof ApiError)) throw error;
  return h(
    "div",
    { class: "error-notice", role: "alert" },
    h("p", { class: "error-title" }, sentence(error.problem)),
    error.detail ? h("p", null, error.detail) : null,
    error.hint ? h("p", { class: "hint" }, error.hint) : null,
    again ? h("button", { class: "button little", type: "button", on: { click: again } }, icon("refresh"), "Try again") : null,
  );
}

export const sentence = (text) => (text ? text[0].toUpperCase() + text.slice(1) : "");

/** A word at the foot of the page, for a while; with `undo`, something to press. */
export function toast(text, { undo, kind = "done", label = "Undo" } = {}) {
  const area = document.getElementById("toasts");
  const close = () => element.remove();
  const again = undo
    ? h("button", { class: "button little", type: "button", on: { click: async () => { close(); await attempt(undo); } } }, label)
    : null;
  const element = h(
    "div",
    { class: `toast ${kind}` },
    h("span", null, text),
    again,
    h("button", { class: "button bare square little", type: "button", "aria-label": "Close", on: { click: close } }, icon("close")),
  );
  area.append(element);
  while (area.children.length > 3) area.firstElementChild.remove();
  let timer = 0;
  const wait = () => { timer = setTimeout(close, undo ? 12_000 : 5_000); };
  const hold = () => clearTimeout(timer);
  for (const [event, act] of [["pointerenter", hold], ["pointerleave", wait], ["focusin", hold], ["focusout", wait]]) element.addEventListener(event, act);
  wait();
}

/** Do something the server may refuse; a refusal becomes a toast, and false. */
export async function attempt(act) {
  try {
    await act();
    return true;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    toast([error.problem, error.hint].filter(Boolean).map(sentence).join(". "), { kind: "wrong" });
    return false;
  }
}

/** A window over the page, or with `isSide` at its side. Esc and the page behind close it. Returns a function that does. */
export function dialog(title, content, { isSide = false, onClose, label } = {}) {
  const before = document.activeElement;
  const close = () => element.close();
  const element = h(
    "dialog",
    { class: isSide ? "drawer" : "window", "aria-label": label ?? title },
    h(
      "div",
      { class: "dialog-body" },
      h("div", { class: "dialog-head" }, h("h2", { tabindex: "-1", autofocus: true }, title), h("button", { class: "button bare square", type: "button", "aria-label": "Close", title: "Close (Esc)", on: { click: close } }, icon("close"))),
      content,
    ),
  );
  element.addEventListener("click", (event) => event.target === element && close());
  element.addEventListener("close", () => {
    element.remove();
    if (before?.isConnected) before.focus({ preventScroll: true });
    onClose?.();
  });
  document.body.append(element);
  element.showModal();
  return close;
}

/** Ask before something that is hard to take back. */
export function confirm(title, words, action, { isDanger = true } = {}) {
  return new Promise((resolve) => {
    let answer = false;
    const yes = h("button", { class: `button main ${isDanger ? "danger" : ""}`, type: "button", on: { click: () => { answer = true; close(); } } }, action);
    const no = h("button", { class: "button", type: "button", on: { click: () => close() } }, "Cancel");
    const close = dialog(title, [h("p", { class: "soft" }, words), h("div", { class: "buttons end" }, no, yes)], { onClose: () => resolve(answer) });
    yes.focus();
  });
}

/** A field of a form: label, input, help. */
export function field(label, input, help) {
  const id = `field-${label.toLowerCase().replace(/\W+/g, "-")}`;
  input.id = id;
  const helped = help ? h("p", { class: "help", id: `${id}-help` }, help) : null;
  if (helped) input.setAttribute("aria-describedby", helped.id);
  return h("div", { class: "field" }, h("label", { for: id }, label), input, helped);
}

/** Mark a field of a form with its mistake, or with none. Returns whether it has one. */
export function markField(input, error) {
  const place = input.closest(".field");
  const id = `${input.id}-mistake`;
  place.querySelector(".mistake")?.remove();
  input.setAttribute("aria-invalid", String(error !== null));
  const described = (input.getAttribute("aria-describedby") ?? "").split(" ").filter((each) => each && each !== id);
  if (error !== null) {
    described.push(id);
    place.append(h("p", { class: "mistake", id }, sentence(error.problem), error.hint ? h("span", { class: "hint" }, ` ${error.hint}`) : null));
  }
  if (described.length) input.setAttribute("aria-describedby", described.join(" "));
  else input.removeAttribute("aria-describedby");
  return error !== null;
}

/** A share as a bar; the words beside it say the same. */
export function bar(share, className = "") {
  const part = h("i");
  part.style.width = `${Math.max(0, Math.min(1, share ?? 0)) * 100}%`;
  return h("span", { class: `bar ${className}`, "aria-hidden": "true" }, part);
}

/** A button that copies a text and confirms it. */
export function copyButton(text, label = "Copy") {
  const words = h("span", null, label);
  const press = async () => {
    try {
      await navigator.clipboard.writeText(text);
      words.textContent = "Copied";
    } catch {
      words.textContent = "Select and copy by hand"; // no clipboard without https or permission
    }
    setTimeout(() => { words.textContent = label; }, 1_500);
  };
  return h("button", { class: "button little", type: "button", on: { click: press } }, icon("copy"), words);
}

/** Name and value, line by line. */
export function facts(entries) {
  return h("dl", { class: "facts" }, entries.filter((e) => e && e[1] !== null && e[1] !== undefined && e[1] !== "").map(([name, what]) => h("div", null, h("dt", null, name), h("dd", null, what))));
}

/** A table that becomes a list of cards on a phone. `columns`: [{name, of(row), class}]. */
export function table(columns, rows, { label, key } = {}) {
  return h("div", { class: "scroll" }, h(
    "table",
    { class: "table", role: "table", "aria-label": label },
    h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, columns.map((c) => h("th", { role: "columnheader", scope: "col", class: c.class }, c.isSilent ? hidden(c.name) : c.name)))),
    h("tbody", { role: "rowgroup" }, rows.map((row) => tableRow(columns, row, key))),
  ));
}

export function tableRow(columns, row, key) {
  const cells = columns.map((c) => h("td", { role: "cell", class: c.class, data: { label: c.isSilent ? "" : c.name } }, c.of(row)));
  return h("tr", { role: "row", data: key ? { key: key(row) } : {} }, cells);
}
