// A server as people write them: PORT from the environment, one line when it listens. What it
// does otherwise is chosen by variables, so that tests can have it misbehave.
const http = require("node:http");

const port = Number(process.env.FIXED_PORT || process.env.PORT || 3000);
const host = process.env.BIND || "127.0.0.1";
const status = Number(process.env.STATUS || 200);

const server = http.createServer((request, response) => {
  if (request.url === "/die") {
    console.error("dying as asked");
    process.exit(7);
  }
  if (request.url === "/log") {
    console.log("\u001b[32mgreen\u001b[0m line");
    console.error("red line");
  }
  response.writeHead(status, { "content-type": "text/html" });
  response.end("<h1>Hello from Node</h1>");
});

if (process.env.CRASH) {
  console.error("Error: cannot find the database");
  process.exit(3);
}
if (!process.env.SILENT) {
  server.on("listening", () => console.log(`listening on port ${port}`));
}
if (process.env.NEVER) {
  console.log("waiting for something that does not come");
  setInterval(() => {}, 1000);
} else {
  server.listen(port, host);
}
