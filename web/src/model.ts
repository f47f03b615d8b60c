/** What the server tells: the records of its JSON API. */

export const LANES = ["steps", "console", "network", "server", "packets", "other"] as const;
export type Lane = (typeof LANES)[number];

export const LEVELS = ["debug", "info", "warn", "error"] as const;
export type Level = (typeof LEVELS)[number];

export type Phase = "request" | "response" | "end" | "failed";

/** One moment of a timeline. */
export interface Row {
  id: string;
  /** The name by which tools refer to it, such as `console:123`. */
  key: string;
  lane: Lane;
  /** Epoch milliseconds. */
  at: number;
  level: Level;
  text: string;
  /** The exchange that it belongs to. */
  req?: string;
  phase?: Phase;
  method?: string;
  url?: string;
  status?: number;
  /** Chrome's name for what was loaded, such as `Document`. */
  type?: string;
  /** Milliseconds. */
  took?: number;
  app?: string;
  step?: number;
}

export interface Tab {
  tabId: string;
  targetId: string;
  url: string;
  title: string;
}

export interface DevServer {
  name: string;
  url: string;
  pid: number;
  status: string;
}

export interface Dossier {
  step: number;
  title: string;
  uri: string;
  at: number | string;
}

/** An app under test, with its browser and its servers. */
export interface App {
  sessionId: string;
  url: string;
  state: "running" | "stopped" | "unhealthy" | "none" | "ended";
  startedAt: number | string;
  idleSec: number;
  tabs: Tab[];
  servers: DevServer[];
  dossiers: Dossier[];
  intercept: boolean;
}

/** An agent's session. */
export interface Agent {
  id: string;
  /** As `pilothouse status` has it. A hub that is older than the page does not tell it. */
  name?: string;
  client: string;
  state: "live" | "known" | "ended";
  pid: number;
  memory: number;
  idleSec: number;
  calls: number;
  apps: App[];
}

export interface Overview {
  version: string;
  uptimeSec: number;
  url: string;
  services: Record<string, string>;
  bookmarks: { state: string; profiles: string[] };
  sessions: Agent[];
}

/** A step of the stream. `missed` counts by source what had left the rings before it was read. */
export interface Rows {
  rows: Row[];
  cursor: unknown;
  missed: Record<string, number>;
}

/** A row that belongs to another one. */
export interface Related extends Row {
  /** Whether only time speaks for it. */
  guess?: boolean;
  /** What speaks for it, unless both share an id. */
  why?: string;
}

export interface Moment {
  row: Row;
  facts: Record<string, unknown>;
  keys: string[];
  related: Related[];
}

export interface BodyText {
  text: string;
  mimeType: string;
  length: number;
  base64: boolean;
  cut: boolean;
}

/** A packet of the history as a row of its table. */
export interface Packet {
  id: number;
  time: string;
  direction: Side;
  method: string | null;
  server_name: string | null;
  /** Path and query. */
  url: string | null;
  status: number | null;
  duration_ms: number | null;
  length: number | null;
  /** Shared by the packets of an exchange. */
  group: number;
}

export interface PacketPage {
  packets: Packet[];
  total_count: number;
  has_more: boolean;
  next_cursor?: string;
  warning?: string;
}

export interface Header {
  name: string;
  value: string;
}

export type Side = "request" | "response";

export interface PacketDetail {
  id: number;
  method: string;
  url: string;
  status?: number;
  headers: Record<Side, Header[]>;
  body?: Record<Side, string>;
  encoding?: Partial<Record<Side, string>>;
  truncated?: Partial<Record<Side, { total?: number; next_offset?: number }>>;
  timing: { timestamp: string; duration_ms?: number };
  type: string;
  version: string;
  scheme: string;
  server: { name: string; ip: string; port: number };
  resend: boolean;
  modified: boolean;
  error?: string;
}
