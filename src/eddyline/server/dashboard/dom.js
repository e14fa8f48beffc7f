// Elements from words. Text is always text: nothing here, or anywhere in the page, reads markup from data.

const SVG = "http://www.w3.org/2000/svg";

function put(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") {
      for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    } else if (name === "data") {
      Object.assign(element.dataset, value);
    } else if (name === "value") {
      element.value = value;
    } else if (name.startsWith("on") || name === "style" || name === "srcdoc") {
      throw new Error(`attribute ${name} is not set from here`);
    } else if (name === "href" && !/^(#|\/)/.test(value)) {
      throw new Error("links stay within this server");
    } else {
      element.setAttribute(name, value === true ? "" : value);
    }
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false || child === "") continue;
    element.append(child instanceof Node ? child : String(child));
  }
}

/** An element; children may be nodes, texts, lists of them, or nothing. */
export function h(tag, attributes, ...children) {
  return put(document.createElement(tag), attributes, children);
}

/** The same for drawings. */
export function svg(tag, attributes, ...children) {
  return put(document.createElementNS(SVG, tag), attributes, children);
}

/** Put these in place of what is there. */
export function fill(element, ...children) {
  element.replaceChildren();
  append(element, children);
  return element;
}

/** Text that changes often: touched only when it differs, so that selections and screen readers are not disturbed. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/**
 * Make the children of `container` show `items`, keeping the elements of those that stay: focus, hover and selection
 * survive. `make(item)` gives an element, `update(element, item)` brings it up to date.
 */
export function reconcile(container, items, key, make, update) {
  const known = new Map([...container.children].map((element) => [element.dataset.key, element]));
  let place = container.firstElementChild;
  for (const item of items) {
    const name = String(key(item));
    let element = known.get(name);
    known.delete(name);
    if (element === undefined) {
      element = make(item);
      element.dataset.key = name;
    }
    update?.(element, item);
    if (element === place) place = place.nextElementSibling;
    else container.insertBefore(element, place);
  }
  for (const element of known.values()) element.remove();
}

/** Arrow keys, Home and End move among the parts of a list that match `selector`. */
export function arrows(container, selector) {
  container.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const parts = [...container.querySelectorAll(selector)];
    const at = parts.indexOf(document.activeElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: parts.length - 1 }[event.key];
    if (at < 0 || to === undefined || parts[to] === undefined) return;
    event.preventDefault();
    parts[to].focus();
    parts[to].scrollIntoView({ block: "nearest" });
  });
}

export const hidden = (text) => h("span", { class: "sr" }, text);

const PATHS = {
  rules: ["M3 4h10", "M3 8h10", "M3 12h6"],
  bell: ["M4 11V7.5a4 4 0 0 1 8 0V11l1 1.5H3z", "M7 14.2h2"],
  mute: ["M4 11V7.5a4 4 0 0 1 6.500-3.100M12 7.500V11l1 1.5H5", "M7 14.2h2", "M2.5 2.500l11 11"],
  order: ["M2 4h3c4 0 3 8 7 8h2", "M2 12h3c4 0 3-8 7-8h2"],
  pulse: ["M1.5 8.5h3l2-5 3 9 2-4h3"],
  waves: ["M1.5 5.5c2-2 4.5-2 6.5 0s4.5 2 6.5 0", "M1.5 10.5c2-2 4.5-2 6.5 0s4.5 2 6.5 0"],
  pipe: ["M1.5 8h3.5M11 8h3.500", "M5 4.500h6v7H5z", "M3.300 6.200L5 8 3.300 9.800M12.800 6.200L14.500 8l-1.700 1.800"],
  versions: ["M8 2a6 6 0 1 1-5.700 4.100", "M2 2.500v3.700h3.700", "M8 5v3.200l2.200 1.500"],
  letter: ["M2 4h12v8.5H2z", "M2 4.5l6 4.5 6-4.5"],
  key: ["M5.8 2.6a3.3 3.3 0 1 0 0 6.6 3.3 3.3 0 0 0 0-6.6z", "M8.2 8.2l5.3 5.3", "M11.3 11.3l1.7-1.7"],
  sun: ["M8 5.200a2.800 2.800 0 1 0 0 5.600 2.800 2.800 0 0 0 0-5.600z", "M8 1.5v1.300M8 13.200v1.300M1.5 8h1.300M13.200 8h1.300M3.400 3.400l.9.9M11.7 11.7l.9.9M3.400 12.600l.9-.9M11.7 4.300l.9-.9"],
  moon: ["M13.5 9.600A6 6 0 0 1 6.400 2.5a6 6 0 1 0 7.100 7.100z"],
  half: ["M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2z", "M8 2v12"],
  keys: ["M2 4.5h12v7.5H2z", "M4.5 7h.01M7 7h.01M9.5 7h.01M12 7h.01M5 9.700h6"],
  leave: ["M9.5 2.5H3v11h6.5", "M6.5 8h8", "M12 5.5L14.5 8 12 10.5"],
  plus: ["M8 3v10M3 8h10"],
  search: ["M7 2.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9z", "M10.300 10.300l3.700 3.700"],
  pause: ["M5.5 3.5v9M10.5 3.5v9"],
  play: ["M4.5 3l8.5 5-8.5 5z"],
  edit: ["M10.5 3l2.5 2.5-7.5 7.5H3v-2.5z"],
  trash: ["M3 4.5h10M6 4.5V3h4v1.5M4.5 4.5l.6 8.5h5.800l.6-8.5"],
  close: ["M4 4l8 8M12 4l-8 8"],
  check: ["M3 8.5l3.300 3.300L13 4.700"],
  back: ["M9.5 3.5L5 8l4.5 4.5"],
  next: ["M6.5 3.5L11 8l-4.5 4.5"],
  shield: ["M8 1.800l5 1.900v4c0 3.200-2.200 5.400-5 6.5-2.800-1.100-5-3.300-5-6.5v-4z", "M5.700 8l1.7 1.7 3-3.300"],
  copy: ["M5.5 5.5h8v8h-8z", "M10.5 5.5v-3h-8v8h3"],
  refresh: ["M13 8a5 5 0 1 1-1.600-3.700L13 5.800", "M13 2.800v3h-3"],
};

/** A drawing in the size of the text. It says nothing by itself: the words beside it do. */
export function icon(name) {
  const paths = PATHS[name].map((d) => svg("path", { d }));
  return svg("svg", { class: "icon", viewBox: "0 0 16 16", "aria-hidden": "true", focusable: "false" }, paths);
}
