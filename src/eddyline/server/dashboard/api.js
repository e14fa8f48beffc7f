// The server's words: requests, their errors, and results as they come.

const BASE = "/api/v1";

/** What the server refused, or that it cannot be reached; `problem`, `detail`, `hint` are for users. */
export class ApiError extends Error {
  constructor(status, error) {
    super(error.problem);
    this.status = status;
    this.kind = error.kind ?? "Error";
    this.problem = error.problem;
    this.detail = error.detail ?? null;
    this.hint = error.hint ?? null;
    this.span = error.span ?? null;
    this.text = error.text ?? null;
  }

  get isOffline() {
    return this.status === 0;
  }
}

const offline = () =>
  new ApiError(0, {
    kind: "Offline",
    problem: "the server cannot be reached",
    hint: "It may be restarting: this page tries again by itself.",
  });

function address(path, params) {
  const url = new URL(BASE + path, location.origin);
  for (const [name, value] of Object.entries(params ?? {})) {
    if (value === null || value === undefined || value === "") continue;
    for (const each of Array.isArray(value) ? value : [value]) url.searchParams.append(name, each);
  }
  return url.pathname + url.search;
}

async function refusal(response) {
  let body = null;
  try {
    body = await response.json();
  } catch {
    body = null; // not ours: a proxy, or a server that is going down
  }
  const error = body?.error ?? { problem: `the server answered ${response.status} ${response.statusText}`.trim() };
  return new ApiError(response.status, error);
}

/** Called when the session has expired; set by app.js. */
export const session = { lost: () => {} };

async function request(method, path, { params, body, signal } = {}) {
  let response;
  try {
    response = await fetch(address(path, params), {
      method,
      signal,
      credentials: "same-origin",
      headers: { Accept: "application/json", "X-Eddyline": "1", ...(body === undefined ? {} : { "Content-Type": "application/json" }) },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw offline();
  }
  if (!response.ok) {
    const error = await refusal(response);
    if (response.status === 401 && path !== "/session") session.lost();
    throw error;
  }
  if (response.status === 204) return null;
  const text = await response.text();
  return text === "" ? null : JSON.parse(text);
}

export const get = (path, params, { signal } = {}) => request("GET", path, { params, signal });
export const post = (path, body = {}, { signal } = {}) => request("POST", path, { body, signal });
export const put = (path, body) => request("PUT", path, { body });
export const drop = (path) => request("DELETE", path);

export const isAbort = (error) => error?.name === "AbortError";
export const part = (text) => encodeURIComponent(text);

// ----------------------------------------------------------------------------------------------- events

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 15_000;

/** Until the page is visible: a browser has few connections to a server, and tabs share them. */
async function looked(signal) {
  while (document.hidden && !signal.aborted) {
    await new Promise((resolve) => {
      document.addEventListener("visibilitychange", resolve, { once: true, signal });
      signal.addEventListener("abort", resolve, { once: true });
    });
  }
}

/**
 * Server-sent events over fetch, which unlike EventSource says why it was refused. Goes on after the last id whenever the
 * connection breaks, or was given up while the page was hidden, so nothing is missed or seen twice. `onEvent(event)` gets {id, event, data}; `state` gets "live",
 * "waiting" or an ApiError that ends it.
 */
export async function follow(path, params, { after, onEvent, state, signal }) {
  let last = after;
  let wait = FIRST_WAIT_MS;
  while (!signal.aborted) {
    await looked(signal);
    const connection = new AbortController();
    const leave = () => document.hidden && connection.abort();
    document.addEventListener("visibilitychange", leave);
    try {
      const response = await fetch(address(path, { ...params, after: last }), {
        signal: AbortSignal.any([signal, connection.signal]),
        credentials: "same-origin",
        headers: { Accept: "text/event-stream", ...(last ? { "Last-Event-ID": last } : {}) },
      });
      if (!response.ok) {
        const error = await refusal(response);
        if (response.status === 401) session.lost();
        if (response.status < 500 && response.status !== 429) return state(error);
        throw error;
      }
      state("live");
      wait = FIRST_WAIT_MS;
      for await (const event of events(response.body)) {
        if (event.id) last = event.id;
        onEvent(event);
      }
    } catch (error) {
      if (signal.aborted) return undefined;
      if (!(error instanceof ApiError) && !(error instanceof TypeError) && error.name !== "AbortError") throw error;
    } finally {
      document.removeEventListener("visibilitychange", leave);
    }
    if (signal.aborted) return undefined;
    state("waiting");
    if (!document.hidden) await pause(wait, signal);
    wait = Math.min(wait * 2, LONGEST_WAIT_MS);
  }
  return undefined;
}

/** The events in a stream of bytes. */
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let event = { id: null, event: "message", data: [] };
  while (true) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split(/\r\n|\n|\r(?!$)/);
    rest = lines.pop();
    for (const line of lines) {
      if (line === "") {
        if (event.data.length) yield { ...event, data: JSON.parse(event.data.join("\n")) };
        event = { id: null, event: "message", data: [] };
        continue;
      }
      const colon = line.indexOf(":");
      if (colon === 0) continue; // a comment: the server shows that it lives
      const field = colon < 0 ? line : line.slice(0, colon);
      const text = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
      if (field === "data") event.data.push(text);
      else if (field === "id" || field === "event") event[field] = text;
    }
  }
}

export function pause(ms, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener("abort", () => { clearTimeout(timer); resolve(); }, { once: true });
  });
}
