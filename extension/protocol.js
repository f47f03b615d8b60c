/**
 * What the extension says to the server and makes of what it hears. Pure: no socket, no clock, no
 * chrome.*. A Conversation is the life of one socket; the rest decides what comes between two.
 */

import { isObject, readCall } from "./calls.js";

const HELLO_ID = 0;
const PARSE_ERROR = -32700;
const INVALID_REQUEST = -32600;
const CHROME_FAILED = -32000;

/** From the start of a socket to the server's welcome. */
const WELCOME_MS = 10_000;
const HEARTBEAT_SEC = 20;
/** Chrome stops a worker after 30 s without messages, whatever the server wishes. */
const SLOWEST_HEARTBEAT_SEC = 25;
const QUICKEST_HEARTBEAT_MS = 1_000;
const SILENCE_MS = 45_000;

const FIRST_RETRY_MS = 1_000;
const LAST_RETRY_MS = 15_000;
/** However long a server wishes to be left alone. */
const LONGEST_LOCK_SEC = 3_600;

const HEARTBEAT = notification("heartbeat");

/** How long to wait before the next attempt, after so many that failed in a row. */
export function backOff(failures) {
  return Math.min(FIRST_RETRY_MS * 2 ** Math.min(failures, 10), LAST_RETRY_MS);
}

/**
 * Whether to open a socket. `occasion` is "woken" (an alarm or an event), "due" (the pause between
 * two attempts is over), "started" (the browser or the extension) or "asked" (a person). Two Chromes
 * with the same profile id would take over from each other for ever, so the one that lost waits for
 * its next start, not for its next alarm.
 */
export function mayOpen({ state, retryAt = 0 }, occasion, now) {
  if (occasion === "asked" || occasion === "due") return true;
  if (state === "refused") return false;
  if (state === "replaced") return occasion === "started";
  return now >= retryAt;
}

/** The text of a `bookmark_event`. Imports have no id. */
export function eventText(type, id, data, own) {
  return notification("bookmark_event", { type, id, data, own });
}

export function resultText(id, result) {
  return JSON.stringify({ jsonrpc: "2.0", id, result: result ?? null });
}

/** The answers to the calls of a list; those that have none are left out. */
export function batchText(texts) {
  const said = texts.filter(Boolean);
  return said.length > 0 ? `[${said.join(",")}]` : undefined;
}

/** The answer to a call that Chrome did not carry out, with Chrome's own message. */
export function failureText(id, error) {
  return errorText(id, CHROME_FAILED, String(error?.message ?? error));
}

export class Conversation {
  #identity;
  #port;
  #startedAt;
  #heardAt;
  #beatAt;
  #heartbeatMs = HEARTBEAT_SEC * 1_000;
  #welcomed = false;
  #opened = false;
  #silent = false;
  #refusal = null;

  /** `identity` is what the hello tells: token, profile, boot, version, chrome. */
  constructor(identity, port, now) {
    this.#identity = identity;
    this.#port = port;
    this.#startedAt = this.#heardAt = this.#beatAt = now;
  }

  get welcomed() {
    return this.#welcomed;
  }

  /** The first message, once the socket is open. */
  hello() {
    this.#opened = true;
    return JSON.stringify({ jsonrpc: "2.0", id: HELLO_ID, method: "hello", params: this.#identity });
  }

  /**
   * What a message means: `{ welcome: { server } }`, `{ call: { id, method, params, args } }`,
   * `{ reply }`, a text to send back, or `{}` when there is nothing to do; `{ batch }` holds what
   * each part of a list means.
   */
  receive(text, now) {
    this.#heardAt = now;
    let message;
    try {
      message = JSON.parse(text);
    } catch {
      return { reply: errorText(null, PARSE_ERROR, "Not JSON.") };
    }
    if (!Array.isArray(message) || message.length === 0) return this.#hear(message, now);
    return { batch: message.map((part) => this.#hear(part, now)) };
  }

  /** Milliseconds until `tick` has something to say. */
  restFor(now) {
    return Math.max(0, this.#nextDue() - now);
  }

  /** `{ send }`, a heartbeat; `{ close: true }` when the other side is gone; or `{}`. */
  tick(now) {
    if (now < this.#nextDue()) return {};
    if (!this.#welcomed || now >= this.#heardAt + SILENCE_MS) {
      this.#silent = true;
      return { close: true };
    }
    this.#beatAt = now;
    return { send: HEARTBEAT };
  }

  /**
   * What follows the end of the socket: the state to be in, the error to show (a message's key, what
   * fills its gaps, and the server's own words where ours cannot say it all), and when to try again:
   * `retryMs`, null for never, undefined for the back-off.
   */
  ended(code) {
    const { message = "", retryAfterSec = LAST_RETRY_MS / 1_000 } = this.#refusal ?? {};
    const failed = (state, retryMs, key, args = [], detail = "") => ({
      state,
      retryMs,
      error: { key, args: args.map(String), detail },
    });
    switch (code) {
      case 4400:
        return failed("waiting", LAST_RETRY_MS, "errorHello", [], message);
      case 4401:
        return failed("refused", null, "errorToken");
      case 4409:
        return failed("replaced", null, "errorReplaced");
      case 4429:
        return failed("waiting", retryAfterSec * 1_000, "errorTooMany", [Math.ceil(retryAfterSec)]);
    }
    if (this.#welcomed) return failed("waiting", undefined, this.#silent ? "errorSilent" : "errorLost");
    if (!this.#opened) return failed("waiting", undefined, "errorUnreachable", [this.#port]);
    return failed("waiting", undefined, "errorStranger", [this.#port], message);
  }

  #nextDue() {
    if (!this.#welcomed) return this.#startedAt + WELCOME_MS;
    return Math.min(this.#beatAt + this.#heartbeatMs, this.#heardAt + SILENCE_MS);
  }

  #hear(message, now) {
    if (!isObject(message)) {
      return { reply: errorText(null, INVALID_REQUEST, "A message is an object, or a list of them.") };
    }
    if (message.method === undefined) return this.#hearAnswer(message, now);
    if (message.id === undefined) return {};
    return this.#hearCall(message);
  }

  #hearAnswer({ id, result, error }, now) {
    if (id !== HELLO_ID || this.#welcomed) return {};
    if (isObject(error)) {
      const retryAfterSec = seconds(error.data?.retryAfterSec, LONGEST_LOCK_SEC);
      this.#refusal = { message: String(error.message ?? ""), retryAfterSec };
      return {};
    }
    if (!isObject(result)) return {};
    this.#welcomed = true;
    this.#beatAt = now;
    const wished = seconds(result.heartbeatSec, SLOWEST_HEARTBEAT_SEC) ?? HEARTBEAT_SEC;
    this.#heartbeatMs = Math.max(wished * 1_000, QUICKEST_HEARTBEAT_MS);
    return { welcome: { server: String(result.server ?? "") } };
  }

  #hearCall({ id, method, params }) {
    if (!this.#welcomed) {
      return { reply: errorText(id, INVALID_REQUEST, "Answer the hello first, then ask.") };
    }
    const call = readCall(method, params);
    if (call.fault) return { reply: errorText(id, call.fault.code, call.fault.message) };
    return { call: { id, ...call } };
  }
}

function seconds(value, most) {
  return Number.isFinite(value) && value > 0 ? Math.min(value, most) : undefined;
}

function notification(method, params) {
  return JSON.stringify({ jsonrpc: "2.0", method, params });
}

function errorText(id, code, message) {
  return JSON.stringify({ jsonrpc: "2.0", id, error: { code, message } });
}
