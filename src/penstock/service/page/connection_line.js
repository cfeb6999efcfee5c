// SPDX-License-Identifier: Apache-2.0
// The line at the top of the page that says whether what is shown is live, and since when it is not.

import { button, html, setAttribute, setText } from "./elements.js";
import { goesOn } from "./facts.js";
import { ageText, clockText, secondsText } from "./wording.js";

/** How the page is connected. */
export class ConnectionLine {
  constructor(session, element) {
    this.session = session;
    this.element = element;
    this.said = html("span"); // read out when it changes
    this.detail = html("span", { "aria-hidden": "true" }); // counts on every second, which nobody wants to hear
    this.retry = button("Try now", () => session.retryNow());
    element.append(html("span", { class: "dot", "aria-hidden": "true" }), this.said, this.detail, this.retry);
  }

  /** Bring it up to date. */
  show() {
    const { state, said, detail } = this.#words();
    setAttribute(this.element, "class", `connection ${state}`);
    setText(this.said, said);
    setText(this.detail, detail);
    this.retry.hidden = state !== "bad";
  }

  #words() {
    const { connection, pipelines, pipeline, problem, isEnded } = this.session;
    if (pipelines === null)
      return problem
        ? { state: "bad", said: problem.message, detail: "" }
        : { state: "", said: "Connecting…", detail: "" };
    if (!pipelines.length) return { state: "", said: "Waiting for a run.", detail: "" };
    const isLive = pipeline ? goesOn(pipeline) : pipelines.some(goesOn);
    if (isEnded) return { state: "", said: "The run has ended.", detail: "" };
    if (!isLive) return { state: "", said: pipeline ? "A stored run." : "", detail: "" };
    const newest = Math.max(...(pipeline?.operators ?? []).map((one) => one.observed_at ?? -Infinity));
    const age = Number.isFinite(newest) ? `newest data ${ageText(this.session.now() - newest)}` : "no data yet";
    if (connection.isConnected) return { state: "good", said: "Live.", detail: pipeline ? age : "" };
    if (connection.since === null) return { state: "", said: "Connecting…", detail: "" };
    const wait = connection.retryAt === null ? 0 : Math.max(0, Math.ceil(connection.retryAt - Date.now() / 1000));
    return {
      state: "bad",
      said: `Not connected since ${clockText(connection.since)}; what is shown is old. ${connection.problem ?? ""}`,
      detail: `${pipeline ? `${age}; ` : ""}next try in ${secondsText(wait)}`,
    };
  }
}
