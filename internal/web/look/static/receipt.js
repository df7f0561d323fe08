// Counts the prints of a page's receipts. Its form asks the server first, which answers with the
// receipts as this print has to show them. What the browser's own menu prints and what is sent as a
// link is counted beside it; without this script such a print says that it is a preview.
(() => {
  "use strict";
  // data-receipts is "shown" until they are counted, and "used" once they were printed or sent.
  const receipts = () => document.querySelector("[data-receipts]");
  const prepare = () => {
    for (const mark of document.querySelectorAll("[data-uncounted]")) mark.remove();
  };
  const use = () => {
    const now = receipts();
    if (now.dataset.receipts === "shown") {
      // It is sent even if the page is left at once.
      fetch(now.dataset.count, { method: "POST", body: new URLSearchParams({ step: "count" }), keepalive: true }).catch(() => {});
    }
    now.dataset.receipts = "used";
  };

  addEventListener("beforeprint", () => {
    if (receipts().dataset.receipts === "used") {
      for (const mark of document.querySelectorAll("[data-duplicate]")) mark.hidden = false;
    }
    use();
  });
  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-sends] :is(a, [data-copy])")) use();
  });
  document.addEventListener("htmx:afterSettle", (event) => {
    if (event.target === receipts()) print();
  });
  prepare();
})();
