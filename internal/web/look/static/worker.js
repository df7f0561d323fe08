// The service worker: it shows a page of its own where there is no connection. All that it
// ever stores is that page and what it is made of, listed here. Pages show money and names,
// so they are never stored, and forms never pass through it.
"use strict";
const offline = "{{offline.html}}";
const kept = [offline, "{{offline.js}}", "{{style.css}}", "{{favicon.svg}}"];
// The path changes with the content of all of them, so every version has a cache of its own.
const name = offline;

addEventListener("install", (event) => {
  event.waitUntil((async () => {
    await (await caches.open(name)).addAll(kept);
    await skipWaiting();
  })());
});

addEventListener("activate", (event) => {
  event.waitUntil((async () => {
    for (const old of await caches.keys()) if (old !== name) await caches.delete(old);
    await clients.claim();
  })());
});

addEventListener("fetch", (event) => {
  const request = event.request;
  if (request.method !== "GET") return;
  const stored = async (path) => (await caches.open(name)).match(path, { ignoreVary: true });
  const path = new URL(request.url).pathname;
  if (request.mode === "navigate") {
    event.respondWith(fetch(request).catch(async () => (await stored(offline)) || Response.error()));
  } else if (kept.includes(path)) {
    event.respondWith(stored(path).then((found) => found || fetch(request)));
  }
});
