// What every view wants to know now and then: who asks, how fast it goes, what the last rounds took. One poll for all of them.

import { ApiError, get, isAbort, pause } from "./api.js";

const EVERY_MS = 2_000;
const LONGEST_WAIT_MS = 15_000;
const KEPT_ROUNDS = 120;
const KEPT_RATES = 60;

class Live extends EventTarget {
  me = null;
  status = null;
  rounds = []; // oldest first
  roundRates = []; // rounds a second between one look and the next
  state = "waiting"; // live, waiting (the first answer, or one that is late), offline
  lastAnswer = null; // when the server last answered
  #times = new Map();
  #stop = new AbortController();
  #nudge = () => {};
  #before = null; // the last round at the last look

  /** Ask again and again, not while the page is hidden. Ends with `stop`. */
  async start() {
    this.#stop = new AbortController();
    const { signal } = this.#stop;
    document.addEventListener("visibilitychange", () => !document.hidden && this.#nudge(), { signal });
    window.addEventListener("online", () => this.#nudge(), { signal });
    let wait = EVERY_MS;
    while (!signal.aborted) {
      if (!document.hidden || this.status === null) wait = await this.#refresh(signal, wait);
      await Promise.race([pause(wait, signal), new Promise((resolve) => { this.#nudge = resolve; })]);
    }
  }

  stop() {
    this.#stop.abort();
    this.status = null;
    this.me = null;
  }

  /** Ask now: something was changed. */
  hurry() {
    this.#nudge();
  }

  async #refresh(signal, wait) {
    try {
      const [status, rounds] = await Promise.all([
        get("/status", null, { signal }),
        get("/rounds", { newest: KEPT_ROUNDS }, { signal }),
      ]);
      this.#noteRate(status);
      this.status = status;
      this.me = status.me;
      this.rounds = rounds.reverse();
      for (const record of this.rounds) this.#times.set(record.round_number, record.at);
      if (this.#times.size > 5_000) this.#times = new Map([...this.#times].slice(-2_500));
      this.lastAnswer = new Date();
      this.#become("live");
      return EVERY_MS;
    } catch (error) {
      if (isAbort(error)) return EVERY_MS;
      if (!(error instanceof ApiError)) throw error;
      if (error.status !== 401) this.#become(error.isOffline || error.status >= 500 ? "offline" : "waiting");
      return Math.min(wait * 1.6, LONGEST_WAIT_MS);
    }
  }

  #noteRate(status) {
    const now = performance.now();
    if (this.#before !== null && status.last_round >= this.#before.round) {
      this.roundRates.push((1000 * (status.last_round - this.#before.round)) / Math.max(1, now - this.#before.at));
      if (this.roundRates.length > KEPT_RATES) this.roundRates.shift();
    }
    this.#before = { round: status.last_round, at: now };
  }

  #become(state) {
    this.state = state;
    this.dispatchEvent(new Event("change"));
  }

  /** When a round was, if it is one of the last. */
  timeOf(round) {
    return this.#times.get(round) ?? null;
  }

  get streams() {
    return this.status?.streams ?? [];
  }

  may(role) {
    const roles = ["reader", "author", "admin"];
    return roles.indexOf(this.me?.role) >= roles.indexOf(role);
  }
}

export const live = new Live();

/** Call `again` now and every so often while the page is visible; a failure waits for the next time. */
export function every(ms, again, signal) {
  const run = async () => {
    while (!signal.aborted) {
      if (!document.hidden) await again();
      await pause(ms, signal);
    }
  };
  run();
}
