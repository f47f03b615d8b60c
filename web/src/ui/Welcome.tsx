/** Shown while there is no session: how to get one. */

import type { House } from "../data/house.ts";
import { Wheel } from "./TopBar.tsx";

export function Welcome({ house }: { house: House }) {
  if (house.connection === "broken" || !house.overview) {
    return (
      <div class="empty">
        <Wheel />
        <h2>{house.trouble ? house.trouble.message : "Connecting"}</h2>
        <p>{house.trouble?.hint || "The page goes on by itself once Pilothouse answers."}</p>
      </div>
    );
  }
  return (
    <div class="empty">
      <Wheel />
      <h2>No agent is connected</h2>
      <p>A session appears here as soon as an agent makes its first call.</p>
      <p>
        MCP is served at <code>{house.overview.url}/mcp</code>; the{" "}
        <a href="/status">status page</a> has the line to paste for each client.
      </p>
    </div>
  );
}
