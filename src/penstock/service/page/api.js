// SPDX-License-Identifier: Apache-2.0
// Requests to the service. An answer that is a problem becomes an error that carries what the service says about it.

import { keptToken } from "./token.js";

const ROOT = "api/v1";
const PATIENCE_MS = 20000;

/** What the service answered instead of what was asked for. */
export class Problem extends Error {
  /** status: of HTTP, or null where there was no answer at all; body: what the service said, as plain data. */
  constructor(status, body) {
    super(body?.detail ?? body?.title ?? "The service did not answer.");
    this.status = status;
    this.body = body ?? {};
  }

  /** What to do about it; empty where the service does not say. */
  get fix() {
    return this.body.fix ?? "";
  }

  /** Whether another try may help. */
  get isPassing() {
    return this.status === null || this.status === 429 || this.status >= 500;
  }
}

/** The headers of every request. */
export function headers(more) {
  const token = keptToken();
  return { ...(token ? { Authorization: `Bearer ${token}` } : {}), ...more };
}

/** The address of something below the API, each part of the way quoted. */
export function address(parts, query) {
  const way = parts.map(encodeURIComponent).join("/");
  const asked = new URLSearchParams(
    Object.entries(query ?? {}).filter(([, value]) => value !== null && value !== undefined && value !== ""),
  ).toString();
  return `${ROOT}/${way}${asked ? `?${asked}` : ""}`;
}

async function answered(response) {
  const text = await response.text();
  let body = null;
  try {
    body = text ? JSON.parse(text) : null;
  } catch {
    body = { detail: `The service answered with status ${response.status} and no JSON.` };
  }
  if (!response.ok) throw new Problem(response.status, body);
  return body;
}

async function request(method, parts, { query, body, signal } = {}) {
  const limit = AbortSignal.timeout(PATIENCE_MS);
  let response;
  try {
    response = await fetch(address(parts, query), {
      method,
      headers: headers({
        Accept: "application/json",
        ...(body === undefined ? {} : { "Content-Type": "application/json" }),
      }),
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: signal ? AbortSignal.any([signal, limit]) : limit,
      cache: "no-store",
    });
  } catch (fault) {
    if (signal?.aborted) throw fault;
    throw new Problem(null, {
      detail: limit.aborted
        ? `The service did not answer within ${PATIENCE_MS / 1000} s.`
        : "The service cannot be reached.",
    });
  }
  return answered(response);
}

/** Read something; `signal` gives it up. */
export const get = (parts, query, signal) => request("GET", parts, { query, signal });

/** Have something done. */
export const post = (parts, body = {}) => request("POST", parts, { body });

/** Replace something. */
export const put = (parts, body, query) => request("PUT", parts, { body, query });
