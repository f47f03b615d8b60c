/** The dossiers of failed steps, each in a frame that may do nothing. */

import { useEffect, useState } from "preact/hooks";
import { accessToken, addressOf, ask } from "../data/api.ts";
import type { House } from "../data/house.ts";
import { clock, epoch } from "../logic/words.ts";
import { useCommands } from "./hooks.ts";
import { VirtualList } from "./VirtualList.tsx";

const ROW_PX = 48;

interface Failure {
  app: string;
  step: number;
  title: string;
  name: string;
  at: number;
}

export function Failures({ house }: { house: House }) {
  const failures = failuresOf(house);
  const find = () => Math.min(Math.max(house.selected.failures, 0), failures.length - 1);
  const selected = find();
  const pick = (to: number) =>
    house.select("failures", Math.max(0, Math.min(to, failures.length - 1)), false);
  useCommands(house, (command) => {
    if (command.do === "move") pick(find() + command.by);
    else if (command.do === "edge") pick(command.to === "first" ? 0 : failures.length - 1);
    else if (command.do === "open") document.querySelector<HTMLElement>("iframe.dossier")?.focus();
    else return false;
    return true;
  });
  const failure = failures[selected];
  if (!failure) {
    return (
      <div class="empty">
        <h2>No step has failed</h2>
        <p>
          When one does, its dossier stands here: what was tried, what the page and the server said.
        </p>
      </div>
    );
  }
  return (
    <div class="page">
      <div class="split failures">
        <div class="pane narrow">
          <VirtualList
            label="Failures"
            length={failures.length}
            rowHeight={ROW_PX}
            selected={selected}
            onSelect={pick}
            classOf={() => "failure"}
            row={(place) => (
              <>
                <span class="words">
                  {failures[place]!.title || `step ${failures[place]!.step}`}
                </span>
                <span class="quiet">
                  step {failures[place]!.step} · {clock(failures[place]!.at).slice(0, 8)}
                </span>
              </>
            )}
          />
        </div>
        <Dossier agent={house.agentId} failure={failure} />
      </div>
    </div>
  );
}

/** Newest first. */
function failuresOf(house: House): Failure[] {
  const apps = house.agent?.apps ?? [];
  return apps
    .flatMap((app) =>
      app.dossiers.map(({ step, title, uri, at }) => ({
        app: app.sessionId,
        step,
        title,
        name: uri.slice(uri.lastIndexOf("/") + 1),
        at: epoch(at),
      })),
    )
    .sort((one, other) => other.at - one.at);
}

/** A frame sends no token, so where one is needed the file is fetched for it. */
function Dossier({ agent, failure }: { agent: string; failure: Failure }) {
  const query = { agent, app: failure.app, name: failure.name };
  const [url, setUrl] = useState("");
  useEffect(() => {
    if (!accessToken.value) {
      setUrl(addressOf("file", query));
      return;
    }
    let made = "";
    const stopped = new AbortController();
    ask("file", query, stopped.signal)
      .then((response) => response.blob())
      .then((blob) => setUrl((made = URL.createObjectURL(blob))))
      .catch(() => {});
    return () => (stopped.abort(), URL.revokeObjectURL(made));
  }, [agent, failure.app, failure.name]);
  return url ? (
    <iframe
      class="dossier"
      key={url}
      src={url}
      sandbox=""
      title={`Dossier of step ${failure.step}`}
    />
  ) : null;
}
