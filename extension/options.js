/** The options: the profile's name, the server's port, and the pairing code, masked. */

import { readCode, readName, readPort, showCode } from "./entries.js";
import { read } from "./store.js";
import { localise, showProblem, showStatus, showText, t } from "./ui.js";

const element = (id) => document.getElementById(id);

localise();
// Before the first look, so that nothing changes between the two unseen.
chrome.storage.onChanged.addListener((changes) => {
  fill(Object.fromEntries(Object.entries(changes).map(([name, { newValue }]) => [name, newValue])));
});
fill(await read());
element("reveal").addEventListener("click", reveal);
element("settings").addEventListener("submit", save);
element("settings").addEventListener("input", () => element("saved").replaceChildren());
chrome.runtime.sendMessage("wake");

/** Show what is kept, or what of it has changed. */
function fill({ status, profileName, profileId, port, token }) {
  if (status !== undefined) showStatus(element("status"), status);
  if (profileName !== undefined) element("name").value = profileName;
  if (profileId !== undefined) element("profile-id").textContent = profileId;
  if (port !== undefined) element("port").value = port;
  if (token !== undefined) element("code").value = showCode(token);
}

function reveal() {
  const masked = element("code").type === "text";
  element("code").type = masked ? "password" : "text";
  element("reveal").setAttribute("aria-pressed", String(!masked));
}

async function save(event) {
  event.preventDefault();
  const port = readPort(element("port").value);
  // No code at all is a wish too: to be paired no more.
  const code = element("code").value.trim() ? readCode(element("code").value) : { code: "" };
  showProblem(element("port"), element("port-problem"), port);
  showProblem(element("code"), element("code-problem"), code);
  if (port.problem) return element("port").focus();
  if (code.problem) return element("code").focus();
  const profileName = readName(element("name").value, element("profile-id").textContent);
  await chrome.storage.local.set({ profileName, port: port.port, token: code.code });
  // Storage is silent about a value that it has already.
  fill({ profileName, port: port.port, token: code.code });
  showText(element("saved"), t("settingsSaved"));
}
