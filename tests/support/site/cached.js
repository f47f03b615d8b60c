// The one resource that a browser may keep.

console.log("cached script");
