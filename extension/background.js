/** The service worker: every listener stands before the first await, so that each event wakes it. */

import { Link } from "./link.js";
import * as store from "./store.js";

/** Packed extensions may not be woken more often; it is the longest that a returned server waits. */
const ALARM_MINUTES = 0.5;

const link = new Link({
  bookmarks: chrome.bookmarks,
  store: { load: store.load, save },
  about: {
    boot: crypto.randomUUID(),
    version: chrome.runtime.getManifest().version,
    chrome: /Chrome\/([\d.]+)/.exec(navigator.userAgent)?.[1] ?? "",
  },
});

chrome.alarms.create("reconnect", { periodInMinutes: ALARM_MINUTES });
chrome.alarms.onAlarm.addListener(() => link.wake());
chrome.runtime.onStartup.addListener(() => link.started());
chrome.runtime.onInstalled.addListener(() => link.started());
chrome.runtime.onMessage.addListener((message) => {
  if (message === "reconnect") link.restart();
  else link.wake();
});
chrome.storage.onChanged.addListener((changes, area) => {
  if (area === "local" && store.touchesSettings(changes)) link.restart();
});

const { bookmarks } = chrome;
bookmarks.onCreated.addListener((id, node) => link.tell("created", id, node));
bookmarks.onChanged.addListener((id, change) => link.tell("changed", id, change));
bookmarks.onRemoved.addListener((id, removal) => link.tell("removed", id, removal));
bookmarks.onMoved.addListener((id, move) => link.tell("moved", id, move));
bookmarks.onChildrenReordered.addListener((id, order) => link.tell("reordered", id, order));
bookmarks.onImportBegan.addListener(() => link.tell("import_began", "", {}));
bookmarks.onImportEnded.addListener(() => link.tell("import_ended", "", {}));

link.wake();

function save(status) {
  // Only what a person must do something about is worth a mark on the toolbar.
  const calls = ["unpaired", "refused", "replaced"].includes(status.state);
  chrome.action.setBadgeText({ text: calls ? "!" : "" });
  return store.save(status);
}
