import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import test from "node:test";

const ROOT = new URL("../", import.meta.url);
const read = (name) => readFileSync(new URL(name, ROOT), "utf8");
const readJson = (name) => JSON.parse(read(name));
const named = (ending) => readdirSync(ROOT).filter((name) => name.endsWith(ending));

const manifest = readJson("manifest.json");
const locales = { en: readJson("_locales/en/messages.json"), ja: readJson("_locales/ja/messages.json") };

test("the key gives the id that the server expects", () => {
  const hash = createHash("sha256").update(Buffer.from(manifest.key, "base64")).digest("hex");
  const id = hash.slice(0, 32).replace(/./g, (digit) => String.fromCharCode(97 + parseInt(digit, 16)));
  assert.equal(id, "ampnaceinapbblmlkfembdggeggofphe");
  assert.match(read("../src/pilothouse/bookmarks/model.py"), new RegExp(`EXTENSION_ID = "${id}"`));
});

test("the extension may do three things and no more", () => {
  assert.deepEqual(manifest.permissions, ["bookmarks", "storage", "alarms"]);
  const more = ["host_permissions", "optional_permissions", "content_scripts", "externally_connectable"];
  assert.deepEqual(more.filter((name) => name in manifest), []);
});

test("the extension reaches this computer alone", () => {
  const policy = manifest.content_security_policy.extension_pages;
  assert.match(policy, /default-src 'none'/);
  assert.match(policy, /connect-src ws:\/\/127\.0\.0\.1:\*;/);
});

test("Chrome is new enough for sockets to keep a worker alive", () => {
  assert.equal(manifest.minimum_chrome_version, "116");
});

test("the version is the project's", () => {
  const [, version] = /^version = "(.+)"$/m.exec(read("../pyproject.toml"));
  assert.equal(manifest.version, version);
});

test("every icon has the size of its name", () => {
  for (const [size, name] of Object.entries({ ...manifest.icons, ...manifest.action.default_icon })) {
    const png = readFileSync(new URL(name, ROOT));
    assert.deepEqual([png.readUInt32BE(16), png.readUInt32BE(20)], [Number(size), Number(size)], name);
  }
});

test("both languages have the same texts with the same gaps", () => {
  assert.deepEqual(Object.keys(locales.ja), Object.keys(locales.en));
  const gaps = ({ message }) => [...new Set(message.match(/\$\d/g))].sort();
  for (const key of Object.keys(locales.en)) {
    assert.deepEqual(gaps(locales.ja[key]), gaps(locales.en[key]), key);
  }
});

test("texts are within what Chrome allows", () => {
  for (const { name, description } of Object.values(locales)) {
    assert.ok(name.message.length <= 75);
    assert.ok(description.message.length <= 132);
  }
});

test("every text that is used exists, and every text is used", () => {
  const sources = [
    [["manifest.json"], /__MSG_(\w+)__/g],
    [named(".html"), /data-i18n(?:-label)?="(\w+)"/g],
    [named(".js"), /\bt\("(\w+)"/g],
    [named(".js"), /"((?:error|code|port)[A-Z]\w+)"/g],
  ];
  const used = sources.flatMap(([names, pattern]) =>
    names.flatMap((name) => [...read(name).matchAll(pattern)].map(([, key]) => key)),
  );
  assert.deepEqual([...new Set(used)].sort(), Object.keys(locales.en).sort());
});

test("pages have no inline script or style, and load nothing from elsewhere", () => {
  for (const name of named(".html")) {
    const page = read(name);
    assert.doesNotMatch(page, /<script(?![^>]*\bsrc=)|<style|\bstyle=|\bon\w+=/i, name);
    assert.doesNotMatch(page, /\b(?:src|href)="(?:https?:)?\/\//i, name);
  }
});

test("the pure modules touch neither Chrome, sockets, timers nor clocks", () => {
  for (const name of ["calls.js", "entries.js", "own.js", "protocol.js"]) {
    const code = read(name).replace(/\/\*[\s\S]*?\*\/|\/\/.*/g, "");
    assert.doesNotMatch(code, /\bchrome\.|WebSocket|setTimeout|Date\.now|performance\./, name);
  }
});
