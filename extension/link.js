/** The socket to the server, around the pure protocol: opens it, keeps it, and opens it again. */

import { OwnWrites } from "./own.js";
import {
  backOff,
  batchText,
  Conversation,
  eventText,
  failureText,
  mayOpen,
  resultText,
} from "./protocol.js";

/** Events that come while a socket opens wait for it, up to so many. */
const MOST_WAITING = 1_000;
/** A burst of events while the server is away is not a burst of attempts. */
const LEAST_PAUSE_MS = 1_000;

const clock = () => performance.now();

export class Link {
  #bookmarks;
  #store;
  #about;
  #own = new OwnWrites(clock);
  #busy = false;
  #attempt = 0;
  #failures = 0;
  #failedAt = -Infinity;
  #socket = null;
  #conversation = null;
  #beat = 0;
  #retry = 0;
  #waiting = [];
  #told = Promise.resolve();

  /**
   * `bookmarks` is chrome.bookmarks; `store` loads the settings with the last status, and saves a
   * status; `about` is what the hello tells of this worker: boot, version, chrome.
   */
  constructor({ bookmarks, store, about }) {
    this.#bookmarks = bookmarks;
    this.#store = store;
    this.#about = about;
  }

  /** Connect, unless connected, or told to stay away. */
  wake() {
    if (this.#busy || clock() < this.#failedAt + LEAST_PAUSE_MS) return;
    this.#open("woken");
  }

  /** The browser or the extension started: who lost its place to another may try again. */
  started() {
    if (this.#socket === null) this.#open("started");
  }

  /** Connect anew at once, with the settings as they are now. */
  restart() {
    this.#drop();
    this.#failures = 0;
    this.#open("asked");
  }

  /** Tell the server of a bookmark event, after those before it. */
  tell(type, id, data) {
    this.wake();
    const own = this.#own.caused(type, id, data);
    this.#told = this.#told.then(async () => this.#sendEvent(eventText(type, id, data, await own)));
  }

  async #open(occasion) {
    // Before the first await: the start of the worker and an event that comes with it are two calls.
    this.#busy = true;
    const attempt = ++this.#attempt;
    const { status, ...settings } = await this.#store.load().catch((error) => {
      if (attempt === this.#attempt) this.#busy = false;
      throw error;
    });
    if (attempt !== this.#attempt) return;
    if (!settings.token) {
      this.#busy = false;
      this.#store.save({ state: "unpaired" });
    } else if (!mayOpen(status, occasion, Date.now())) {
      this.#busy = false;
    } else {
      // Between two attempts the last error stays to be read.
      if (status.state !== "waiting" || occasion === "asked") {
        this.#store.save({ state: "connecting" });
      }
      this.#connect(settings);
    }
  }

  #connect({ port, token, profileId, profileName }) {
    clearTimeout(this.#retry);
    const profile = { id: profileId, name: profileName };
    const conversation = new Conversation({ token, profile, ...this.#about }, port, clock());
    const socket = new WebSocket(`ws://127.0.0.1:${port}/`);
    this.#socket = socket;
    this.#conversation = conversation;
    // A socket that was let go of may still speak: only the present one is heard.
    const ifPresent = (act) => (event) => {
      if (socket === this.#socket) act(event);
    };
    socket.onopen = ifPresent(() => socket.send(conversation.hello()));
    socket.onmessage = ifPresent(({ data }) => this.#receive(data));
    socket.onclose = ifPresent(({ code }) => this.#ended(code));
    this.#keepTime();
  }

  #receive(data) {
    const { welcome, batch, ...heard } = this.#conversation.receive(data, clock());
    if (welcome) this.#welcomed(welcome.server);
    else if (batch) this.#reply(Promise.all(batch.map((part) => this.#answer(part))).then(batchText));
    else this.#reply(this.#answer(heard));
  }

  #welcomed(server) {
    this.#failures = 0;
    this.#store.save({ state: "connected", server });
    this.#keepTime();
    for (const text of this.#waiting.splice(0)) this.#socket.send(text);
  }

  /** What to say to what was heard, if anything; a call is carried out, once. */
  async #answer({ call, reply }) {
    if (!call) return reply;
    const { id, method, params, args } = call;
    try {
      const outcome = this.#bookmarks[method](...args);
      this.#own.track(method, params, outcome);
      return resultText(id, await outcome);
    } catch (error) {
      return failureText(id, error);
    }
  }

  /** An answer belongs to the socket that asked, to no later one. */
  async #reply(answer) {
    const socket = this.#socket;
    const text = await answer;
    if (text && socket.readyState === WebSocket.OPEN) socket.send(text);
  }

  #sendEvent(text) {
    if (this.#conversation?.welcomed) this.#socket.send(text);
    else if (this.#busy && this.#waiting.length < MOST_WAITING) this.#waiting.push(text);
  }

  #keepTime() {
    clearTimeout(this.#beat);
    this.#beat = setTimeout(() => {
      const { send, close } = this.#conversation.tick(clock());
      if (close) return this.#ended();
      if (send) this.#socket.send(send);
      this.#keepTime();
    }, this.#conversation.restFor(clock()));
  }

  #ended(code) {
    const { state, error, retryMs } = this.#conversation.ended(code);
    this.#drop();
    this.#failedAt = clock();
    const pause = retryMs === undefined ? backOff(this.#failures++) : retryMs;
    const retryAt = retryMs ? Date.now() + retryMs : undefined;
    this.#store.save({ state, error, retryAt });
    if (pause !== null) this.#retry = setTimeout(() => this.#open("due"), pause);
  }

  #drop() {
    clearTimeout(this.#beat);
    clearTimeout(this.#retry);
    this.#attempt += 1;
    this.#busy = false;
    this.#waiting = [];
    this.#conversation = null;
    const socket = this.#socket;
    this.#socket = null;
    socket?.close();
  }
}
