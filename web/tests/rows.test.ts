import assert from "node:assert/strict";
import test from "node:test";

import { Listing, type Sieve } from "../src/logic/listing.ts";
import { Rows } from "../src/logic/rows.ts";
import { LANES, type Row } from "../src/model.ts";

const ALL: Sieve = { lanes: new Set(LANES), troubles: false, text: "" };

function row(n: number, change: Partial<Row> = {}): Row {
  const text = `line ${n} – größer 🚢`;
  return {
    id: `tab:${n}`,
    key: `console:${n}`,
    lane: "console",
    at: 1e12 + n,
    level: "info",
    text,
    ...change,
  };
}

function filled(many: number, rows = new Rows()): Rows {
  for (let n = 0; n < many; n++) rows.push(row(n));
  return rows;
}

function listed(rows: Rows, sieve: Sieve): number[] {
  const listing = new Listing(rows, sieve);
  while (!listing.update());
  return Array.from({ length: listing.length }, (_, place) => listing.number(place));
}

test("a row comes out as it went in, whatever letters it has", () => {
  const rows = new Rows();
  const whole = row(0, { req: "7.1", phase: "response", status: 500, url: "http://a/", took: 1.5 });
  rows.push(whole);
  assert.deepEqual(rows.get(0), whole);
});

test("a lane and a level that the page does not know become other and info", () => {
  const rows = new Rows();
  rows.push(row(0, { lane: "weather" as Row["lane"], level: "fatal" as Row["level"] }));
  assert.deepEqual([rows.lane(0), rows.level(0)], ["other", "info"]);
});

test("twenty thousand rows are all there, in order, over several blocks", () => {
  const rows = filled(20_000);
  for (let n = 0; n < 20_000; n++) assert.equal(rows.get(n)!.id, `tab:${n}`);
  assert.equal(listed(rows, ALL).length, 20_000);
});

test("a row longer than a block's first bytes is kept whole", () => {
  const rows = filled(3);
  rows.push(row(3, { text: "ä".repeat(400_000) }));
  assert.equal(rows.get(3)!.text.length, 400_000);
  assert.deepEqual(rows.get(2), row(2));
});

test("beyond the limit the oldest rows go, and a list forgets them", () => {
  const rows = new Rows(8192);
  const listing = new Listing(rows, ALL);
  filled(20_000, rows);
  listing.update();
  assert.ok(rows.first > 0 && rows.next - rows.first >= 4096);
  assert.equal(rows.get(rows.first - 1), undefined);
  assert.equal(listing.number(0), rows.first);
  assert.equal(listing.length, rows.next - rows.first);
});

test("a row that comes late stands where its time says", () => {
  const rows = new Rows();
  for (const at of [10, 20, 30, 15, 30, 5]) rows.push(row(at, { at }));
  const listing = new Listing(rows, ALL);
  listing.update();
  const times = Array.from({ length: 6 }, (_, place) => rows.at(listing.number(place)));
  assert.deepEqual(times, [5, 10, 15, 20, 30, 30]);
  for (let place = 0; place < 6; place++) assert.equal(listing.find(listing.number(place)), place);
  assert.equal(listing.find(-1), -1);
});

test("lanes, trouble and text are sieved, also in rows that come later", () => {
  const rows = new Rows();
  rows.push(row(0, { lane: "server", level: "error", text: "Boom" }));
  rows.push(row(1, { level: "warn" }));
  rows.push(row(2));
  assert.deepEqual(listed(rows, { ...ALL, lanes: new Set(["server"]) }), [0]);
  assert.deepEqual(listed(rows, { ...ALL, troubles: true }), [0, 1]);
  assert.deepEqual(listed(rows, { ...ALL, text: " bOOm " }), [0]);
  const listing = new Listing(rows, { ...ALL, text: "line 3" });
  listing.update();
  rows.push(row(3));
  listing.update();
  assert.equal(listing.length, 1);
});

test("a text is looked for in slices, and none is left out", () => {
  const rows = filled(9_000);
  const listing = new Listing(rows, { ...ALL, text: "größer" });
  assert.equal(listing.update(), false);
  while (!listing.update());
  assert.equal(listing.length, 9_000);
});
