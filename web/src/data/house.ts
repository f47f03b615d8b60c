/** The state of the page. Components draw it; whatever changes it calls `changed`. */

import type { Command, View } from "../logic/keys.ts";
import { Listing, type Sieve } from "../logic/listing.ts";
import { readRoute, writeRoute } from "../logic/route.ts";
import { LANES, type Agent, type Lane, type Overview } from "../model.ts";
import * as api from "./api.ts";
import { Feed } from "./feed.ts";
import { ANY, follow } from "./stream.ts";
import { Theme } from "./theme.ts";

export type Connection = "connecting" | "live" | "broken" | "gone" | "locked";
export type Handler = (command: Command) => boolean;

const SHOWN_AT_FIRST = LANES.filter((lane) => lane !== "other");

export class House {
  readonly theme = new Theme();
  overview: Overview | undefined;
  connection: Connection = "connecting";
  trouble: api.Refused | undefined;
  view: View;
  agentId: string;
  feed = new Feed();
  listing: Listing;
  sieve: Sieve = { lanes: new Set(SHOWN_AT_FIRST), troubles: false, text: "" };
  /** How many rows were listed when the list was paused; undefined while it is live. */
  pausedAt: number | undefined;
  following = true;
  /** What is selected in each view: a row, an exchange, a packet, a dossier; -1 for nothing. */
  selected: Record<View, number> = { timeline: -1, network: -1, packets: -1, page: 0, failures: 0 };
  /** Whether the detail of the selected is open. */
  open = false;
  help = false;

  readonly #feeds = new Map<string, Feed>();
  readonly #listeners = new Set<() => void>();
  #handlers: Handler[] = [];
  #stop: () => void = () => {};
  #scheduled = false;
  #toldAt = 0;

  constructor() {
    const route = readRoute(location.hash);
    this.view = route.view;
    this.agentId = route.agent;
    this.listing = new Listing(this.feed.rows, this.sieve);
    addEventListener("hashchange", () => this.#routed());
    setInterval(() => this.changed(), 1_000);
  }

  get agent(): Agent | undefined {
    return this.overview?.sessions.find(({ id }) => id === this.agentId);
  }

  /** Whether there is more to show than that it is connecting. */
  get hasNews(): boolean {
    if (this.connection !== "connecting" && this.connection !== "live") return true;
    return this.feed.rows.next > 0 || this.overview?.sessions.length === 0;
  }

  /** Seconds since the overview was told: what counts by itself is no news, and is counted here. */
  get elapsedSec(): number {
    return this.overview ? (Date.now() - this.#toldAt) / 1000 : 0;
  }

  /** How many rows are listed, which stays as it is while the list is paused. */
  get shown(): number {
    return Math.min(this.pausedAt ?? this.listing.length, this.listing.length);
  }

  // What is seen

  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Have everything drawn anew with the next frame. */
  changed(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    requestAnimationFrame(() => {
      this.#scheduled = false;
      if (!this.listing.update()) this.changed();
      this.feed.exchanges.update();
      for (const listener of this.#listeners) listener();
    });
  }

  show(view: View): void {
    this.view = view;
    this.open = false;
    this.#address();
    this.changed();
  }

  sift(change: Partial<Sieve>): void {
    this.sieve = { ...this.sieve, ...change };
    this.#list();
    this.listing.update();
    this.changed();
  }

  toggleLane(lane: Lane): void {
    const lanes = new Set(this.sieve.lanes);
    if (!lanes.delete(lane)) lanes.add(lane);
    if (lanes.size) this.sift({ lanes });
  }

  pause(paused: boolean): void {
    this.pausedAt = paused ? this.listing.length : undefined;
    this.changed();
  }

  select(view: View, what: number, open = this.open): void {
    this.selected[view] = what;
    this.open = open && what >= 0;
    this.changed();
  }

  // Commands that only a part of the page can carry out

  /** Carry out commands, before those who came earlier, until the returned function is called. */
  handle(handler: Handler): () => void {
    this.#handlers = [handler, ...this.#handlers];
    return () => {
      this.#handlers = this.#handlers.filter((other) => other !== handler);
    };
  }

  carryOut(command: Command): boolean {
    return this.#handlers.some((handler) => handler(command));
  }

  // Where it comes from

  /** Begin, or begin anew with another token. */
  start(): void {
    this.#follow();
  }

  choose(agentId: string): void {
    if (agentId === this.agentId) return;
    this.agentId = agentId;
    this.open = false;
    this.selected = {
      timeline: -1,
      network: -1,
      packets: this.selected.packets,
      page: 0,
      failures: 0,
    };
    this.#address();
    this.#follow();
  }

  #follow(): void {
    this.#stop();
    const feed = this.#feeds.get(this.agentId) ?? new Feed();
    if (this.agentId) this.#feeds.set(this.agentId, feed);
    this.feed = feed;
    this.#list();
    this.connection = "connecting";
    this.#stop = follow(this.agentId || ANY, {
      cursor: () => feed.cursor,
      chosen: (id) => {
        this.agentId = id;
        this.#feeds.set(id, feed);
        this.#address();
      },
      overview: (told) => this.#told(told),
      rows: (told) => {
        feed.take(told);
        this.changed();
      },
      gone: () => this.#outlived(),
      live: () => {
        this.connection = "live";
        this.trouble = undefined;
        this.changed();
      },
      broken: (error) => this.#broken(error),
    });
    this.changed();
  }

  /** The agent has gone. What it left stays readable, and the others are heard of. */
  #outlived(): void {
    this.connection = "gone";
    this.#stop = follow("", {
      cursor: () => "",
      chosen: () => {},
      overview: (told) => this.#told(told),
      rows: () => {},
      gone: () => {},
      live: () => {},
      broken: (error) => this.#broken(error),
    });
    this.changed();
  }

  #told(overview: Overview): void {
    const before = this.agent?.state;
    this.overview = overview;
    this.#toldAt = Date.now();
    const ids = new Set(overview.sessions.map(({ id }) => id));
    for (const id of this.#feeds.keys())
      if (!ids.has(id) && id !== this.agentId) this.#feeds.delete(id);
    const live = overview.sessions.find(({ state }) => state === "live");
    const nothing = !this.feed.rows.next && this.agent?.state !== "live";
    if (nothing && (live || !this.agent)) {
      const best = live ?? overview.sessions[0];
      if (best) this.choose(best.id);
      else this.agentId = "";
    } else if (this.connection === "gone" && this.agent?.state === "live" && before === "known") {
      this.#follow(); // it has a worker again
    }
    this.changed();
  }

  #broken(error: api.Refused): void {
    this.connection = error.status === 401 || error.status === 403 ? "locked" : "broken";
    this.trouble = error;
    this.changed();
  }

  #list(): void {
    this.listing = new Listing(this.feed.rows, this.sieve);
    this.pausedAt = undefined;
    this.following = true;
  }

  #address(): void {
    history.replaceState(null, "", writeRoute({ view: this.view, agent: this.agentId }));
  }

  #routed(): void {
    const route = readRoute(location.hash);
    this.view = route.view;
    if (route.agent) this.choose(route.agent);
    this.changed();
  }
}
