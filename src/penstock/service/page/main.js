// SPDX-License-Identifier: Apache-2.0
// Starts the page: takes the token, reads what there is, and shows the view that the address names.

import { AuditView } from "./audit_view.js";
import { BacktestView } from "./backtest_view.js";
import { ConnectionLine } from "./connection_line.js";
import { DecisionsView } from "./decisions_view.js";
import { html, setText } from "./elements.js";
import { addresses } from "./facts.js";
import { OperatorView } from "./operator_view.js";
import { Overview } from "./overview.js";
import { PipelineFrame } from "./pipeline_frame.js";
import { PipelineList } from "./pipeline_list.js";
import { PolicyView } from "./policy_view.js";
import { problemBox } from "./problem_box.js";
import { Session } from "./session.js";
import { keepToken, takeTokenFromAddress } from "./token.js";

const content = document.getElementById("content");
const spoken = document.getElementById("spoken");
const session = new Session();
const connection = new ConnectionLine(session, document.getElementById("connection"));
let frame = null; // of the pipeline that is shown
let view = null; // within the frame, or the list
let shownAddress = null;
let isDirty = false;

/** Have a sentence read out. */
function say(text) {
  setText(spoken, text);
}

/** The parts of the address: pipeline, kind of view, operator. */
function route() {
  return location.hash.replace(/^#\/?/, "").split("/").filter(Boolean).map(decodeURIComponent);
}

function viewOf(part, rest) {
  if (part === "operators") return new OperatorView(session, rest, say);
  if (part === "decisions") return new DecisionsView(session);
  if (part === "policy") return new PolicyView(session, say);
  if (part === "audit") return new AuditView(session);
  if (part === "backtest") return new BacktestView(session, say);
  return new Overview(session);
}

function navigate(isFirst = false) {
  if (session.pipelines === null) return;
  const [name, part = "", rest] = route();
  if (!name && session.pipelines.length === 1 && !session.hasAgents) {
    location.replace(addresses.pipeline(session.pipelines[0].name));
    return;
  }
  const address = JSON.stringify([name, part, rest]);
  if (address === shownAddress) return;
  const [, partBefore] = shownAddress === null ? [] : JSON.parse(shownAddress);
  shownAddress = address;
  if (!name) {
    frame = null;
    view = new PipelineList(session);
    session.choose(null);
    content.replaceChildren(view.element);
    view.show();
  } else {
    if (frame?.name !== name) {
      frame = new PipelineFrame(session, name, say);
      content.replaceChildren(frame.element);
      session.choose(name);
    }
    view = viewOf(part, rest);
    frame.hold(view, part);
  }
  document.title = [rest, part && part !== "operators" ? part : "", name, "Penstock"].filter(Boolean).join(" · ");
  if (!isFirst) content.focus({ preventScroll: true }); // a new view begins at its top, for keyboards too
  if (!isFirst && !(part === "operators" && partBefore === "operators")) scrollTo(0, 0); // plots stay where they are
  showPipelines();
}

function showPipelines() {
  const nav = document.getElementById("pipelines");
  const [name] = route();
  if (!session.pipelines || (session.pipelines.length < 2 && !session.hasAgents)) return;
  const choice = html(
    "select",
    { "aria-label": "Pipeline" },
    html("option", { value: "" }, "All pipelines"),
    session.pipelines.map((one) => html("option", { value: one.name, selected: one.name === name }, one.name)),
  );
  choice.addEventListener("change", () => {
    location.hash = choice.value ? addresses.pipeline(choice.value) : "#/";
  });
  nav.replaceChildren(choice);
}

/** Without a token there is nothing to show but the question for it. */
function askForToken(problem) {
  shownAddress = null;
  const field = html("input", { type: "password", size: "40", autocomplete: "off", required: true });
  const form = html(
    "form",
    { class: "box" },
    html(
      "div",
      { class: "tools" },
      html("label", null, "Token", field),
      html("button", { class: "main", type: "submit" }, "Open"),
    ),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    keepToken(field.value.trim());
    location.reload();
  });
  content.replaceChildren(html("h1", null, "This service asks for a token"), problemBox(problem), form);
  field.focus();
}

function onList() {
  connection.show();
  if (session.problem?.status === 401) askForToken(session.problem);
  else if (session.pipelines === null && session.problem) content.replaceChildren(problemBox(session.problem));
  else {
    navigate(shownAddress === null);
    view?.show();
    showPipelines();
    if (session.name !== null && session.pipeline === null) session.read(); // it was not there when it was asked for
  }
}

session.listen((what, event) => {
  if (what === "list") onList();
  if (what === "pipeline") frame?.show();
  if (what === "event" && (event.data.pipeline === undefined || event.data.pipeline === session.name)) {
    view?.onEvent?.(event.name, event.data);
    isDirty = true;
  }
  connection.show();
});

// A hundred operators send a hundred events a second: texts are brought up to date once a second, whatever comes.
setInterval(() => {
  connection.show();
  if (document.hidden) return;
  if (isDirty) frame?.show();
  isDirty = false;
  view?.tick?.();
}, 1000);

addEventListener("hashchange", () => {
  takeTokenFromAddress();
  navigate();
});
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the fragment names the view
  content.focus();
});
takeTokenFromAddress();
session.readList();
