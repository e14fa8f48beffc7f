// Signing in with a token, which then lies in a cookie no script can read.

import { ApiError, post } from "./api.js";
import { fill, h, svg } from "./dom.js";
import { errorNotice, field } from "./parts.js";

export function show(main, { title, signedIn }) {
  title("Sign in");
  const token = h("input", { class: "input mono", type: "password", autocomplete: "current-password", placeholder: "edl_…", required: true, spellcheck: "false" });
  const notice = h("div");
  const button = h("button", { class: "button main wide", type: "submit" }, "Sign in");
  const form = h(
    "form",
    { class: "card login" },
    h("div", { class: "login-brand" }, svg("svg", { viewBox: "0 0 32 32", "aria-hidden": "true" }, svg("path", { d: "M3 10c5-6 19-8 24 1 4 8-3 15-10 14-6-1-8-8-3-11 4-2 8 1 7 4" }), svg("path", { d: "M3 17c1-2 3-4 5-5" })), h("h1", { tabindex: "-1" }, "eddyline")),
    h("p", { class: "soft" }, "Paste a token to see your rules."),
    field("Token", token),
    notice,
    button,
    h("details", { class: "small soft" }, h("summary", null, "Where do I get one?"),
      h("p", null, "At its first start the server prints a link that signs you in. Later, tokens are made in the shell:"),
      h("pre", { class: "sql" }, h("code", null, "eddyline token add --role author --owner anna"))),
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true;
    try {
      await post("/session", { token: token.value.trim() });
      token.value = "";
      signedIn();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      fill(notice, errorNotice(error));
      token.setAttribute("aria-invalid", "true");
      token.focus();
    } finally {
      button.disabled = false;
    }
  });
  fill(main, form);
  return { focus: token };
}
