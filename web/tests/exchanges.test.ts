import assert from "node:assert/strict";
import test from "node:test";

import { Exchanges } from "../src/logic/exchanges.ts";
import { Rows } from "../src/logic/rows.ts";
import { axis, bar, position, roundStep, ticks } from "../src/logic/waterfall.ts";
import type { Phase, Row } from "../src/model.ts";

function told(rows: Rows, req: string, phase: Phase, at: number, change: Partial<Row> = {}): void {
  const id = `tab:${rows.next}`;
  rows.push({
    id,
    key: `request:${req}`,
    lane: "network",
    at,
    level: "info",
    text: "",
    req,
    phase,
    ...change,
  });
}

test("request, response and end are one exchange", () => {
  const rows = new Rows();
  told(rows, "1", "request", 10);
  told(rows, "2", "request", 11);
  told(rows, "1", "response", 20, { status: 200 });
  told(rows, "1", "end", 25);
  told(rows, "2", "failed", 30);
  const exchanges = new Exchanges(rows);
  exchanges.update();
  assert.equal(exchanges.length, 2);
  const first = { row: 0, last: 3, began: 10, answered: 20, ended: 25, status: 200, failed: false };
  assert.deepEqual(exchanges.get(0), first);
  assert.equal(exchanges.get(1).failed, true);
  assert.equal(exchanges.find("3"), -1);
});

test("a redirect under the same id is an exchange of its own", () => {
  const rows = new Rows();
  told(rows, "1", "request", 10);
  told(rows, "1", "request", 20);
  told(rows, "1", "response", 30, { status: 200 });
  const exchanges = new Exchanges(rows);
  exchanges.update();
  assert.deepEqual([exchanges.get(0).status, exchanges.get(1).status], [0, 200]);
});

test("thousands of exchanges are each found again", () => {
  const rows = new Rows();
  const exchanges = new Exchanges(rows);
  for (let n = 0; n < 5_000; n++) {
    told(rows, `req-${n}`, "request", n);
    if (n % 100 === 0) exchanges.update();
  }
  for (let n = 0; n < 5_000; n++) told(rows, `req-${n}`, "end", n + 7);
  exchanges.update();
  assert.equal(exchanges.length, 5_000);
  for (let n = 0; n < 5_000; n++)
    assert.equal(exchanges.get(exchanges.find(`req-${n}`)).ended, n + 7);
});

test("two ids with one hash are two exchanges", () => {
  const rows = new Rows();
  // FNV-1a gives both the same 32 bits.
  for (const req of ["costarring", "liquid"]) told(rows, req, "request", 1);
  told(rows, "costarring", "end", 2);
  const exchanges = new Exchanges(rows);
  exchanges.update();
  assert.equal(exchanges.length, 2);
  assert.deepEqual([exchanges.get(0).ended, exchanges.get(1).ended], [2, 0]);
});

test("the axis spans all that is shown and cuts idle time out", () => {
  const spans = [
    { began: 1_000, answered: 1_050, ended: 1_100 },
    { began: 61_000, answered: 0, ended: 61_100 },
  ];
  const stretches = axis(spans, 0);
  assert.equal(stretches.length, 2);
  assert.equal(stretches[0]!.left, 0);
  assert.ok(Math.abs(stretches[1]!.right - 1) < 1e-9);
  const { left, waiting, loading } = bar(stretches, spans[0]!, 0);
  assert.equal(left, 0);
  assert.ok(Math.abs(waiting - loading) < 1e-9);
  assert.ok(position(stretches, 30_000) <= stretches[1]!.left);
});

test("what is under way reaches to now", () => {
  const spans = [{ began: 100, answered: 0, ended: 0 }];
  const { left, waiting, loading } = bar(axis(spans, 600), spans[0]!, 600);
  assert.deepEqual([left, waiting, loading], [0, 1, 0]);
});

test("an answer whose end is never told reaches to its head", () => {
  const spans = [
    { began: 100, answered: 150, ended: 0 },
    { began: 100, answered: 0, ended: 200 },
  ];
  const { waiting, loading } = bar(axis(spans, 9_999), spans[0]!, 9_999);
  assert.deepEqual([waiting, loading], [0.5, 0]);
});

test("nothing shown has an empty axis", () => {
  assert.deepEqual(axis([], 0), []);
  assert.deepEqual(ticks([]), []);
});

test("ticks are round, in order and inside", () => {
  const made = ticks(axis([{ began: 0, answered: 0, ended: 730 }], 0));
  assert.deepEqual(
    made.map(({ offset }) => offset),
    [0, 200, 400],
  );
  for (const ended of [90, 500, 530, 999, 1_100, 61_000]) {
    const places = ticks(axis([{ began: 0, answered: 0, ended }], 0)).map(({ x }) => x);
    assert.ok(places.length > 1);
    // So much of the width takes a label where a detail stands beside the waterfall.
    for (const [n, x] of places.entries()) assert.ok((places[n + 1] ?? 1) - x >= 0.19, `${ended}`);
  }
  assert.equal(roundStep(121), 200);
  assert.equal(roundStep(3.1), 5);
});
