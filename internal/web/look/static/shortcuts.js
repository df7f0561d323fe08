// Keys that search and open pages. The sheet of the page lists them, and its links say
// where each leads.
(() => {
  "use strict";
  const sheet = document.getElementById("shortcuts");
  if (!sheet) return;
  for (const opener of document.querySelectorAll("[data-shortcuts]")) opener.hidden = false;

  const pages = new Map();
  for (const link of sheet.querySelectorAll("a[data-keys]")) pages.set(link.dataset.keys, link);

  // Some speak to their computer, or rest a hand on the keys: single keys can be switched
  // off. A browser that keeps nothing has them on.
  const kept = "single-keys";
  const single = sheet.querySelector("[data-shortcuts-on]");
  try { single.checked = localStorage.getItem(kept) !== "off"; } catch { /* as in the page */ }
  single.addEventListener("change", () => {
    try { localStorage.setItem(kept, single.checked ? "on" : "off"); } catch { /* until the next page */ }
  });

  const shown = (it) => it.getClientRects().length > 0;
  const fieldOf = (part) => [...part.querySelectorAll("form.search input")].find(shown);
  const search = () => {
    for (const finder of document.querySelectorAll("details.finder")) if (shown(finder)) finder.open = true;
    const field = fieldOf(document);
    if (!field) return false;
    field.focus();
    field.select();
    return true;
  };
  document.addEventListener("toggle", (event) => {
    if (event.target.matches("details.finder[open]")) fieldOf(event.target)?.focus();
  }, true);

  // The letter of a key, on a keyboard of another script the one at its place.
  const letterOf = (event) => {
    if (/^[\x21-\x7e]$/.test(event.key)) return event.key.toLowerCase();
    if (/^Key[A-Z]$/.test(event.code)) return event.code.slice(3).toLowerCase();
    if (event.code === "Slash") return event.shiftKey ? "?" : "/";
    return "";
  };
  const types = (at) => at.closest && at.closest("textarea, select, [contenteditable], input:not([type=checkbox], [type=radio], [type=button], [type=submit])");

  const together = 1500; // milliseconds between two keys of one shortcut
  let before = "", at = 0;
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.isComposing || event.altKey || document.querySelector("dialog[open]")) return;
    const letter = letterOf(event);
    if (event.ctrlKey || event.metaKey) {
      if (letter === "k" && !event.shiftKey && search()) event.preventDefault();
      return;
    }
    if (!letter || !single.checked || event.repeat || types(event.target)) return;
    const keys = before && event.timeStamp - at < together ? `${before} ${letter}` : letter;
    before = "";
    if (letter === "/" ? search() : letter === "?") {
      event.preventDefault();
      if (letter === "?") sheet.showModal();
    } else if (pages.has(keys)) {
      event.preventDefault();
      location.assign(pages.get(keys).href);
    } else if ([...pages.keys()].some((other) => other.startsWith(letter + " "))) {
      before = letter;
      at = event.timeStamp;
    }
  });
})();
