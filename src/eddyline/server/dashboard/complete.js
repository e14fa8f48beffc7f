// Names offered while one types: a list below the cursor. Arrows choose, Enter takes the chosen one, Tab the first; Esc closes it.

import { fill, h } from "./dom.js";

const SHOWN = 8;
let nLists = 0; // lists so far, for their ids

/**
 * Offer words for `input`, a field or text area. `offers(text, cursor, isAsked)` gives {from, options: [{word, note, insert}]} of
 * what is being written, or null; `place()` says where below its element the list belongs, as {left, top} in pixels.
 */
export class Completion {
  constructor(input, { offers, place, label }) {
    Object.assign(this, { input, offers, place, found: null, active: -1 });
    nLists += 1;
    this.id = `offers-${nLists}`;
    this.list = h("ul", { class: "offers-list", role: "listbox", id: this.id, "aria-label": label });
    this.announcement = h("span", { class: "sr", role: "status" });
    this.element = h("div", { class: "offers", hidden: true }, this.list, h("p", { class: "offers-keys", "aria-hidden": "true" }, h("kbd", null, "Tab"), " takes the first, ", h("kbd", null, "↓"), " chooses"));
    this.frame = h("div", { class: "offers-frame" });
    input.replaceWith(this.frame);
    this.frame.append(input, this.element, this.announcement);
    input.setAttribute("aria-autocomplete", "list");
    input.setAttribute("aria-controls", this.id);
    input.addEventListener("input", (event) => event.isTrusted && this.look(false));
    input.addEventListener("keydown", (event) => this.press(event));
    input.addEventListener("blur", () => this.close());
    input.addEventListener("click", () => this.close());
  }

  get isOpen() {
    return !this.element.hidden;
  }

  look(isAsked) {
    const { value, selectionStart, selectionEnd } = this.input;
    const isHere = document.activeElement === this.input && selectionStart === selectionEnd;
    this.found = isHere ? this.offers(value, selectionStart, isAsked) : null;
    if (!this.found?.options.length) return this.close();
    this.found.options.splice(SHOWN);
    this.active = -1;
    fill(this.list, this.found.options.map((option, k) => h("li", { role: "option", id: `${this.id}-${k}`, "aria-selected": "false", on: { pointerdown: (event) => { event.preventDefault(); this.take(k); } } }, h("span", { class: "offer-word" }, option.word), option.note ? h("span", { class: "offer-note" }, option.note) : null)));
    const at = this.place?.() ?? { left: 0, top: this.input.offsetHeight + 4 };
    this.element.hidden = false;
    const room = this.frame.clientWidth - this.element.offsetWidth;
    this.element.style.left = `${Math.max(0, Math.min(at.left, room))}px`;
    this.element.style.top = `${at.top}px`;
    this.announcement.textContent = `${this.found.options.length} offered, ${this.found.options[0].word} first`;
    return undefined;
  }

  close() {
    this.element.hidden = true;
    this.announcement.textContent = "";
    this.input.removeAttribute("aria-activedescendant");
  }

  press(event) {
    if (event.key === " " && event.ctrlKey) {
      event.preventDefault();
      return this.look(true);
    }
    if (!this.isOpen || event.ctrlKey || event.metaKey || event.altKey) return undefined;
    const n = this.found.options.length;
    const act = {
      ArrowDown: () => this.choose((this.active + 1) % n),
      ArrowUp: () => this.choose(this.active <= 0 ? n - 1 : this.active - 1),
      Tab: event.shiftKey ? null : () => this.take(Math.max(0, this.active)),
      Enter: this.active < 0 ? null : () => this.take(this.active),
      Escape: () => this.close(),
    }[event.key];
    if (!act) {
      if (event.key === "Enter") this.close();
      return undefined;
    }
    event.preventDefault();
    return act();
  }

  choose(k) {
    this.active = Math.min(k, this.found.options.length - 1);
    for (const [at, option] of [...this.list.children].entries()) option.setAttribute("aria-selected", String(at === this.active));
    this.input.setAttribute("aria-activedescendant", `${this.id}-${this.active}`);
    this.list.children[this.active].scrollIntoView({ block: "nearest" });
  }

  take(k) {
    const { from, options } = this.found;
    this.input.setRangeText(options[k].insert ?? options[k].word, from, this.input.selectionStart, "end");
    this.close();
    this.input.dispatchEvent(new Event("input", { bubbles: true }));
  }
}

/** Of these options, those that begin with what is written, then those that contain it; none if it is one of them already. */
export function fitting(options, written) {
  const prefix = written.toLowerCase();
  const starts = options.filter((option) => option.word.toLowerCase().startsWith(prefix));
  if (prefix && starts.some((option) => option.word.toLowerCase() === prefix)) return [];
  const inside = prefix.length < 2 ? [] : options.filter((option) => !starts.includes(option) && option.word.toLowerCase().includes(prefix));
  return [...starts, ...inside];
}

/** Names in a list with commas, such as `sym, sector`. */
export function listOffers(options) {
  return (text, cursor, isAsked) => {
    const written = text.slice(0, cursor).match(/[^,\s]*$/)[0];
    return written || isAsked ? { from: cursor - written.length, options: fitting(options(), written) } : null;
  };
}

/** Columns between braces, as in `{sym} fell to {price}`. */
export function messageOffers(columns) {
  return (text, cursor) => {
    const open = text.slice(0, cursor).match(/\{(\w*)$/);
    if (!open) return null;
    const close = text[cursor] === "}" ? "" : "}";
    return { from: cursor - open[1].length, options: fitting(columns(), open[1]).map((option) => ({ ...option, insert: option.word + close })) };
  };
}
