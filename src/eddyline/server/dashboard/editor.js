// A field for SQL: highlighted as one types, with the place of a mistake underlined. A textarea lies over the coloured text, so
// that everything a text field can do (undo, selection, screen readers) works as ever.

import { fill, h } from "./dom.js";
import { highlighted } from "./sql.js";

export class Editor {
  constructor({ text = "", label, onInput }) {
    this.wrong = null;
    this.colours = h("pre", { class: "editor-colours", "aria-hidden": "true" });
    this.input = h("textarea", {
      class: "editor-input", "aria-label": label, spellcheck: "false", autocapitalize: "off", autocomplete: "off", wrap: "soft", rows: "1", value: text,
    });
    this.element = h("div", { class: "editor" }, this.colours, this.input);
    this.input.addEventListener("input", () => {
      this.mark(null);
      onInput(this.input.value);
    });
    this.draw();
  }

  get text() {
    return this.input.value;
  }

  /** Underline [start, end), or nothing. */
  mark(span) {
    this.wrong = span;
    this.input.setAttribute("aria-invalid", String(span !== null));
    this.draw();
  }

  /** Put a word where the cursor is, with spaces around it as needed. */
  insert(word) {
    const { selectionStart: from, selectionEnd: to, value } = this.input;
    const before = from > 0 && !/[\s(,.]$/.test(value.slice(0, from)) ? " " : "";
    const after = to < value.length && !/^[\s),;.]/.test(value.slice(to)) ? " " : "";
    this.input.setRangeText(before + word + after, from, to, "end");
    this.input.focus();
    this.input.dispatchEvent(new Event("input"));
  }

  /** Where the cursor is, in pixels from the corner of the editor: below its line. */
  cursorPlace() {
    const range = document.createRange();
    const walker = document.createTreeWalker(this.colours, NodeFilter.SHOW_TEXT);
    let remaining = this.input.selectionStart;
    let node = walker.nextNode();
    while (node !== null && remaining > node.length) {
      remaining -= node.length;
      node = walker.nextNode();
    }
    if (node === null) return { left: 0, top: this.element.offsetHeight };
    range.setStart(node, remaining);
    const [at, corner] = [range.getBoundingClientRect(), this.element.getBoundingClientRect()];
    return { left: at.left - corner.left, top: at.bottom - corner.top + 4 };
  }

  draw() {
    fill(this.colours, highlighted(this.text, this.wrong), "\n​"); // the last line has its height also when it is empty
  }
}
