// SPDX-License-Identifier: Apache-2.0
// What the page knows: the list of pipelines, the pipeline that is shown, and how fresh both are.
// Observations come as events and are taken from there; everything else makes the pipeline be read again.

import { get, Problem } from "./api.js";
import { EventStream } from "./events.js";
import { goesOn, observe, withValues } from "./facts.js";

const READ_SOON_MS = 300; // after a decision, an order or a fault
const READ_LATER_MS = 5000; // while nothing but observations comes
const READ_QUIET_MS = 10000; // while nothing comes at all: that, too, is something to say
const READ_STORED_MS = 10000; // a stored run that was cut off may be resumed
const READ_EMPTY_LIST_MS = 2000; // the service listens before its pipeline is there
const FIRST_RETRY_MS = 2000;
const LONGEST_RETRY_MS = 30000;

/** The page's picture of the service. */
export class Session {
  #stream = null;
  #listeners = new Set();
  #timer = null;
  #due = Infinity;
  #retryMs = FIRST_RETRY_MS;
  #reading = null;
  #clockAhead = 0; // seconds that the service's clock is ahead of this one

  constructor() {
    this.pipelines = null; // null: not read yet
    this.role = null;
    this.hasAgents = false; // whether the service is a master
    this.isLeading = null; // whether it leads; null: it is no master
    this.trouble = null; // why a master cannot find out who leads; null: it can
    this.otherPage = null; // where the page of another master is
    this.name = null; // of the pipeline that is shown
    this.pipeline = null; // null: not read yet
    this.problem = null; // why the newest read failed
    this.connection = { isConnected: false, retryAt: null, problem: null, since: null };
    this.isEnded = false; // whether the service said that no more events will come
  }

  /** Have `listener(what, data)` called at every change: "list", "pipeline", "connection" or "event". */
  listen(listener) {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #report(what, data) {
    for (const listener of [...this.#listeners]) listener(what, data);
  }

  /** The service's clock. */
  now() {
    return Date.now() / 1000 + this.#clockAhead;
  }

  /** Read the list of pipelines, and follow what happens where something can happen. */
  async readList() {
    try {
      const answer = await get(["pipelines"]);
      const { at, role, pipelines, trouble } = answer;
      const { has_agents: hasAgents, is_leading: isLeading, other_page: otherPage } = answer;
      Object.assign(this, { role, pipelines, hasAgents, isLeading, trouble, otherPage, problem: null });
      this.#learnClock(at);
      if (pipelines.some((one) => goesOn(one))) this.#follow();
      if (!pipelines.length) setTimeout(() => this.readList(), READ_EMPTY_LIST_MS);
    } catch (problem) {
      this.#failed(problem, () => this.readList());
    }
    this.#report("list");
  }

  /** Show another pipeline; null: none. */
  async choose(name) {
    if (name === this.name && this.pipeline) return;
    Object.assign(this, { name, pipeline: null, problem: null });
    if (name !== null) await this.read();
  }

  /** Read the pipeline that is shown. */
  async read() {
    clearTimeout(this.#timer);
    this.#due = Infinity;
    this.#reading?.abort();
    const { name } = this;
    if (name === null) return;
    const reading = new AbortController();
    this.#reading = reading;
    try {
      const answer = await get(["pipelines", name], {}, reading.signal);
      if (name !== this.name) return;
      this.#learnClock(answer.at);
      Object.assign(this, { pipeline: withValues(answer), otherPage: answer.other_page, problem: null });
      this.#retryMs = FIRST_RETRY_MS;
      if (goesOn(answer)) {
        this.#follow();
        this.#readWithin(READ_QUIET_MS);
      } else if (answer.ended_at === null) this.#readWithin(READ_STORED_MS);
    } catch (problem) {
      if (reading.signal.aborted || name !== this.name) return;
      this.#failed(problem, () => this.read());
    }
    this.#report("pipeline");
  }

  #readWithin(milliseconds) {
    const due = Date.now() + milliseconds;
    if (due >= this.#due || this.name === null) return; // an earlier read will do
    clearTimeout(this.#timer);
    this.#due = due;
    this.#timer = setTimeout(() => this.read(), milliseconds);
  }

  /** Try to connect now rather than later. */
  retryNow() {
    this.#stream?.retryNow();
    if (this.pipelines === null) this.readList();
    else this.read();
  }

  #learnClock(at) {
    this.#clockAhead = at - Date.now() / 1000;
  }

  #failed(problem, again) {
    if (!(problem instanceof Problem)) throw problem;
    this.problem = problem;
    if (!problem.isPassing) return;
    setTimeout(again, this.#retryMs);
    this.#retryMs = Math.min(LONGEST_RETRY_MS, this.#retryMs * 2);
  }

  #follow() {
    this.#stream ??= new EventStream(
      {},
      (name, data) => this.#onEvent(name, data),
      (state) => this.#onConnection(state),
    );
  }

  #onEvent(name, data) {
    if (name === "end" && !this.hasAgents) { // the queries of a master go on, and so may the master
      this.isEnded = true;
      this.#stream.close();
      this.read();
    } else if (name !== "end" && (data.pipeline === undefined || data.pipeline === this.name)) {
      const seen = name === "observation" ? this.pipeline?.operators.find((one) => one.name === data.operator) : null;
      if (seen) observe(seen, data);
      this.#readWithin(name === "observation" ? READ_LATER_MS : READ_SOON_MS);
    }
    this.#report("event", { name, data });
  }

  #onConnection(state) {
    const wasConnected = this.connection.isConnected;
    const since = state.isConnected ? null : (this.connection.since ?? Date.now() / 1000);
    this.connection = { ...state, since };
    this.#report("connection");
    if (state.isConnected && !wasConnected) this.#readWithin(0); // what was missed meanwhile
  }
}
