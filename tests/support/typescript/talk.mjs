// One conversation of the official TypeScript client: `node talk.mjs URL legacy|auto`.
// What it saw is written to stdout as one line of JSON.

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";

const COUNTER = "test://counter";
const [url, mode] = process.argv.slice(2);

const transport = new StreamableHTTPClientTransport(new URL(url));
const client = new Client({ name: "talk", version: "1" }, { versionNegotiation: { mode } });

const updated = new Promise((resolve) => {
  client.setNotificationHandler("notifications/resources/updated", ({ params }) =>
    resolve(params.uri),
  );
});

const call = (name, args, options) => client.callTool({ name, arguments: args }, options);

async function value() {
  const { contents } = await client.readResource({ uri: COUNTER }, { cacheMode: "refresh" });
  return JSON.parse(contents[0].text).value;
}

async function cancelled() {
  try {
    await call("forever", {}, { signal: AbortSignal.timeout(300) });
    return false;
  } catch {
    return true;
  }
}

await client.connect(transport);
const seen = { version: client.getNegotiatedProtocolVersion() };
seen.server = client.getServerVersion().name;
seen.tools = (await client.listTools()).tools.map((tool) => tool.name);
seen.templates = (await client.listResourceTemplates()).resourceTemplates.length;
seen.echo = (await call("echo_code", { text: "hi" })).structuredContent;
const missing = await call("echo_code", { text: "missing" });
seen.error = [missing.isError, missing.structuredContent.error.code];
seen.progress = [];
await call("longWork", { count: 3 }, { onprogress: ({ progress }) => seen.progress.push(progress) });
if (mode === "legacy") await client.subscribeResource({ uri: COUNTER });
const listening = mode === "legacy" ? null : await client.listen({ resourceSubscriptions: [COUNTER] });
await call("add", { count: 5 });
seen.updated = await updated;
seen.value = await value();
await listening?.close();
seen.cancelled = await cancelled();
seen.after = (await call("echo_code", { text: "still here" })).structuredContent.said;
if (mode === "legacy") await transport.terminateSession();
await client.close();
process.stdout.write(`${JSON.stringify(seen)}\n`);
