import assert from "node:assert/strict";
import test from "node:test";

import {
  backOff,
  batchText,
  Conversation,
  eventText,
  failureText,
  mayOpen,
  resultText,
} from "../protocol.js";

const IDENTITY = {
  token: "0".repeat(26),
  profile: { id: "p", name: "Work" },
  boot: "b",
  version: "0.1.0",
  chrome: "156.0.0.0",
};
const WELCOME = { jsonrpc: "2.0", id: 0, result: { server: "pilothouse 0.1.0", heartbeatSec: 20 } };

const opened = (now = 0) => {
  const conversation = new Conversation(IDENTITY, 8765, now);
  conversation.hello();
  return conversation;
};
const hear = (conversation, message, now = 0) => conversation.receive(JSON.stringify(message), now);
const welcomed = (now = 0, welcome = WELCOME) => {
  const conversation = opened(now);
  hear(conversation, welcome, now);
  return conversation;
};
const errorOf = ({ reply }) => JSON.parse(reply).error;

test("the hello tells who is there", () => {
  const hello = JSON.parse(new Conversation(IDENTITY, 8765, 0).hello());
  assert.deepEqual(hello, { jsonrpc: "2.0", id: 0, method: "hello", params: IDENTITY });
});

test("the answer to the hello lets in and names the server", () => {
  const conversation = opened();
  assert.equal(conversation.welcomed, false);
  assert.deepEqual(hear(conversation, WELCOME), { welcome: { server: "pilothouse 0.1.0" } });
  assert.equal(conversation.welcomed, true);
});

test("a second welcome, and an answer to nothing, mean nothing", () => {
  const conversation = welcomed();
  assert.deepEqual(hear(conversation, WELCOME), {});
  assert.deepEqual(hear(conversation, { jsonrpc: "2.0", id: 7, result: {} }), {});
});

test("a refused hello does not let in", () => {
  const conversation = opened();
  hear(conversation, { jsonrpc: "2.0", id: 0, error: { code: 4401, message: "wrong" } });
  assert.equal(conversation.welcomed, false);
});

test("a call before the welcome is not carried out", () => {
  const heard = hear(opened(), { jsonrpc: "2.0", id: 1, method: "getTree" });
  assert.equal(heard.call, undefined);
  assert.match(errorOf(heard).message, /hello/);
});

test("a call after the welcome is to be carried out", () => {
  const heard = hear(welcomed(), { jsonrpc: "2.0", id: 1, method: "get", params: { ids: ["1"] } });
  assert.deepEqual(heard, { call: { id: 1, method: "get", params: { ids: ["1"] }, args: [["1"]] } });
});

test("faults of a call carry its id and JSON-RPC's codes", () => {
  const unknown = hear(welcomed(), { jsonrpc: "2.0", id: 5, method: "open" });
  assert.equal(JSON.parse(unknown.reply).id, 5);
  assert.equal(errorOf(unknown).code, -32601);
  assert.equal(errorOf(hear(welcomed(), { jsonrpc: "2.0", id: 6, method: "get" })).code, -32602);
});

test("what is not JSON-RPC is answered with what is wrong", () => {
  assert.equal(errorOf(welcomed().receive("{", 0)).code, -32700);
  assert.equal(errorOf(welcomed().receive("[]", 0)).code, -32600);
  assert.equal(errorOf(welcomed().receive("7", 0)).code, -32600);
});

test("each part of a list is heard by itself, and what is wrong with one spoils no other", () => {
  const call = (id) => ({ jsonrpc: "2.0", id, method: "getTree" });
  const beat = { jsonrpc: "2.0", method: "heartbeat" };
  const { batch } = hear(welcomed(), [call(1), 7, beat, { ...call(2), method: "open" }, call(3)]);
  assert.deepEqual(batch.map(({ call }) => call?.id), [1, undefined, undefined, undefined, 3]);
  assert.equal(errorOf(batch[1]).code, -32600);
  assert.deepEqual(batch[2], {});
  assert.equal(JSON.parse(batch[3].reply).id, 2);
});

test("the answers to a list are a list, and no answer is none", () => {
  assert.deepEqual(JSON.parse(batchText(['{"id":1}', undefined, '{"id":3}'])), [{ id: 1 }, { id: 3 }]);
  assert.equal(batchText([undefined]), undefined);
});

test("heartbeats and unknown notifications need no answer", () => {
  assert.deepEqual(hear(welcomed(), { jsonrpc: "2.0", method: "heartbeat" }), {});
  assert.deepEqual(hear(welcomed(), { jsonrpc: "2.0", method: "getTree" }), {});
});

test("a heartbeat is due every 20 s", () => {
  const conversation = welcomed(1_000);
  assert.equal(conversation.restFor(1_000), 20_000);
  assert.deepEqual(conversation.tick(20_999), {});
  assert.deepEqual(JSON.parse(conversation.tick(21_000).send), { jsonrpc: "2.0", method: "heartbeat" });
  assert.equal(conversation.restFor(21_000), 20_000);
});

for (const [wished, rest] of [[5, 5_000], [600, 25_000], [0.001, 1_000], ["20", 20_000], [-1, 20_000]]) {
  test(`a server that wishes a heartbeat of ${JSON.stringify(wished)} s gets one every ${rest} ms`, () => {
    const result = { server: "s", heartbeatSec: wished };
    assert.equal(welcomed(0, { ...WELCOME, result }).restFor(0), rest);
  });
}

