// One line of every console type, every kind of value, and every way for a script to fail.

console.clear(); // first: it also makes the browser forget what was logged before

console.log("log", 1, true);
console.info("info");
console.warn("warn");
console.error("error");
console.debug("debug");
console.dir({ dir: [1, 2] });
console.dirxml(document.getElementById("node"));
console.table([{ id: 1, name: "one" }, { id: 2, name: "two" }]);
console.trace("trace");
console.assert(1 === 2, "assert", { expected: 1 });
console.group("group");
console.log("inside the group");
console.groupCollapsed("inner group");
console.groupEnd();
console.groupEnd();
console.count("counter");
console.count("counter");
console.time("timer");
console.timeLog("timer", "on the way");
console.timeEnd("timer");
console.log("%s is %d years, %o %c", "Ada", 36, { a: 1 }, "color: red");

class Point {
  constructor(x, y) {
    this.x = x;
    this.y = y;
  }
}
const circular = { name: "circular" };
circular.self = circular;

console.log("object", { a: 1, b: { c: { d: { e: "deep" } } }, list: [1, "two", null] });
console.log("instance", new Point(1, 2));
console.log("circular", circular);
console.log("collections", new Map([["key", { v: 1 }]]), new Set([1, 2]), new Uint8Array([1, 2, 3]));
console.log("odd numbers", NaN, -0, Infinity, 2n ** 64n);
console.log("nothing", null, undefined, "");
console.log("others", new Date(0), /re+/gi, Symbol("mark"), () => 1, Promise.resolve(1));
console.log("lone surrogate \ud800 and bell \u0007 and bidi \u202e");
console.log("long", "x".repeat(20_000));
console.log("many keys", Object.fromEntries(Array.from({ length: 200 }, (_, i) => [`key${i}`, i])));
console.log("error value", new RangeError("told, not thrown", { cause: new Error("the cause") }));

function outer() {
  inner();
}
function inner() {
  throw new TypeError("thrown in inner");
}

setTimeout(outer);
setTimeout(() => {
  throw { code: 42, why: "an object was thrown" };
});
setTimeout(() => {
  throw "a string was thrown";
});
Promise.reject(new Error("nobody caught this"));
Promise.reject("nobody caught this string");
fetch("/status/404").then(() => {
  setTimeout(() => {
    console.log("last line");
    document.title = "done";
  });
});
