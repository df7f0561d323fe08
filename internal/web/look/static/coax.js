// What pages do beyond their forms. Everything here is a comfort: without it the
// forms still work. What needs it is hidden until it runs.
(() => {
  "use strict";
  const root = document.documentElement;

  const ready = (part) => {
    for (const it of part.querySelectorAll("[data-theme-switch], [data-dismiss], [data-copy], [data-print]")) it.hidden = false;
  };

  // The theme is kept in a cookie, so that the server can send the next page in it.
  const switchTheme = () => {
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    const now = root.dataset.theme || (dark ? "dark" : "light");
    const next = now === "dark" ? "light" : "dark";
    root.dataset.theme = next;
    document.cookie = `theme=${next}; Path=/; Max-Age=31536000; SameSite=Lax; Secure`;
  };

  const copy = async (button) => {
    const words = button.querySelector("span");
    const before = words.textContent;
    await navigator.clipboard.writeText(button.dataset.copy);
    words.textContent = button.dataset.copied;
    setTimeout(() => { words.textContent = before; }, 2000);
  };

  // A page that was asked for to be printed opens the dialog by itself.
  if (document.querySelector("[data-print-now]")) addEventListener("load", () => print());

  document.addEventListener("click", (event) => {
    const at = (selector) => event.target.closest(selector);
    if (at("[data-theme-switch]")) switchTheme();
    if (at("[data-dismiss]")) at(".notice").remove();
    if (at("[data-print]")) print();
    if (at("[data-copy]")) copy(at("[data-copy]"));

    // A browser that knows no commands is told what they mean.
    const opener = at("button[commandfor]");
    if (opener && !("command" in HTMLButtonElement.prototype)) {
      const dialog = document.getElementById(opener.getAttribute("commandfor"));
      if (opener.getAttribute("command") === "close") dialog.close();
      else dialog.showModal();
    }

    // The drawer closes when one taps beside it.
    for (const drawer of document.querySelectorAll("details.drawer[open]")) {
      if (!drawer.contains(event.target)) drawer.open = false;
    }
  });

  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    for (const drawer of document.querySelectorAll("details.drawer[open]")) {
      drawer.open = false;
      drawer.querySelector("summary").focus();
    }
  });

  // Arrow keys lead from one value of a chart to the next.
  document.addEventListener("keydown", (event) => {
    const spot = event.target.closest?.(".chart-spot");
    const next = spot && {
      ArrowRight: spot.nextElementSibling, ArrowLeft: spot.previousElementSibling,
      Home: spot.parentElement.firstElementChild, End: spot.parentElement.lastElementChild,
    }[event.key];
    if (event.key === "Escape") spot?.blur();
    if (!next) return;
    event.preventDefault();
    spot.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });

  // A form goes out once, however often its button is clicked. The server makes
  // sure of the money; this only reassures the user.
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (form.method !== "post") return;
    if (form.hasAttribute("aria-busy")) {
      event.preventDefault();
      event.stopImmediatePropagation();
      return;
    }
    if (!navigator.onLine && !reached.has(form)) {
      event.preventDefault();
      event.stopImmediatePropagation();
      sendIfReached(form, event.submitter);
      return;
    }
    form.setAttribute("aria-busy", "true");
  }, true);

  // A browser that says it is offline may still reach a server on its own machine, so the
  // server is asked for a file first. Only if that fails is nothing sent.
  const reached = new WeakSet();
  const sendIfReached = async (form, submitter) => {
    try {
      await fetch(document.querySelector("link[rel=icon]").href, { method: "HEAD", cache: "no-store" });
    } catch {
      tell("offline", form);
      return;
    }
    reached.add(form);
    form.requestSubmit(submitter);
    reached.delete(form);
  };
  const rested = (form) => { if (form && form.removeAttribute) form.removeAttribute("aria-busy"); };
  addEventListener("pageshow", () => document.querySelectorAll("form[aria-busy]").forEach(rested));
  document.addEventListener("htmx:afterRequest", (event) => rested(event.target.closest("form")));

  document.addEventListener("change", (event) => {
    const form = event.target.closest("form[data-submit-on-change]");
    if (form) form.requestSubmit();
  });

  // Shows one of the page's prepared notices. It stays in sight however far the page is
  // scrolled; above a dialog only what is inside the dialog can be seen.
  const tell = (id, form) => {
    const place = form?.closest("dialog") || document.getElementById("notices");
    const words = document.getElementById(id);
    if (!place || !words) return;
    document.querySelector("[data-told]")?.remove();
    const notice = words.content.cloneNode(true);
    notice.querySelector(".notice").dataset.told = id;
    ready(notice);
    place.append(notice);
  };
  // Something htmx asked for did not come.
  const trouble = () => tell("trouble");
  document.addEventListener("htmx:sendError", trouble);
  document.addEventListener("htmx:responseError", trouble);

  addEventListener("online", () => document.querySelector('[data-told="offline"]')?.remove());

  // A form that comes back with errors leads to the first of them.
  if (performance.getEntriesByType("navigation")[0]?.responseStatus >= 400) {
    const bad = document.querySelector('main [aria-invalid="true"]');
    const problem = [...document.querySelectorAll("main .notice-bad")].find((it) => it.checkVisibility());
    bad?.scrollIntoView({ block: "center" });
    bad?.focus({ preventScroll: true });
    if (!bad) problem?.scrollIntoView({ block: "nearest" });
  }

  // The page that is shown without a connection, in the language of the last page. Without it the
  // browser shows its own.
  try {
    localStorage.setItem("language", root.lang);
    sessionStorage.removeItem("reloads");
  } catch { /* in the browser's language */ }
  navigator.serviceWorker?.register("/static/worker.js", { scope: "/" }).catch(() => {});

  document.addEventListener("htmx:load", (event) => ready(event.target));
  ready(document);
})();
