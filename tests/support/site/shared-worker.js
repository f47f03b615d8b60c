// The shared worker: logs and fetches for every page that connects.

console.log("shared worker");
onconnect = async ({ ports: [port] }) => {
  console.log("shared worker: connected");
  await (await fetch("/item/1?from=shared-worker")).json();
  port.postMessage("shared");
};
