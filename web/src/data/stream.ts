/** The live stream: read with fetch, so that a token can be sent, and taken up after a break. */

import { Events } from "../logic/sse.ts";
import type { Overview, Rows } from "../model.ts";
import { ask, Refused } from "./api.ts";

export interface Listener {
  /** Where to go on, asked before each connection. */
  cursor(): string;
  /** Whose rows will come, where it was left to the server. */
  chosen(agent: string): void;
  overview(told: Overview): void;
  rows(told: Rows): void;
  /** The agent has ended; the stream does not come back. */
  gone(): void;
  live(): void;
  broken(error: Refused): void;
}

const FIRST_WAIT_MS = 250;
const LONGEST_WAIT_MS = 5_000;
const SILENCE_MS = 40_000;
/** A heartbeat comes every 15 s; what is silent for longer is dead, such as after a suspend. */

/** An agent that is live, whichever it is. */
export const ANY = "*";

/** Follow an agent until the returned function is called; with an empty id, only the overview. */
export function follow(agent: string, listener: Listener): () => void {
  const stopped = new AbortController();
  void run(agent, listener, stopped.signal);
  return () => stopped.abort();
}

async function run(agent: string, listener: Listener, stopped: AbortSignal): Promise<void> {
  let wait = FIRST_WAIT_MS;
  const live = () => {
    wait = FIRST_WAIT_MS;
    listener.live();
  };
  const chosen = (id: string) => {
    if (agent === ANY) listener.chosen(id);
    agent = id; // after a break it is the same one
  };
  for (; !stopped.aborted; wait = Math.min(wait * 2, LONGEST_WAIT_MS)) {
    try {
      if (await connection(agent, { ...listener, live, chosen }, stopped)) return;
    } catch (error) {
      if (stopped.aborted) return;
      const refused = error instanceof Refused ? error : new Refused(0, "The stream broke off.");
      listener.broken(refused);
      if (refused.status === 404) return listener.gone();
      if (refused.status === 401 || refused.status === 403) return;
    }
    await pause(wait, stopped);
  }
}

/** True when there is nothing more to come. */
async function connection(
  agent: string,
  listener: Listener,
  stopped: AbortSignal,
): Promise<boolean> {
  const silent = new AbortController();
  const query = { agent, cursor: listener.cursor() };
  const response = await ask("stream", query, AbortSignal.any([stopped, silent.signal]));
  listener.live();
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  const events = new Events();
  try {
    for (;;) {
      const watchdog = setTimeout(() => silent.abort(), SILENCE_MS);
      const { value, done } = await reader.read().finally(() => clearTimeout(watchdog));
      if (done) throw new Refused(0, "The stream ended.");
      for (const { event, data } of events.push(value)) {
        if (stopped.aborted) return true;
        if (event === "rows") listener.rows(JSON.parse(data) as Rows);
        else if (event === "overview") listener.overview(JSON.parse(data) as Overview);
        else if (event === "agent") listener.chosen(JSON.parse(data).agent as string);
        else if (event === "gone") {
          listener.gone();
          return true;
        }
      }
    }
  } finally {
    // The server has more to tell; a browser has only six connections for all of it.
    silent.abort();
  }
}

function pause(ms: number, stopped: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    stopped.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
}
