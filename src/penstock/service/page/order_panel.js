// SPDX-License-Identifier: Apache-2.0
// Steering: pause and resume with one click, a mode, a size for some time, forgetting what was learnt.
// Every order carries who gave it and why, where that is said.

import { post } from "./api.js";
import { button, html, newId } from "./elements.js";
import { problemBox } from "./problem_box.js";

const NAME_KEPT_AS = "penstock.name";
const MODES = {
  automatic: "automatic: the policy decides",
  "scale-out-only": "only more: nothing is taken away",
  "scale-in-only": "only less: nothing is added",
  recommend: "recommend: decide, but change nothing",
};

/** Who gives orders on this page; empty: nobody in particular. */
export function orderedBy() {
  return localStorage.getItem(NAME_KEPT_AS) ?? "";
}

/** A field for the name that goes with every order. */
export function nameField() {
  const field = html("input", { type: "text", maxlength: "64", size: "14", value: orderedBy(), autocomplete: "name" });
  field.addEventListener("change", () => localStorage.setItem(NAME_KEPT_AS, field.value.trim()));
  return html("label", null, "Your name, for the audit", field);
}

/** Orders for a pipeline, or for one operator of it. */
export class OrderPanel {
  /** onAnswer(answer): the service carried an order out; say(text): have a sentence read out. */
  constructor(pipeline, operator, onAnswer, say) {
    Object.assign(this, { name: pipeline.name, operator: operator?.name ?? null, onAnswer, say });
    this.what = operator ? operator.name : "all operators";
    this.message = html("div", { role: "status" });
    this.reason = html("input", { type: "text", maxlength: "500", size: "30", placeholder: "why (optional)" });
    this.pauseButton = button("Pause", () => this.#send("pause", {}), {
      class: "pause",
      title: `Watch ${this.what}, and decide nothing`,
    });
    this.resumeButton = button("Resume", () => this.#send("resume", {}), {
      class: "resume",
      title: `Let the policy decide about ${this.what} again`,
    });
    this.quick = html(
      "div",
      { class: "tools", role: "group", "aria-label": `Steer ${this.what}` },
      this.pauseButton,
      this.resumeButton,
    );
    this.more = html(
      "details",
      { class: "box orders" },
      html("summary", null, operator ? "More ways to steer this operator" : "More ways to steer"),
      html("div", { class: "tools" }, html("label", null, "Reason", this.reason), nameField()),
      this.#modeTools(),
      operator ? this.#sizeTools(operator) : this.#resetTools(),
    );
    this.show(pipeline, operator);
  }

  #modeTools() {
    this.mode = html(
      "select",
      null,
      Object.entries(MODES).map(([value, text]) => html("option", { value }, text)),
    );
    return html(
      "div",
      { class: "tools" },
      html("label", null, "Mode", this.mode),
      button("Set the mode", () => this.#send("mode", { mode: this.mode.value })),
    );
  }

  #sizeTools({ limits, observed, planned }) {
    const now = planned ?? observed;
    const executors = html("input", {
      type: "number",
      min: limits.min_executors,
      max: limits.max_executors,
      step: "1",
      value: now?.executors ?? limits.min_executors,
    });
    const share = html(
      "select",
      null,
      limits.cpu_shares.map((one) =>
        html("option", { value: one, selected: one === now?.cpu_share }, `${Math.round(one * 100)} %`),
      ),
    );
    const minutes = html("input", { type: "number", min: "1", max: "43200", step: "1", value: "30" });
    return html(
      "div",
      { class: "tools" },
      html("label", null, `Executors (${limits.min_executors} to ${limits.max_executors})`, executors),
      html("label", null, "CPU share", share),
      html("label", null, "for minutes", minutes),
      button("Hold this size", () =>
        this.#send("size", {
          executors: Number(executors.value),
          cpu_share: Number(share.value),
          for_seconds: Number(minutes.value) * 60,
        }),
      ),
    );
  }

  #resetTools() {
    const question = html("dialog", { "aria-labelledby": newId("question") });
    question.append(
      html("h2", { id: question.getAttribute("aria-labelledby") }, "Forget what was learnt?"),
      html("p", null, "The policy starts again without what it has learnt about this pipeline. That cannot be undone."),
      html(
        "div",
        { class: "tools" },
        button(
          "Forget it",
          async () => {
            question.close();
            await this.#send("reset", {}, false);
          },
          { class: "main" },
        ),
        button("Keep it", () => question.close()),
      ),
    );
    return html(
      "div",
      { class: "tools" },
      button("Forget what was learnt…", () => question.showModal()),
      question,
    );
  }

  async #send(order, body, isForOperator = true) {
    const reason = this.reason.value.trim();
    const by = orderedBy();
    try {
      const answer = await post(["pipelines", this.name, order], {
        ...(isForOperator ? { operator: this.operator } : {}),
        ...body,
        ...(reason ? { reason } : {}),
        ...(by ? { by } : {}),
      });
      const text = answer.audit ? `Done: ${answer.audit.text}.` : "Nothing to change: it is so already.";
      this.message.replaceChildren(html("p", { class: "small" }, text));
      this.say(text);
      this.onAnswer(answer);
    } catch (problem) {
      this.message.replaceChildren(problemBox(problem));
    }
  }

  /** Offer what fits the state: a pause where it runs, a resume where it is paused or held. */
  show(pipeline, operator) {
    const all = operator ? [operator] : pipeline.operators;
    const isPaused = all.every((one) => one.steering.paused);
    const isHeldBack = all.some((one) => one.steering.paused || one.steering.held_size);
    const focused = document.activeElement;
    this.pauseButton.hidden = isPaused;
    this.resumeButton.hidden = !isHeldBack;
    // A button that goes must not take the keyboard's place with it.
    if (focused === this.pauseButton && this.pauseButton.hidden) this.resumeButton.focus();
    if (focused === this.resumeButton && this.resumeButton.hidden) this.pauseButton.focus();
    if (document.activeElement !== this.mode && all.length) this.mode.value = all[0].steering.mode;
  }
}
