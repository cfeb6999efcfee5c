// SPDX-License-Identifier: Apache-2.0
// Which policy decides, and the editor for another one. A change is first tried: the service checks it and says what it
// would decide now. Only what was tried can be applied.

import { get, post, put } from "./api.js";
import { button, html, setText, table, withCode } from "./elements.js";
import { explanation, foldedExplanation } from "./explanation.js";
import { readOnlyReason } from "./facts.js";
import { nameField, orderedBy } from "./order_panel.js";
import { problemBox } from "./problem_box.js";

const RULES = "rules"; // has a field of its own, which is large enough

/** A text as the value that it most plainly is: a number, true, a list, or else the text itself. */
export function valueOf(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** The view of the policy. */
export class PolicyView {
  constructor(session, say) {
    Object.assign(this, { session, say });
    this.now = html("div", { class: "box" });
    this.editor = html("div");
    this.result = html("div", { role: "status" });
    this.element = html(
      "section",
      { "aria-label": "Policy" },
      html("h2", null, "The policy that decides now"),
      this.now,
      this.editor,
      this.result,
    );
  }

  /** Bring it up to date. */
  show() {
    const { pipeline, role } = this.session;
    if (!pipeline) return;
    const text = JSON.stringify([pipeline.policy, pipeline.previous_policy, role, pipeline.ended_at]);
    if (text === this.shown) return;
    this.shown = text;
    const reason = readOnlyReason(pipeline, role);
    this.now.replaceChildren(...policyFacts(pipeline.policy));
    if (reason !== null) this.editor.replaceChildren(html("p", { class: "notice" }, reason));
    else if (!this.form) this.#begin(pipeline);
    if (reason === null && pipeline.previous_policy) {
      this.now.append(
        html(
          "div",
          { class: "tools" },
          button(`Roll back to ${pipeline.previous_policy.name}`, () => this.#rollBack()),
          html("span", { class: "small" }, policyText(pipeline.previous_policy)),
        ),
      );
    }
  }

  async #begin(pipeline) {
    this.form = html("form", { "aria-label": "Change the policy" });
    this.editor.replaceChildren(html("h2", null, "Change it"), this.form);
    try {
      this.policies = (await get(["policies"])).policies;
    } catch (problem) {
      this.form = null;
      this.editor.replaceChildren(problemBox(problem));
      return;
    }
    this.choice = html(
      "select",
      null,
      this.policies.map(({ name }) => html("option", { value: name, selected: name === pipeline.policy.name }, name)),
    );
    this.summary = html("p", { class: "small" });
    this.options = html("fieldset");
    this.rules = html("textarea", { rows: "8", spellcheck: "false", "aria-describedby": "rules-note" });
    this.rules.value = rulesText(pipeline.policy.rules);
    this.reason = html("input", { type: "text", maxlength: "500", size: "36" });
    this.form.append(
      html("div", { class: "tools" }, html("label", null, "Policy", this.choice)),
      this.summary,
      this.options,
      html(
        "details",
        { open: Boolean(pipeline.policy.rules) || pipeline.policy.name === "rules" },
        html("summary", null, "Rules"),
        html("label", { class: "wide" }, "Text of the rules", this.rules),
        html("p", { class: "small", id: "rules-note" }, "Empty: no rules."),
      ),
      html("div", { class: "tools" }, html("label", null, "Reason", this.reason), nameField()),
      html(
        "div",
        { class: "tools" },
        html("button", { class: "main", type: "submit" }, "Check and try"),
        html("span", { class: "small" }, "Changes nothing: it says what this policy would decide now."),
      ),
    );
    this.choice.addEventListener("change", () => this.#showOptions({}));
    this.form.addEventListener("input", () => this.result.replaceChildren()); // what was tried is no longer what stands there
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#try();
    });
    this.#showOptions(pipeline.policy.options ?? {});
  }

  #showOptions(given) {
    const policy = this.policies.find(({ name }) => name === this.choice.value);
    setText(this.summary, policy?.summary ?? "");
    this.fields = new Map();
    const rows = (policy?.options ?? [])
      .filter(({ name }) => name !== RULES)
      .map((option) => {
        const field = html("input", {
          type: "text",
          size: "14",
          placeholder: shownValue(option.default),
          "aria-label": option.name,
        });
        if (option.name in given) field.value = shownValue(given[option.name]);
        this.fields.set(option.name, field);
        return [html("span", { class: "nowrap" }, option.name), field, html("span", null, withCode(option.meaning))];
      });
    this.options.replaceChildren(
      html("legend", null, "Options"),
      rows.length
        ? table(
            "Options; an empty field is the default",
            ["Option", "Value (empty: the default, in grey)", "What it does"],
            rows,
          )
        : html("p", { class: "small" }, "This policy has no options."),
    );
  }

  #body() {
    const options = Object.fromEntries(
      [...this.fields]
        .filter(([, field]) => field.value.trim() !== "")
        .map(([name, field]) => [name, valueOf(field.value.trim())]),
    );
    const [rules, reason, by] = [this.rules.value.trim(), this.reason.value.trim(), orderedBy()];
    return {
      policy: this.choice.value,
      options,
      rules: rules || null,
      ...(reason ? { reason } : {}),
      ...(by ? { by } : {}),
    };
  }

  async #try() {
    const body = this.#body();
    this.result.replaceChildren(html("p", { class: "muted" }, "Trying…"));
    try {
      const answer = await put(["pipelines", this.session.name, "policy"], { ...body, dry_run: true });
      this.result.replaceChildren(
        html("h2", null, "What it would decide now"),
        html("p", { class: "notice good" }, "The policy is in order. Nothing has been changed yet."),
        ...notes(answer.notes),
        ...wouldDecide(answer.would_decide),
        html(
          "div",
          { class: "tools" },
          button("Apply", () => this.#apply(body), { class: "main" }),
          html("span", { class: "small" }, "It decides from the next pass of the loop."),
        ),
      );
    } catch (problem) {
      this.result.replaceChildren(problemBox(problem));
    }
  }

  async #apply(body) {
    await this.#change(() => put(["pipelines", this.session.name, "policy"], { ...body, dry_run: false }));
  }

  async #rollBack() {
    const by = orderedBy();
    await this.#change(() => post(["pipelines", this.session.name, "policy", "rollback"], by ? { by } : {}));
  }

  async #change(work) {
    try {
      const answer = await work();
      const text = answer.audit ? `Done: ${answer.audit.text}.` : "Nothing to change: this policy decides already.";
      this.result.replaceChildren(html("p", { class: "notice good" }, text), ...notes(answer.notes ?? []));
      this.say(text);
      await this.session.read();
    } catch (problem) {
      this.result.replaceChildren(problemBox(problem));
    }
  }

  onEvent() {}
}

