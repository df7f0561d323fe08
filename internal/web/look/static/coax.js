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
    form.setAttribute("aria-busy", "true");
  }, true);
  const rested = (form) => { if (form && form.removeAttribute) form.removeAttribute("aria-busy"); };
  addEventListener("pageshow", () => document.querySelectorAll("form[aria-busy]").forEach(rested));
  document.addEventListener("htmx:afterRequest", (event) => rested(event.target.closest("form")));

  document.addEventListener("change", (event) => {
    const form = event.target.closest("form[data-submit-on-change]");
    if (form) form.requestSubmit();
  });

  // Something htmx asked for did not come: say so, once.
  const trouble = () => {
    const notices = document.getElementById("notices");
    const words = document.getElementById("trouble");
    if (!notices || !words || notices.querySelector("[data-trouble]")) return;
    const notice = words.content.cloneNode(true);
    notice.querySelector(".notice").dataset.trouble = "";
    ready(notice);
    notices.append(notice);
  };
  document.addEventListener("htmx:sendError", trouble);
  document.addEventListener("htmx:responseError", trouble);

  document.addEventListener("htmx:load", (event) => ready(event.target));
  ready(document);
})();
