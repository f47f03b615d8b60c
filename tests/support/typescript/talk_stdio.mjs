// One conversation of the official TypeScript client: `node talk_stdio.mjs legacy|auto COMMAND…`,
// which starts the server by that command. What it saw is written to stdout as one line of JSON.

import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

const [mode, command, ...args] = process.argv.slice(2);

const transport = new StdioClientTransport({ command, args, env: process.env, stderr: "inherit" });
const client = new Client({ name: "talk", version: "1" }, { versionNegotiation: { mode } });

const call = (name, args) => client.callTool({ name, arguments: args });

await client.connect(transport);
const seen = { version: client.getNegotiatedProtocolVersion() };
seen.server = client.getServerVersion().name;
seen.tools = (await client.listTools()).tools.map((tool) => tool.name);
seen.templates = (await client.listResourceTemplates()).resourceTemplates.length;
const status = await call("status", {});
seen.session = status.structuredContent.sessionId;
const missing = await call("cdp_read_events", { targetId: "nothing" });
seen.failed = missing.isError;
const { contents } = await client.readResource({ uri: "pilothouse://timeline" });
seen.events = JSON.parse(contents[0].text).events.length > 0;
await client.close();
process.stdout.write(`${JSON.stringify(seen)}\n`);
