/** The agents with what each of them runs, and the bookmarks' connection. */

import type { House } from "../data/house.ts";
import { bytes, count, seconds } from "../logic/words.ts";
import type { Agent, App, Overview } from "../model.ts";

const AGENT_TONES: Record<Agent["state"], string> = { live: "good", known: "quiet", ended: "off" };
const APP_TONES: Record<App["state"], string> = {
  running: "good",
  unhealthy: "bad",
  stopped: "quiet",
  none: "quiet",
  ended: "off",
};

export function Sessions({ house }: { house: House }) {
  const sessions = house.overview?.sessions ?? [];
  const ended = sessions.filter(({ state }) => state === "ended");
  const running = sessions.filter(({ state }) => state !== "ended");
  return (
    <nav class="side" aria-label="Sessions">
      <h2>
        Sessions <span class="quiet">{running.length || ""}</span>
      </h2>
      {running.length > 0 && <List sessions={running} house={house} />}
      {house.overview && !running.length && <p class="quiet note">No agent is connected.</p>}
      {ended.length > 0 && (
        <>
          <h2>Ended</h2>
          <List sessions={ended} house={house} />
        </>
      )}
      {house.overview && <Bookmarks told={house.overview.bookmarks} />}
    </nav>
  );
}

function List({ sessions, house }: { sessions: Agent[]; house: House }) {
  return (
    <ul class="sessions">
      {sessions.map((agent) => (
        <li key={agent.id}>
          <Session agent={agent} house={house} />
        </li>
      ))}
    </ul>
  );
}

function Session({ agent, house }: { agent: Agent; house: House }) {
  const idle = agent.idleSec + house.elapsedSec;
  const facts = [
    agent.state === "ended" ? "ended" : idle < 3 ? "active" : `idle ${seconds(Math.floor(idle))}`,
    ...(agent.memory ? [bytes(agent.memory)] : []),
    count(agent.calls, "call"),
  ];
  return (
    <button
      type="button"
      class={`session ${agent.state}`}
      aria-current={agent.id === house.agentId ? "true" : undefined}
      onClick={() => house.choose(agent.id)}
    >
      <span class="line">
        <i class={`dot ${AGENT_TONES[agent.state]}`} />
        <strong>{agent.client || "Unnamed client"}</strong>
        <span class="quiet id" title={agent.name ?? agent.id}>
          {shortName(agent.name ?? agent.id)}
        </span>
      </span>
      <span class="facts">{facts.join(" · ")}</span>
      {agent.apps.map((app) => (
        <AppLine
          key={app.sessionId}
          app={app}
          tone={agent.state === "live" ? APP_TONES[app.state] : "off"}
        />
      ))}
    </button>
  );
}

/** What tells one from the others: the beginning of a name says only how its client is joined. */
function shortName(name: string): string {
  return name.replace(/^[a-z]+[- ]/, "").slice(0, 8);
}

function AppLine({ app, tone }: { app: App; tone: string }) {
  const failures = app.dossiers.length;
  const ailing = app.state === "unhealthy" || app.state === "stopped";
  return (
    <>
      <span class="app">
        <i class={`dot ${tone}`} />
        <span class="url" title={app.url}>
          {app.url.replace(/^https?:\/\//, "").replace(/\/$/, "") || "no page yet"}
        </span>
      </span>
      {(app.intercept || failures > 0 || ailing) && (
        <span class="tags">
          {ailing && <span class="tag bad">{app.state}</span>}
          {app.intercept && <span class="tag">intercepted</span>}
          {failures > 0 && <span class="tag bad">{count(failures, "failure")}</span>}
        </span>
      )}
    </>
  );
}

function Bookmarks({ told }: { told: Overview["bookmarks"] }) {
  const connected = told.profiles.length > 0;
  return (
    <section class="bookmarks" aria-label="Bookmarks">
      <h2>Bookmarks</h2>
      <p class="line" title={told.state}>
        <i class={`dot ${connected ? "good" : "quiet"}`} />
        {connected ? `${count(told.profiles.length, "profile")} connected` : "No browser connected"}
      </p>
      <p class="quiet profile">{connected ? told.profiles.join(", ") : told.state}</p>
    </section>
  );
}
