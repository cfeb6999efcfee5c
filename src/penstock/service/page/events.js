// SPDX-License-Identifier: Apache-2.0
// Server-sent events, read with fetch: EventSource cannot send an Authorization header.
// A connection that breaks, or is silent for too long, is made again, later and later up to half a minute.

import { address, headers } from "./api.js";

const FIRST_WAIT_MS = 1000;
const LONGEST_WAIT_MS = 30000;
const LONGEST_SILENCE_MS = 25000; // the service sends a comment at least every 10 s

/** Takes text as it comes, in pieces cut anywhere, and gives each whole event as {id, name, data}. */
export class EventReader {
  #rest = "";

  /** The events that are whole now. */
  read(piece) {
    this.#rest += piece;
    const blocks = this.#rest.split(/\r\n\r\n|\n\n|\r\r/);
    this.#rest = blocks.pop();
    return blocks.map(EventReader.#event).filter((event) => event !== null);
  }

  static #event(block) {
    let id = null;
    let name = "message";
    const data = [];
    for (const line of block.split(/\r\n|\n|\r/)) {
      const [, field, value] = /^([^:]*):? ?(.*)$/.exec(line);
      if (field === "data") data.push(value);
      else if (field === "event") name = value;
      else if (field === "id") id = value;
    }
    return data.length ? { id, name, data: data.join("\n") } : null;
  }
}

/** A lasting connection to the service's events. */
export class EventStream {
  #ended = new AbortController();
  #lastId = null;
  #retryNow = () => {};

  /** onEvent(name, data); onState({isConnected, retryAt, problem}) at every change. */
  constructor(query, onEvent, onState) {
    this.query = query;
    this.onEvent = onEvent;
    this.onState = onState;
    this.#run();
  }

  /** End the connection for good. */
  close() {
    this.#ended.abort();
    this.#retryNow();
  }

  /** Do not wait until the next try. */
  retryNow() {
    this.#retryNow();
  }

  async #run() {
    let wait = FIRST_WAIT_MS;
    while (!this.#ended.signal.aborted) {
      let problem = "The connection ended.";
      try {
        await this.#follow(() => {
          wait = FIRST_WAIT_MS;
          this.onState({ isConnected: true, retryAt: null, problem: null });
        });
      } catch (fault) {
        problem = fault.message;
      }
      if (this.#ended.signal.aborted) return;
      const delay = wait * (0.75 + Math.random() / 2); // not all pages of a restarted service at once
      this.onState({ isConnected: false, retryAt: Date.now() / 1000 + delay / 1000, problem });
      await new Promise((resolve) => {
        this.#retryNow = resolve;
        setTimeout(resolve, delay);
      });
      wait = Math.min(LONGEST_WAIT_MS, wait * 2);
    }
  }

  async #follow(onOpen) {
    const attempt = new AbortController();
    const giveUp = () => attempt.abort();
    this.#ended.signal.addEventListener("abort", giveUp);
    let silence = setTimeout(giveUp, LONGEST_SILENCE_MS);
    try {
      const response = await fetch(address(["events"], this.query), {
        headers: headers({ Accept: "text/event-stream", ...(this.#lastId ? { "Last-Event-ID": this.#lastId } : {}) }),
        signal: attempt.signal,
        cache: "no-store",
      });
      if (!response.ok) throw new Error(`The service refused the connection with status ${response.status}.`);
      onOpen();
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      const events = new EventReader();
      for (;;) {
        const { value, done } = await reader.read();
        if (done) return;
        clearTimeout(silence);
        silence = setTimeout(giveUp, LONGEST_SILENCE_MS);
        for (const event of events.read(value)) {
          if (event.id !== null) this.#lastId = event.id;
          this.onEvent(event.name, JSON.parse(event.data));
        }
      }
    } catch (fault) {
      if (attempt.signal.aborted && !this.#ended.signal.aborted)
        throw new Error("The service was silent for too long.");
      throw fault instanceof TypeError ? new Error("The service cannot be reached.") : fault;
    } finally {
      clearTimeout(silence);
      this.#ended.signal.removeEventListener("abort", giveUp);
      attempt.abort();
    }
  }
}
