// The worker that a worker started: logs and fetches.

console.log("nested worker");
fetch("/item/1?from=nested-worker")
  .then((response) => response.json())
  .then(() => postMessage("nested"));
