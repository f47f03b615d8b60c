import assert from "node:assert/strict";
import test from "node:test";

import { OwnWrites } from "../own.js";

/** Own writes under a clock that stands until it is moved. */
function rig() {
  const clock = { ms: 1_000 };
  return { clock, own: new OwnWrites(() => clock.ms) };
}

/** A call under way, as Chrome gives it. */
function start(own, method, params) {
  const { promise, resolve, reject } = deferred();
  own.track(method, params, promise);
  return { answer: resolve, fail: () => reject(new Error("Can't find bookmark for id.")) };
}

function deferred() {
  const parts = {};
  parts.promise = new Promise((resolve, reject) => Object.assign(parts, { resolve, reject }));
  return parts;
}

const tick = () => new Promise(setImmediate);

const NEW = { parentId: "1", title: "A", url: "https://a.example/" };

test("an event before the answer of its call is own", async () => {
  const { own } = rig();
  const call = start(own, "create", NEW);
  const verdict = own.caused("created", "7", { id: "7", ...NEW });
  call.answer({ id: "7", ...NEW });
  assert.equal(await verdict, true);
});

test("an event after the answer of its call is own", async () => {
  const { own } = rig();
  start(own, "create", NEW).answer({ id: "7", ...NEW });
  await tick();
  assert.equal(await own.caused("created", "7", { id: "7", ...NEW }), true);
});

test("the same bookmark made by hand meanwhile is not own", async () => {
  const { own } = rig();
  const call = start(own, "create", NEW);
  const byHand = own.caused("created", "8", { id: "8", ...NEW });
  const ours = own.caused("created", "7", { id: "7", ...NEW });
  call.answer({ id: "7", ...NEW });
  assert.deepEqual([await byHand, await ours], [false, true]);
});

test("an event while nothing runs is told at once, and not own", async () => {
  const { own } = rig();
  assert.equal(await own.caused("created", "7", NEW), false);
});

test("an edit of another node waits for nobody", async () => {
  const { own } = rig();
  start(own, "update", { id: "7", title: "B" });
  start(own, "move", { id: "9", parentId: "2" });
  assert.equal(await own.caused("changed", "8", { title: "B" }), false);
  assert.equal(await own.caused("moved", "7", { parentId: "2", index: 0 }), false);
  assert.equal(await own.caused("removed", "9", {}), false);
});

test("a call that failed caused nothing", async () => {
  const { own } = rig();
  const call = start(own, "remove", { id: "7" });
  const verdict = own.caused("removed", "7", { parentId: "1" });
  call.fail();
  assert.equal(await verdict, false);
});

test("both events of an update of title and address are own", async () => {
  const { own } = rig();
  const call = start(own, "update", { id: "7", title: "B", url: "https://b.example" });
  const first = own.caused("changed", "7", { title: "B", url: "https://a.example/" });
  call.answer({ id: "7", title: "B", url: "https://b.example/" });
  await tick();
  const second = own.caused("changed", "7", { title: "B", url: "https://b.example/" });
  assert.deepEqual([await first, await second], [true, true]);
});

test("an update of the address alone is told from an edit of the title by hand", async () => {
  const { own } = rig();
  const call = start(own, "update", { id: "7", url: "https://b.example" });
  call.answer({ id: "7", title: "A", url: "https://b.example/" });
  await tick();
  assert.equal(await own.caused("changed", "7", { title: "Mine", url: "https://a.example/" }), false);
  assert.equal(await own.caused("changed", "7", { title: "A", url: "https://b.example/" }), true);
});

test("an edit by hand of a node that was just renamed is not own", async () => {
  const { own } = rig();
  start(own, "update", { id: "7", title: "B" }).answer({ id: "7", title: "B" });
  await tick();
  assert.equal(await own.caused("changed", "7", { title: "Mine" }), false);
});

test("a move is own where it went to, and once", async () => {
  const { own } = rig();
  start(own, "move", { id: "7", parentId: "2" }).answer({ id: "7", parentId: "2", index: 4 });
  await tick();
  assert.equal(await own.caused("moved", "7", { parentId: "1", index: 0 }), false);
  assert.equal(await own.caused("moved", "7", { parentId: "2", index: 4 }), true);
  assert.equal(await own.caused("moved", "7", { parentId: "2", index: 4 }), false);
});

for (const method of ["remove", "removeTree"]) {
  test(`${method}, which answers nothing, is own`, async () => {
    const { own } = rig();
    const call = start(own, method, { id: "7" });
    const verdict = own.caused("removed", "7", { parentId: "1" });
    call.answer(undefined);
    assert.equal(await verdict, true);
  });
}

test("parallel calls are told apart", async () => {
  const { own } = rig();
  const calls = Array.from({ length: 16 }, () => start(own, "create", NEW));
  const verdicts = calls.map((_, at) => own.caused("created", `${at}`, NEW));
  const byHand = own.caused("created", "99", NEW);
  calls.forEach((call, at) => call.answer({ id: `${15 - at}`, ...NEW }));
  assert.deepEqual(await Promise.all(verdicts), Array(16).fill(true));
  assert.equal(await byHand, false);
});

test("an event does not wait for calls that began after it", async () => {
  const { own } = rig();
  const call = start(own, "create", NEW);
  const verdict = own.caused("created", "7", NEW);
  start(own, "create", NEW);
  call.answer({ id: "7", ...NEW });
  assert.equal(await verdict, true);
});

test("a call that changed nothing does not claim a later event", async () => {
  const { own, clock } = rig();
  start(own, "update", { id: "7", title: "B" }).answer({ id: "7", title: "B" });
  await tick();
  clock.ms += 2_001;
  assert.equal(await own.caused("changed", "7", { title: "B" }), false);
});

test("a slow call still claims its event", async () => {
  const { own, clock } = rig();
  const call = start(own, "removeTree", { id: "7" });
  clock.ms += 60_000;
  const verdict = own.caused("removed", "7", {});
  call.answer();
  assert.equal(await verdict, true);
});

test("reading causes nothing", async () => {
  const { own } = rig();
  start(own, "getTree", {});
  assert.equal(await own.caused("created", "7", NEW), false);
});
