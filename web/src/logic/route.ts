/** What the address says: `#network/agent-id`. */

import { VIEWS, type View } from "./keys.ts";

export interface Route {
  view: View;
  agent: string;
}

export function readRoute(hash: string): Route {
  const [view = "", agent = ""] = hash.replace(/^#/, "").split("/");
  return {
    view: VIEWS.find((name) => name === view) ?? "timeline",
    agent: decoded(agent),
  };
}

export function writeRoute({ view, agent }: Route): string {
  return agent ? `#${view}/${encodeURIComponent(agent)}` : `#${view}`;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return "";
  }
}
