/** The whole page, and its keyboard. */

import { useEffect, useRef } from "preact/hooks";
import type { House } from "../data/house.ts";
import { accessToken } from "../data/api.ts";
import { commandOf, VIEWS, type Command, type Place, type View } from "../logic/keys.ts";
import { Failures } from "./Failures.tsx";
import { Help } from "./Help.tsx";
import { useHouse } from "./hooks.ts";
import { Network } from "./Network.tsx";
import { Packets } from "./Packets.tsx";
import { PageView } from "./PageView.tsx";
import { Sessions } from "./Sessions.tsx";
import { Timeline } from "./Timeline.tsx";
import { TokenForm } from "./TokenForm.tsx";
import { TopBar } from "./TopBar.tsx";
import { Welcome } from "./Welcome.tsx";

const TITLES: Record<View, string> = {
  timeline: "Timeline",
  network: "Network",
  packets: "Packets",
  page: "Page",
  failures: "Failures",
};
const PARTS = {
  timeline: Timeline,
  network: Network,
  packets: Packets,
  page: PageView,
  failures: Failures,
};

export function Dashboard({ house }: { house: House }) {
  useHouse(house);
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      const command = commandOf(event, placeOf(event.target));
      if (command && obey(house, command)) event.preventDefault();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, [house]);

  return (
    <div class="frame">
      <TopBar house={house} />
      <Sessions house={house} />
      <main class="main">
        <Tabs house={house} />
        <section class="view" role="tabpanel" id="view" aria-labelledby={`tab-${house.view}`}>
          <Content house={house} />
        </section>
      </main>
      {house.help && <Help onClose={() => ((house.help = false), house.changed())} />}
    </div>
  );
}

function Content({ house }: { house: House }) {
  if (house.connection === "locked") {
    return (
      <TokenForm
        title="This Pilothouse asks for an access token"
        hint={house.trouble?.hint || "It is a token of the identity provider that it trusts."}
        refused={accessToken.value ? house.trouble?.message : undefined}
        onToken={(token) => {
          accessToken.value = token;
          house.start();
        }}
      />
    );
  }
  if (house.view !== "packets" && !house.agent && !house.feed.rows.next)
    return <Welcome house={house} />;
  const Part = PARTS[house.view];
  return <Part house={house} key={house.agentId} />;
}

function Tabs({ house }: { house: House }) {
  const bar = useRef<HTMLDivElement>(null);
  const failures = house.agent?.apps.reduce((sum, app) => sum + app.dossiers.length, 0) ?? 0;
  const arrow = (event: KeyboardEvent) => {
    const by = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (!by) return;
    const next = VIEWS[(VIEWS.indexOf(house.view) + by + VIEWS.length) % VIEWS.length]!;
    house.show(next);
    bar.current?.querySelector<HTMLElement>(`#tab-${next}`)?.focus();
    event.preventDefault();
  };
  return (
    <div class="tabs" role="tablist" aria-label="Views" ref={bar} onKeyDown={arrow}>
      {VIEWS.map((view, n) => (
        <button
          key={view}
          type="button"
          role="tab"
          id={`tab-${view}`}
          aria-selected={house.view === view}
          aria-controls="view"
          aria-keyshortcuts={String(n + 1)}
          tabIndex={house.view === view ? 0 : -1}
          onClick={() => house.show(view)}
        >
          {TITLES[view]}
          {view === "failures" && failures > 0 && <span class="badge">{failures}</span>}
          <kbd aria-hidden="true">{n + 1}</kbd>
        </button>
      ))}
    </div>
  );
}

function placeOf(target: EventTarget | null): Place {
  if (!(target instanceof HTMLElement)) return "elsewhere";
  if (target.matches("input, textarea, select")) return "field";
  if (target.matches("button:not([role=tab]), a, summary")) return "button";
  return target.closest(".panel, dialog") ? "reading" : "elsewhere";
}

/** Carry out a command; false if nobody can, and the browser may do what it does. */
function obey(house: House, command: Command): boolean {
  switch (command.do) {
    case "view":
      house.show(command.view);
      return true;
    case "help":
      house.help = !house.help;
      break;
    case "theme":
      house.theme.next();
      break;
    case "troubles":
      house.sift({ troubles: !house.sieve.troubles });
      return true;
    case "pause":
      house.pause(house.pausedAt === undefined);
      return true;
    case "filter": {
      const field = document.querySelector<HTMLInputElement>(".view input");
      field?.focus();
      field?.select();
      return field !== null;
    }
    case "agent": {
      const sessions = house.overview?.sessions ?? [];
      const here = sessions.findIndex(({ id }) => id === house.agentId);
      const next = sessions[(here + command.by + sessions.length) % sessions.length];
      if (next) house.choose(next.id);
      return true;
    }
    case "close":
      return close(house);
    default:
      return house.carryOut(command);
  }
  house.changed();
  return true;
}

/** Close what lies on top: the help, the field that is typed in, the detail. */
function close(house: House): boolean {
  const active = document.activeElement;
  if (house.help) house.help = false;
  else if (active instanceof HTMLInputElement) focusList();
  else if (house.open) {
    house.open = false;
    focusList();
  } else return house.carryOut({ do: "close" });
  house.changed();
  return true;
}

function focusList(): void {
  const list = document.querySelector<HTMLElement>(".view [role=listbox]");
  if (list) list.focus();
  else (document.activeElement as HTMLElement | null)?.blur();
}
