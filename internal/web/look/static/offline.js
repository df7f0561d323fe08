// The page without a connection: in the language of the last page, and loaded again by itself once
// the server can be reached.
(() => {
  "use strict";
  const read = (store, key) => { try { return store().getItem(key); } catch { return null; } };
  const write = (store, key, value) => { try { store().setItem(key, value); } catch { /* as for a first visit */ } };

  const asked = read(() => localStorage, "language") || navigator.language.slice(0, 2);
  const texts = [...document.querySelectorAll("[data-language]")];
  const shown = texts.find((text) => text.dataset.language === asked) || texts[0];
  for (const text of texts) text.hidden = text !== shown;
  document.documentElement.lang = shown.dataset.language;
  document.title = shown.dataset.title;

  // A server that can be reached may still not bring the page. So the pause before a reload doubles
  // with each one, up to a minute. A page that was brought starts anew.
  const reloads = Number(read(() => sessionStorage, "reloads"));
  const pause = Math.min(3_000 * 2 ** reloads, 60_000);

  let asking = false;
  const reloadIfReached = async () => {
    if (asking) return;
    asking = true;
    try {
      // The service worker answers no HEAD.
      const answer = await fetch(document.querySelector("link[rel=icon]").href, { method: "HEAD", cache: "no-store" });
      if (answer.status < 500) {
        write(() => sessionStorage, "reloads", reloads + 1);
        location.reload();
        return;
      }
    } catch { /* still no connection */ }
    asking = false;
  };
  addEventListener("online", reloadIfReached);
  setInterval(reloadIfReached, pause);
})();
