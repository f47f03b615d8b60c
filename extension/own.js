/**
 * Tells which bookmark events were caused by calls of the server. Pure but for promises.
 *
 * Chrome does not say who caused an event, and an event may come before or after the answer of its
 * call. So an event that a running call may have caused waits for that call, and is then compared
 * with what the call really did: an equal edit by hand, of another node, is never taken for it.
 */

/** The event that each writing method causes. */
const CAUSED = {
  create: "created",
  update: "changed",
  move: "moved",
  remove: "removed",
  removeTree: "removed",
};

/** How long after the answer an event may still come. A call that changed nothing has no event. */
const GRACE_MS = 2_000;

export class OwnWrites {
  #calls = new Set();
  #now;

  constructor(now) {
    this.#now = now;
  }

  /** Remember a call under way; `outcome` is the promise that Chrome gave for it. */
  track(method, params, outcome) {
    const type = CAUSED[method];
    if (type === undefined) return;
    this.#forgetOld();
    const call = { type, params, node: null, endedAt: Infinity };
    call.ended = outcome.then(
      (node) => {
        call.node = node ?? { id: params.id };
        call.endedAt = this.#now();
      },
      () => this.#calls.delete(call),
    );
    this.#calls.add(call);
  }

  /** Whether a call caused this event; resolves when the calls that may have caused it ended. */
  async caused(type, id, data) {
    this.#forgetOld();
    const suspects = [...this.#calls].filter(
      (call) => call.type === type && (type === "created" || call.params.id === id),
    );
    if (suspects.length === 0) return false;
    await Promise.all(suspects.map((call) => call.ended));
    const culprit = suspects.find((call) => call.node !== null && didThis(call, id, data));
    if (culprit === undefined) return false;
    // An update of title and address is two events; everything else happens once.
    if (type !== "changed") this.#calls.delete(culprit);
    return true;
  }

  #forgetOld() {
    const oldest = this.#now() - GRACE_MS;
    for (const call of this.#calls) if (call.endedAt < oldest) this.#calls.delete(call);
  }
}

function didThis({ type, params, node }, id, data) {
  if (node.id !== id) return false;
  if (type === "moved") return data.parentId === node.parentId && data.index === node.index;
  if (type !== "changed") return true;
  // Chrome sets the title first, so that the first of two events still has the old address.
  return params.title === undefined ? data.url === node.url : data.title === node.title;
}
