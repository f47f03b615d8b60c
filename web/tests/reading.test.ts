import assert from "node:assert/strict";
import test from "node:test";

import { coloured, hex, indented, shown } from "../src/logic/bodies.ts";
import { BINDINGS, commandOf, VIEWS } from "../src/logic/keys.ts";
import { readRoute, writeRoute } from "../src/logic/route.ts";
import { Events } from "../src/logic/sse.ts";
import { address, brief, bytes, milliseconds, seconds } from "../src/logic/words.ts";
import type { Row } from "../src/model.ts";

const press = (key: string, ctrlKey = false) => ({ key, ctrlKey, metaKey: false, altKey: false });

test("JSON is laid out without changing a number or a repeated name", () => {
  const text = '{"id":12345678901234567890,"a":[],"a":{"b":[1,"x, {y}"]},"c":{}}';
  const laid = indented(text)!;
  assert.equal(laid.replaceAll(/\n */g, "").replaceAll(/": /g, '":'), text);
  assert.match(laid, /^\{\n {2}"id": 12345678901234567890,\n {2}"a": \[\],/);
  assert.match(laid, /"x, \{y\}"/);
});

test("what only looks like JSON stays as it is", () => {
  assert.equal(indented("{nonsense"), undefined);
  assert.deepEqual(shown("{nonsense", "application/json"), { kind: "text", text: "{nonsense" });
});

test("colouring loses no character", () => {
  const text = '{\n  "a\\"b": [1.5e3, true, null, "c"]\n}';
  const parts = coloured(text);
  assert.equal(parts.map((part) => part.text).join(""), text);
  assert.deepEqual(
    parts.filter(({ kind }) => kind).map(({ kind }) => kind),
    ["key", "number", "word", "word", "string"],
  );
});

test("a picture is drawn if it is whole, and is never taken for more than a picture", () => {
  const png = btoa("\x89PNG");
  assert.deepEqual(shown(png, "image/png", true), {
    kind: "image",
    text: `data:image/png;base64,${png}`,
  });
  assert.equal(shown(png, "image/png", true, true).kind, "hex");
  assert.equal(shown(png, "image/svg+xml", true).kind, "hex");
  assert.equal(shown(png, "text/html", true).kind, "hex");
});

test("a form shows its fields, and bytes are shown in hex", () => {
  const form = shown("a=1&b=x+y%21", "application/x-www-form-urlencoded; charset=utf-8");
  assert.deepEqual(form.fields, [
    ["a", "1"],
    ["b", "x y!"],
  ]);
  assert.equal(hex(btoa("AB\u0000")), `00000000  41 42 00${" ".repeat(39)}  AB·`);
  assert.equal(shown("", "text/html").kind, "empty");
});

test("events are read from pieces cut anywhere", () => {
  const whole = 'event: rows\ndata: {"a":1}\n\n: still here\n\nevent: gone\ndata: {}\n\n';
  for (let cut = 0; cut <= whole.length; cut++) {
    const events = new Events();
    const read = [...events.push(whole.slice(0, cut)), ...events.push(whole.slice(cut))];
    assert.deepEqual(read, [
      { event: "rows", data: '{"a":1}' },
      { event: "gone", data: "{}" },
    ]);
  }
});

test("each key has one meaning, and each view a number", () => {
  const keys = BINDINGS.flatMap((binding) => binding.keys);
  assert.equal(new Set(keys).size, keys.length);
  VIEWS.forEach((view, n) => {
    assert.deepEqual(commandOf(press(String(n + 1)), "elsewhere"), { do: "view", view });
  });
});

test("a field keeps its letters, a button its Enter, the browser its shortcuts", () => {
  assert.equal(commandOf(press("j"), "field"), undefined);
  assert.deepEqual(commandOf(press("Escape"), "field"), { do: "close" });
  assert.equal(commandOf(press("Enter"), "button"), undefined);
  assert.equal(commandOf(press("PageDown"), "reading"), undefined);
  assert.equal(commandOf(press("p", true), "elsewhere"), undefined);
});

test("a route survives its way through the address", () => {
  const route = { view: "network", agent: "a/b c" } as const;
  assert.deepEqual(readRoute(writeRoute(route)), route);
  assert.deepEqual(readRoute("#nonsense/%E0%A4%A"), { view: "timeline", agent: "" });
});

test("numbers read as people say them", () => {
  assert.deepEqual([999, 1_000, 12_345, 2.5e9].map(bytes), ["999 B", "1.0 kB", "12 kB", "2.5 GB"]);
  assert.deepEqual([0.4, 12, 1_500].map(milliseconds), ["0.4 ms", "12 ms", "1.5 s"]);
  assert.deepEqual([3, 75, 3_900, 200_000].map(seconds), ["3 s", "1 min", "1 h 5 min", "2 d"]);
});

test("a row is put briefly, as its lane says the rest", () => {
  const row = {
    lane: "network",
    text: "",
    phase: "request",
    method: "POST",
    url: "http://h:1/api/cart?x=1",
  };
  assert.equal(brief(row as Row), "POST /api/cart?x=1");
  assert.equal(brief({ lane: "console", text: "console error: boom" } as Row), "boom");
  assert.equal(brief({ lane: "steps", text: "step 2 click #add ok" } as Row), "2 click #add");
  assert.equal(brief({ lane: "packets", text: "packet 7 GET h/a → 200" } as Row), "GET h/a → 200");
  assert.deepEqual(address("http://h:1/"), { name: "/", host: "h:1" });
  assert.deepEqual(address("not a url"), { name: "not a url", host: "" });
});
