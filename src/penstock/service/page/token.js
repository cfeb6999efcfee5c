// SPDX-License-Identifier: Apache-2.0
// The token that the service asks for. It comes in the address's fragment, which no browser sends anywhere, is kept for
// this tab alone, and leaves the address bar at once so that nobody copies it with a link.

const KEPT_AS = "penstock.token";

/** Take the token out of the address, if there is one; the rest of the fragment stays. */
export function takeTokenFromAddress() {
  const parts = location.hash.replace(/^#/, "").split("&");
  const given = parts.find((part) => part.startsWith("token="));
  if (given === undefined) return;
  const rest = parts.filter((part) => part !== given).join("&");
  history.replaceState(null, "", `${location.pathname}${location.search}${rest ? `#${rest}` : ""}`);
  keepToken(decodeURIComponent(given.slice("token=".length)));
}

/** The token of this tab; null: none was given. */
export function keptToken() {
  return sessionStorage.getItem(KEPT_AS);
}

/** Keep a token for this tab; an empty one forgets it. */
export function keepToken(token) {
  if (token) sessionStorage.setItem(KEPT_AS, token);
  else sessionStorage.removeItem(KEPT_AS);
}
