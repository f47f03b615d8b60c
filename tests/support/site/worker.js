// The dedicated worker: logs, fetches, and starts a worker of its own.

console.log("dedicated worker");
const nested = new Worker("/nested-worker.js", { name: "nested" });
nested.onmessage = ({ data }) => postMessage(data);
fetch("/item/1?from=dedicated-worker")
  .then((response) => response.json())
  .then(() => postMessage("dedicated"));
