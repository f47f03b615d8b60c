/** What the session's page looks like now. */

import { useEffect, useState } from "preact/hooks";
import * as api from "../data/api.ts";
import type { House } from "../data/house.ts";
import { clock } from "../logic/words.ts";
import type { App } from "../model.ts";
import { useCommands } from "./hooks.ts";

const BETWEEN_MS = 500;
/** The server takes two pictures a second at the most. */

export function PageView({ house }: { house: House }) {
  const apps = (house.agent?.apps ?? []).filter(({ state }) => state !== "ended");
  const app = apps[house.selected.page] ?? apps[0];
  const [tabId, setTabId] = useState("");
  const tab = app?.tabs.find((one) => one.tabId === tabId) ?? app?.tabs.at(-1);
  const picture = usePicture(house.agentId, app?.sessionId ?? "", tabId);
  useCommands(house, (command) => {
    if (command.do !== "move" || !apps.length) return false;
    house.select("page", (house.selected.page + command.by + apps.length) % apps.length, false);
    return true;
  });

  if (!app) {
    return (
      <div class="empty">
        <h2>No browser runs</h2>
        <p>The page appears here once the agent has started a session with startSession.</p>
      </div>
    );
  }
  return (
    <div class="page">
      <div class="toolbar">
        {apps.length > 1 && (
          <select
            aria-label="App"
            value={app.sessionId}
            onChange={(event) => house.select("page", event.currentTarget.selectedIndex, false)}
          >
            {apps.map((one) => (
              <option key={one.sessionId} value={one.sessionId}>
                {one.url || one.sessionId}
              </option>
            ))}
          </select>
        )}
        <Tabs app={app} current={tab?.tabId ?? ""} onChoose={setTabId} />
        <span class="address code">{tab?.url ?? app.url}</span>
        <span class="spring" />
        <span class="quiet">{picture.note}</span>
      </div>
      <div class="stage">
        {picture.url ? (
          <img
            src={picture.url}
            alt={`The page ${tab?.title || tab?.url || app.url} as it is now`}
          />
        ) : (
          <p class="quiet">{picture.note || "The first picture is on its way."}</p>
        )}
      </div>
    </div>
  );
}

interface TabsProps {
  app: App;
  current: string;
  onChoose: (tabId: string) => void;
}

function Tabs({ app, current, onChoose }: TabsProps) {
  if (app.tabs.length < 2) return null;
  return (
    <div class="chips" role="group" aria-label="Tabs">
      {app.tabs.map(({ tabId, title, url }) => (
        <button
          key={tabId}
          type="button"
          class="chip"
          aria-pressed={tabId === current}
          title={url}
          onClick={() => onChoose(tabId)}
        >
          {title || tabId}
        </button>
      ))}
    </div>
  );
}

/** Newest picture of a tab, asked for again and again while somebody looks. */
function usePicture(agent: string, app: string, tab: string): { url: string; note: string } {
  const [shown, setShown] = useState({ url: "", note: "" });
  useEffect(() => {
    const stopped = new AbortController();
    let url = "";
    let timer = 0;
    const take = async () => {
      try {
        if (!document.hidden) {
          const response = await api.ask("viewport", { agent, app, tab }, stopped.signal);
          if (response.status === 200) {
            const next = URL.createObjectURL(await response.blob());
            URL.revokeObjectURL(url);
            url = next;
            setShown({ url, note: clock(Date.now()).slice(0, 8) });
          }
        }
      } catch (error) {
        if (stopped.signal.aborted) return;
        setShown({ url, note: (error as Error).message });
      }
      timer = setTimeout(() => void take(), BETWEEN_MS);
    };
    if (app) void take();
    return () => {
      stopped.abort();
      clearTimeout(timer);
      URL.revokeObjectURL(url);
    };
  }, [agent, app, tab]);
  return shown;
}
