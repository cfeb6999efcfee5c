// SPDX-License-Identifier: Apache-2.0
// The line at the top of the page that says whether what is shown is live, and since when it is not.

import { button, html, setAttribute, setText } from "./elements.js";
import { goesOn, isStale } from "./facts.js";
import { keptToken } from "./token.js";
import { ageText, clockText, secondsText } from "./wording.js";

/** How the page is connected. */
export class ConnectionLine {
  constructor(session, element) {
    this.session = session;
    this.element = element;
    this.said = html("span"); // read out when it changes
    this.detail = html("span", { "aria-hidden": "true" }); // counts on every second, which nobody wants to hear
    this.retry = button("Try now", () => session.retryNow());
    this.other = html("a", { href: "#", rel: "noreferrer" }, "Open the page of the other master");
    this.other.addEventListener("click", () => setAttribute(this.other, "href", this.#otherAddress()));
    element.append(html("span", { class: "dot", "aria-hidden": "true" }), this.said, this.detail, this.retry, this.other);
  }

  /** Bring it up to date. */
  show() {
    const { state, said, detail, isOld = false } = this.#words();
    setAttribute(this.element, "class", `connection ${state}`);
    setText(this.said, said);
    setText(this.detail, detail);
    this.retry.hidden = state !== "bad";
    const { otherPage, problem } = this.session;
    const mayBeElsewhere = state === "bad" || isOld || problem?.status === 404 || this.session.isLeading === false;
    this.other.hidden = !otherPage || !mayBeElsewhere; // a master that hangs keeps its connections: it is only silent
  }

  /** The same view there. The token goes along, since masters of one store may share theirs; no browser sends it. */
  #otherAddress() {
    const way = location.hash.replace(/^#/, "");
    return `${this.session.otherPage}/#token=${encodeURIComponent(keptToken() ?? "")}${way ? `&${way}` : ""}`;
  }

  #words() {
    const { connection, pipelines, pipeline, problem, isEnded, isLeading, trouble } = this.session;
    if (pipelines === null)
      return problem
        ? { state: "bad", said: problem.message, detail: "" }
        : { state: "", said: "Connecting…", detail: "" };
    if (!pipelines.length)
      return { state: "", said: isLeading === false ? notLeading(trouble) : "Waiting for a run.", detail: "" };
    const isLive = pipeline ? goesOn(pipeline) : pipelines.some(goesOn);
    if (isEnded) return { state: "", said: "The run has ended.", detail: "" };
    if (!isLive) return { state: "", said: pipeline ? "A stored run." : "", detail: "" };
    const newest = Math.max(...(pipeline?.operators ?? []).map((one) => one.observed_at ?? -Infinity));
    const age = Number.isFinite(newest) ? `newest data ${ageText(this.session.now() - newest)}` : "no data yet";
    const isOld = Number.isFinite(newest) && isStale(this.session.now() - newest, pipeline);
    if (connection.isConnected && isOld)
      return { state: "", said: "Connected, but no new data come.", detail: age, isOld };
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

function notLeading(trouble) {
  return trouble === null ? "This master does not lead." : "This master cannot lead.";
}