function shownValue(value) {
  return typeof value === "string" ? value : JSON.stringify(value);
}

function rulesText(rules) {
  return rules === null || rules === undefined
    ? ""
    : typeof rules === "string"
      ? rules
      : JSON.stringify(rules, null, 2);
}

function policyText({ name, options }) {
  const set = Object.entries(options ?? {}).map(([option, value]) => `${option} = ${shownValue(value)}`);
  return `${name}${set.length ? ` with ${set.join(", ")}` : " with its defaults"}`;
}

function policyFacts(policy) {
  return [
    html("p", null, html("b", null, policyText(policy))),
    policy.summary ? html("p", { class: "muted" }, policy.summary) : "",
    policy.is_object
      ? html(
          "p",
          { class: "small" },
          "It is an object of the program that attached Penstock: it can be replaced here, but not shown.",
        )
      : "",
    policy.rules
      ? html(
          "details",
          null,
          html("summary", null, "Its rules"),
          html("pre", { tabindex: "0" }, rulesText(policy.rules)),
        )
      : "",
  ].filter((part) => part !== "");
}

function notes(texts) {
  return texts.length
    ? [
        html(
          "ul",
          { class: "plain" },
          texts.map((text) => html("li", null, text)),
        ),
      ]
    : [];
}

function wouldDecide(decisions) {
  if (!decisions.length) return [html("p", null, "Nothing yet: there is no observation to decide from.")];
  return decisions.length === 1 ? [explanation(decisions[0])] : decisions.map(foldedExplanation);
}
