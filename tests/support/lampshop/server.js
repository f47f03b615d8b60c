// The app of the e2e guide: a shop of lamps, on Node alone. Its fault lies in stock.js.
const fs = require("node:fs");
const http = require("node:http");
const path = require("node:path");
const stock = require("./stock.js");

const page = () => fs.readFileSync(path.join(__dirname, "index.html"));
const json = (answer, status, value) => {
  answer.writeHead(status, { "content-type": "application/json" });
  answer.end(JSON.stringify(value));
};

const body = async request => {
  let text = "";
  for await (const part of request) text += part;
  return text;
};

const handle = async (request, answer) => {
  const { pathname } = new URL(request.url, "http://localhost");
  if (pathname === "/api/order") {
    const { item } = JSON.parse(await body(request));
    return json(answer, 200, { item, left: stock.take(item) });
  }
  if (pathname === "/api/cart") {
    return json(answer, 200, { item: JSON.parse(await body(request)).item });
  }
  if (pathname === "/login") {
    const user = new URLSearchParams(await body(request)).get("user");
    answer.writeHead(303, { location: "/", "set-cookie": `user=${user}; HttpOnly; Path=/` });
    return answer.end();
  }
  if (pathname === "/api/me") {
    return json(answer, 200, { user: /user=(\w+)/.exec(request.headers.cookie ?? "")?.[1] ?? "" });
  }
  answer.writeHead(pathname === "/" ? 200 : 404, { "content-type": "text/html" });
  answer.end(pathname === "/" ? page() : "not found");
};

const server = http.createServer((request, answer) => {
  handle(request, answer).catch(error => {
    console.error(error.stack);
    json(answer, 500, { error: error.message });
  });
});
server.listen(Number(process.env.PORT ?? 0), "127.0.0.1", () => {
  console.log(`lamps are sold on http://localhost:${server.address().port}`);
});
