/** The server's JSON API. */

import type { BodyText, Moment, PacketDetail, PacketPage } from "../model.ts";

/** What the server refused, in its own words. */
export class Refused extends Error {
  readonly status: number;
  readonly hint: string;
  /** Of what is wrong in a filter; -1 where that is not the trouble. */
  readonly position: number;

  constructor(status: number, message: string, hint = "", position = -1) {
    super(message);
    this.status = status;
    this.hint = hint;
    this.position = position;
  }
}

/** A secret that the person typed, for as long as the browser's tab is open. */
class Kept {
  readonly #name: string;
  constructor(name: string) {
    this.#name = `pilothouse.${name}`;
  }
  get value(): string {
    return sessionStorage.getItem(this.#name) ?? "";
  }
  set value(text: string) {
    if (text) sessionStorage.setItem(this.#name, text);
    else sessionStorage.removeItem(this.#name);
  }
}

export const accessToken = new Kept("access");
export const interceptToken = new Kept("intercept");

type Query = Record<string, string | number | undefined>;

export async function ask(
  path: string,
  query: Query = {},
  signal?: AbortSignal,
): Promise<Response> {
  const headers: Record<string, string> = {};
  if (accessToken.value) headers["authorization"] = `Bearer ${accessToken.value}`;
  if (interceptToken.value) headers["x-intercept-token"] = interceptToken.value;
  let response: Response;
  try {
    response = await fetch(addressOf(path, query), {
      headers,
      signal: signal ?? null,
      cache: "no-store",
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Refused(0, "Pilothouse does not answer.", "It may have been stopped.");
  }
  if (!response.ok) throw await refusal(response);
  return response;
}

export function addressOf(path: string, query: Query): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== "");
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return text ? `/api/${path}?${text}` : `/api/${path}`;
}

async function refusal(response: Response): Promise<Refused> {
  const said = await response.json().catch(() => ({}));
  const error = said?.error ?? {};
  const message =
    typeof error === "string"
      ? error
      : (error.message ?? `The server answered ${response.status}.`);
  const details = error.data ?? error.details ?? error;
  const position = typeof details.position === "number" ? details.position : -1;
  return new Refused(response.status, message, error.hint ?? details.hint ?? "", position);
}

async function json<T>(path: string, query: Query = {}, signal?: AbortSignal): Promise<T> {
  return (await ask(path, query, signal)).json() as Promise<T>;
}

export const moment = (agent: string, id: string, signal?: AbortSignal) =>
  json<Moment>("moment", { agent, id }, signal);

export const body = (agent: string, req: string, signal?: AbortSignal) =>
  json<BodyText>("body", { agent, req }, signal);

const COLUMNS = "id,time,direction,method,server_name,url,status,duration_ms,length,group";
const MOST_BODY = 262_144;

export const packets = (filter: string, after: string, signal?: AbortSignal) =>
  json<PacketPage>("packets", { filter, after, limit: 200, fields: COLUMNS }, signal);

export const packet = (id: number, signal?: AbortSignal) =>
  json<PacketDetail>(`packets/${id}`, { include_body: "true", max_bytes: MOST_BODY }, signal);

export const checkFilter = (text: string, signal?: AbortSignal) =>
  json<unknown>("filter", { text }, signal);
