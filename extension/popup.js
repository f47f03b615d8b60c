/** The popup: how the connection is, pairing, and a way to connect anew. */

import { readCode } from "./entries.js";
import { read } from "./store.js";
import { localise, showProblem, showStatus } from "./ui.js";

const element = (id) => document.getElementById(id);

localise();
// Before the first look, so that nothing changes between the two unseen.
chrome.storage.onChanged.addListener(show);
await show();
// On the field if there is one to fill in: focusing what is hidden does nothing.
element("code").focus();
element("options").addEventListener("click", () => chrome.runtime.openOptionsPage());
element("reconnect").addEventListener("click", reconnect);
element("pairing").addEventListener("submit", pair);
element("code").addEventListener("input", () => showProblem(element("code"), element("problem"), {}));
// A worker that sleeps is woken, so that what the popup shows is true a moment later.
chrome.runtime.sendMessage("wake");

async function show() {
  const { status, port, profileName } = await read();
  const unpaired = status.state === "unpaired";
  showStatus(element("status"), status);
  element("address").textContent = `127.0.0.1:${port}`;
  element("profile").textContent = profileName;
  element("pairing").hidden = !unpaired && status.state !== "refused";
  element("reconnect").hidden = unpaired || status.state === "connecting";
  element("reconnect").classList.toggle("primary", ["waiting", "replaced"].includes(status.state));
}

function reconnect() {
  chrome.runtime.sendMessage("reconnect");
}

async function pair(event) {
  event.preventDefault();
  const entry = readCode(element("code").value);
  showProblem(element("code"), element("problem"), entry);
  if (entry.problem) return element("code").focus();
  const { token } = await read();
  // Storage is silent about a value that it has already; a new one is itself the signal.
  if (token === entry.code) reconnect();
  else await chrome.storage.local.set({ token: entry.code });
  element("code").value = "";
}
