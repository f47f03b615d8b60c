/** What is kept in chrome.storage.local: the settings, and how the connection is. */

import { DEFAULT_PORT, defaultName, readPort } from "./entries.js";

const DEFAULTS = { port: DEFAULT_PORT, token: "", profileId: "", profileName: "", status: {} };

/** A change of one of these is a reason to connect anew. */
const SETTINGS = ["port", "token", "profileName"];

let minting = null;
let saved = "";

/** For the worker: as `read`, and the profile gets its id on its first start. */
export async function load() {
  minting ??= mintProfile().finally(() => (minting = null));
  await minting;
  return read();
}

/** The settings, and the last `status`. */
export async function read() {
  const kept = await chrome.storage.local.get(DEFAULTS);
  return {
    ...kept,
    port: readPort(kept.port).port ?? DEFAULT_PORT,
    profileName: kept.profileName || (kept.profileId && defaultName(kept.profileId)),
  };
}

/** Keep a status for the popup; the same one again costs nothing. */
export async function save(status) {
  const text = JSON.stringify(status);
  if (text === saved) return;
  saved = text;
  await chrome.storage.local.set({ status });
}

export function touchesSettings(changes) {
  return SETTINGS.some((name) => name in changes);
}

async function mintProfile() {
  const { profileId } = await read();
  // The id alone: a name may be entered at this very moment.
  if (!profileId) await chrome.storage.local.set({ profileId: crypto.randomUUID() });
}
