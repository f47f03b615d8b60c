import assert from "node:assert/strict";
import test from "node:test";

import { readCode, readName, readPort, showCode } from "../entries.js";

const CODE = "3V8KQ0R1ZTWXYABCDEFGHJKMNP";

const SPELLINGS = {
  "as it is": CODE,
  "in lower case": CODE.toLowerCase(),
  "in groups": showCode(CODE),
  "with blanks and line ends": ` ${CODE.slice(0, 9)} \t${CODE.slice(9, 20)}\r\n${CODE.slice(20)}\n`,
  "with typographic dashes": CODE.replace(/(.{5})/g, "$1\u2013"),
  "with letters for digits": CODE.replace("0", "o").replace("1", "l"),
  "in full width": CODE.replace(/./g, (letter) => String.fromCharCode(letter.charCodeAt(0) + 0xfee0)),
};

for (const [how, typed] of Object.entries(SPELLINGS)) {
  test(`a code ${how} is understood`, () => assert.deepEqual(readCode(typed), { code: CODE }));
}

test("a capital I is read as one", () => assert.equal(readCode("I".repeat(26)).code, "1".repeat(26)));

test("nothing typed asks for a code", () => assert.equal(readCode(" - ").problem, "codeMissing"));

test("a code that is too short says how long it is", () => {
  assert.deepEqual(readCode(CODE.slice(1)), { problem: "codeLength", args: ["26", "25"] });
});

test("a code that is too long says how long it is", () => {
  assert.deepEqual(readCode(`${CODE}7`), { problem: "codeLength", args: ["26", "27"] });
});

for (const letter of ["U", "!", "あ", "😀"]) {
  test(`a code with ${letter} names that letter`, () => {
    assert.deepEqual(readCode(letter + CODE.slice(1)), { problem: "codeLetter", args: [letter] });
  });
}

test("a code is shown in groups of four", () => {
  assert.equal(showCode(CODE), "3V8K-Q0R1-ZTWX-YABC-DEFG-HJKM-NP");
  assert.equal(showCode(""), "");
});

const PORTS = [["8765", 8765], [" 1 ", 1], ["65535", 65535], [8765, 8765], ["８７６５", 8765]];

for (const [typed, port] of PORTS) {
  test(`${JSON.stringify(typed)} is a port`, () => assert.deepEqual(readPort(typed), { port }));
}

for (const typed of ["0", "65536", "-1", "80.5", "1e3", "0x50", "", "http", undefined, 123456]) {
  test(`${JSON.stringify(typed)} is no port`, () => assert.equal(readPort(typed).problem, "portWrong"));
}

test("a name is trimmed and cut, and an empty one becomes the default", () => {
  assert.equal(readName("  Work ", "abcdef"), "Work");
  assert.equal(readName("x".repeat(100), "abcdef").length, 60);
  assert.equal(readName("   ", "abcdef"), "Chrome abcd");
});
