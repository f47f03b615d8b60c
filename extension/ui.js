/** What the popup and the options have in common: texts, the status, and problems beside fields. */

/** The text of a message in the user's language. */
export function t(key, args = []) {
  return chrome.i18n.getMessage(key, args);
}

/** Fill in every text that the page names by its key. */
export function localise() {
  document.documentElement.lang = t("languageTag");
  for (const element of document.querySelectorAll("[data-i18n]")) {
    showText(element, t(element.dataset.i18n));
  }
  for (const element of document.querySelectorAll("[data-i18n-label]")) {
    const label = t(element.dataset.i18nLabel);
    element.setAttribute("aria-label", label);
    element.title = label;
  }
}

/** Put a text into an element; what stands between backticks is code. */
export function showText(element, text) {
  const parts = text.split("`").map((part, at) => {
    if (at % 2 === 0) return part;
    const code = document.createElement("code");
    code.textContent = part;
    return code;
  });
  element.replaceChildren(...parts);
}

/** Show how the connection is in a `.status` section. */
export function showStatus(section, status) {
  const { tone, title, detail } = describe(status);
  section.dataset.tone = tone;
  showText(section.querySelector("[data-part=title]"), title);
  showText(section.querySelector("[data-part=detail]"), detail);
}

/** Show or clear what is wrong with a field; its message stands in `place`. */
export function showProblem(field, place, { problem, args }) {
  const wrong = problem !== undefined;
  field.setAttribute("aria-invalid", String(wrong));
  place.hidden = !wrong;
  showText(place, wrong ? t(problem, args) : "");
}

function describe({ state, server = "", error }) {
  const problem = error ? [t(error.key, error.args), error.detail].filter(Boolean).join(" ") : "";
  switch (state) {
    case "connected":
      return { tone: "good", title: t("stateConnected"), detail: server };
    case "waiting":
      return { tone: "bad", title: t("stateWaiting"), detail: problem };
    case "refused":
      return { tone: "bad", title: t("stateRefused"), detail: problem };
    case "replaced":
      return { tone: "bad", title: t("stateReplaced"), detail: problem };
    case "unpaired":
      return { tone: "busy", title: t("stateUnpaired"), detail: t("howToPair") };
    default:
      return { tone: "busy", title: t("stateConnecting"), detail: t("connectingDetail") };
  }
}
