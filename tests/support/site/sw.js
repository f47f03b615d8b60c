// The service worker of /sw: answers /sw-made itself and passes everything else on.

addEventListener("install", () => {
  console.log("service worker: install");
  skipWaiting();
});

addEventListener("activate", (event) => {
  console.log("service worker: activate");
  event.waitUntil(fetch("/item/1?from=service-worker").then(() => clients.claim()));
});

addEventListener("fetch", (event) => {
  const { pathname } = new URL(event.request.url);
  console.log("service worker: fetch", pathname);
  event.respondWith(
    pathname === "/sw-made" ? Response.json({ made: "by the worker" }) : fetch(event.request),
  );
});
