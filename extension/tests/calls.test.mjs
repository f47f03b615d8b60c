import assert from "node:assert/strict";
import test from "node:test";

import { INVALID_PARAMS, METHOD_NOT_FOUND, readCall } from "../calls.js";

const WHOLE = { parentId: "1", index: 0, title: "A", url: "https://a.example/" };

const GOOD = [
  ["get", { ids: ["1", "2"] }, [["1", "2"]]],
  ["getChildren", { id: "1" }, ["1"]],
  ["getSubTree", { id: "1" }, ["1"]],
  ["getTree", {}, []],
  ["getTree", undefined, []],
  ["getRecent", { number: 5 }, [5]],
  ["search", { query: "ai" }, ["ai"]],
  ["search", { query: { url: "https://example.com/" } }, [{ url: "https://example.com/" }]],
  ["create", {}, [{}]],
  ["create", WHOLE, [WHOLE]],
  ["update", { id: "7", title: "B" }, ["7", { title: "B" }]],
  ["move", { id: "7", parentId: "2", index: 3 }, ["7", { parentId: "2", index: 3 }]],
  ["remove", { id: "7" }, ["7"]],
  ["removeTree", { id: "7" }, ["7"]],
];

for (const [method, params, args] of GOOD) {
  test(`${method} of ${JSON.stringify(params)} becomes Chrome's arguments`, () => {
    assert.deepEqual(readCall(method, params).args, args);
  });
}

test("a param that is null counts as absent", () => {
  assert.deepEqual(readCall("create", { title: "A", url: null }).args, [{ title: "A" }]);
});

const BAD = [
  ["get", {}, /needs ids/],
  ["get", { ids: [] }, /at least one/],
  ["get", { ids: [7] }, /list of ids/],
  ["get", { ids: "7" }, /list of ids/],
  ["getChildren", { id: 1 }, /must be a string/],
  ["getTree", { depth: 1 }, /takes: nothing/],
  ["getTree", [], /must be an object/],
  ["getTree", null, /must be an object/],
  ["getRecent", { number: 0 }, /from 1 up/],
  ["search", { query: {} }, /query, url and title/],
  ["search", { query: { colour: "red" } }, /query, url and title/],
  ["create", { index: -1 }, /from 0 up/],
  ["create", { index: 1.5 }, /whole number/],
  ["create", { parent: "1" }, /takes: parentId, index, title, url/],
  ["update", { title: "B" }, /needs id/],
  ["remove", { id: null }, /needs id/],
];

for (const [method, params, message] of BAD) {
  test(`${method} of ${JSON.stringify(params)} is refused with the reason`, () => {
    const { fault } = readCall(method, params);
    assert.equal(fault.code, INVALID_PARAMS);
    assert.match(fault.message, message);
  });
}

for (const method of ["toString", "__proto__", "onCreated", "getTree ", "", 7, null]) {
  test(`${JSON.stringify(method)} is no method`, () => {
    const { fault } = readCall(method, {});
    assert.equal(fault.code, METHOD_NOT_FOUND);
    assert.match(fault.message, /getTree, getRecent, search/);
  });
}