test("45 s of silence end the socket, anything heard puts it off", () => {
  const conversation = welcomed();
  conversation.tick(20_000);
  conversation.tick(40_000);
  assert.equal(conversation.restFor(40_000), 5_000);
  hear(conversation, { jsonrpc: "2.0", method: "heartbeat" }, 44_000);
  assert.deepEqual(conversation.tick(45_000), {});
  conversation.tick(60_000);
  conversation.tick(80_000);
  assert.deepEqual(conversation.tick(89_000), { close: true });
  assert.equal(conversation.ended(undefined).error.key, "errorSilent");
});

test("a computer that slept past the silence closes, it does not beat", () => {
  assert.deepEqual(welcomed().tick(3_600_000), { close: true });
});

test("a server that does not welcome within 10 s is given up", () => {
  const conversation = opened();
  assert.equal(conversation.restFor(0), 10_000);
  assert.deepEqual(conversation.tick(9_999), {});
  assert.deepEqual(conversation.tick(10_000), { close: true });
  const { state, error } = conversation.ended(undefined);
  assert.equal(state, "waiting");
  assert.deepEqual(error, { key: "errorStranger", args: ["8765"], detail: "" });
});

const STEPS = [
  [4400, "waiting", "errorHello", 15_000],
  [4401, "refused", "errorToken", null],
  [4409, "replaced", "errorReplaced", null],
  [4429, "waiting", "errorTooMany", 15_000],
  [1001, "waiting", "errorLost", undefined],
  [1006, "waiting", "errorLost", undefined],
];

for (const [code, state, key, retryMs] of STEPS) {
  test(`after close code ${code} the state is ${state}`, () => {
    const step = welcomed().ended(code);
    assert.deepEqual([step.state, step.error.key, step.retryMs], [state, key, retryMs]);
  });
}

test("a lock-out lasts as long as the server says", () => {
  const conversation = opened();
  const error = { code: 4429, message: "slow down", data: { retryAfterSec: 59.5 } };
  hear(conversation, { jsonrpc: "2.0", id: 0, error });
  const step = conversation.ended(4429);
  assert.equal(step.retryMs, 59_500);
  assert.deepEqual(step.error, { key: "errorTooMany", args: ["60"], detail: "" });
});

test("a lock-out is never longer than an hour", () => {
  const conversation = opened();
  hear(conversation, { jsonrpc: "2.0", id: 0, error: { data: { retryAfterSec: 1e12 } } });
  assert.equal(conversation.ended(4429).retryMs, 3_600_000);
});

test("a hello that was not understood is shown with the server's own words", () => {
  const conversation = opened();
  hear(conversation, { jsonrpc: "2.0", id: 0, error: { code: 4400, message: "profile.id is missing" } });
  assert.equal(conversation.ended(4400).error.detail, "profile.id is missing");
});

test("a port where nothing listens is told from a stranger", () => {
  assert.equal(new Conversation(IDENTITY, 8765, 0).ended(1006).error.key, "errorUnreachable");
  assert.equal(opened().ended(1006).error.key, "errorStranger");
});

test("pauses double from 1 s to 15 s and stay there without a cap", () => {
  assert.deepEqual([0, 1, 2, 3, 4, 5].map(backOff), [1_000, 2_000, 4_000, 8_000, 15_000, 15_000]);
  assert.equal(backOff(100_000), 15_000);
});

const OPENS = [
  [{}, "woken", true],
  [{ state: "connected" }, "woken", true],
  [{ state: "waiting", retryAt: 99 }, "woken", true],
  [{ state: "waiting", retryAt: 101 }, "woken", false],
  [{ state: "waiting", retryAt: 101 }, "due", true],
  [{ state: "waiting", retryAt: 101 }, "started", false],
  [{ state: "waiting", retryAt: 101 }, "asked", true],
  [{ state: "refused" }, "woken", false],
  [{ state: "refused" }, "started", false],
  [{ state: "refused" }, "asked", true],
  [{ state: "replaced" }, "woken", false],
  [{ state: "replaced" }, "started", true],
  [{ state: "replaced" }, "asked", true],
];

for (const [status, occasion, may] of OPENS) {
  test(`${JSON.stringify(status)}, ${occasion}: ${may ? "opens" : "stays away"}`, () => {
    assert.equal(mayOpen(status, occasion, 100), may);
  });
}

test("answers carry the call's id, and null for nothing", () => {
  const answer = (result) => JSON.parse(resultText(3, result));
  assert.deepEqual(answer([{ id: "1" }]), { jsonrpc: "2.0", id: 3, result: [{ id: "1" }] });
  assert.deepEqual(answer(undefined), { jsonrpc: "2.0", id: 3, result: null });
});

test("a failure carries Chrome's own message", () => {
  const { error } = JSON.parse(failureText(3, new Error("Can't find bookmark for id.")));
  assert.deepEqual(error, { code: -32000, message: "Can't find bookmark for id." });
});

test("an event says whose it is", () => {
  assert.deepEqual(JSON.parse(eventText("removed", "7", { index: 0 }, true)), {
    jsonrpc: "2.0",
    method: "bookmark_event",
    params: { type: "removed", id: "7", data: { index: 0 }, own: true },
  });
});
