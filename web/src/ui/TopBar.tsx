/** What runs here, and whether the page hears of it. */

import type { Connection, House } from "../data/house.ts";
import { seconds } from "../logic/words.ts";

const SAYS: Record<Connection, string> = {
  connecting: "Connecting",
  live: "Live",
  broken: "Reconnecting",
  gone: "Session ended",
  locked: "Locked",
};
const TONES: Record<Connection, string> = {
  connecting: "quiet",
  live: "good",
  broken: "bad",
  gone: "quiet",
  locked: "warn",
};

export function TopBar({ house }: { house: House }) {
  const { overview, connection } = house;
  return (
    <header class="top">
      <h1>
        <Wheel />
        Pilothouse
      </h1>
      {overview && (
        <span class="quiet">
          {overview.version} · up {seconds(overview.uptimeSec + house.elapsedSec)}
        </span>
      )}
      <Services services={overview?.services ?? {}} />
      <span class="spring" />
      <span class="state" role="status">
        <i class={`dot ${TONES[connection]}`} />
        {connection === "gone" && house.agent?.state === "known"
          ? "No worker now"
          : SAYS[connection]}
      </span>
      <button
        type="button"
        class="plain"
        aria-keyshortcuts="t"
        title="Light, dark, or as the system (t)"
        onClick={() => (house.theme.next(), house.changed())}
      >
        Theme: {house.theme.choice}
      </button>
      <button
        type="button"
        class="plain"
        aria-label="Keyboard"
        aria-keyshortcuts="?"
        title="Keyboard (?)"
        onClick={() => ((house.help = true), house.changed())}
      >
        ?
      </button>
    </header>
  );
}

/** A service that is on tells its address, one that is off the reason. */
function Services({ services }: { services: Record<string, string> }) {
  const names = Object.keys(services);
  if (!names.length) return null;
  return (
    <ul class="services" aria-label="Services">
      {names.map((name) => {
        const said = services[name]!;
        const on = !said.startsWith("off");
        return (
          <li key={name} title={said}>
            <i class={`dot ${on ? "good" : "quiet"}`} />
            <span>{name}</span>
            <span class="quiet">{on ? address(said) : "off"}</span>
          </li>
        );
      })}
    </ul>
  );
}

/** Without its scheme, and without what else is said of it. */
function address(said: string): string {
  return said.replace(/^\w+:\/\//, "").split(/[,\s]/, 1)[0]!;
}

export function Wheel() {
  return (
    <svg class="wheel" viewBox="0 0 32 32" aria-hidden="true">
      <circle cx="16" cy="16" r="9" />
      <circle cx="16" cy="16" r="2.5" />
      <path d="M16 2v28M2 16h28M6.1 6.1l19.8 19.8M25.9 6.1L6.1 25.9" />
    </svg>
  );
}
