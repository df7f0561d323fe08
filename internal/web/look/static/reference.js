// Shows the API reference with Redoc. The styles that Redoc inserts need the nonce of this
// page's security policy, which this script's element has.
(async () => {
  "use strict";
  const { nonce } = document.currentScript;
  const place = document.getElementById("reference");
  try {
    const answer = await fetch("/openapi.json");
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    const contract = await answer.json();
    // Show the address of this service instead of the demo's.
    contract.servers = [{ url: `${location.origin}/api/v1` }];
    const sans = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif";
    const mono = "ui-monospace, 'SF Mono', 'Cascadia Mono', 'Roboto Mono', 'DejaVu Sans Mono', Menlo, Consolas, monospace";
    const options = {
      nonce,
      downloadUrls: [
        { title: "openapi.yaml", url: "/openapi.yaml" },
        { title: "openapi.json", url: "/openapi.json" },
      ],
      scrollYOffset: ".docs-top",
      nativeScrollbars: true,
      hideFab: false,
      jsonSamplesExpandLevel: "all",
      theme: {
        colors: {
          primary: { main: "#0f6e66" },
          success: { main: "#16661e" },
          error: { main: "#b01815" },
          text: { primary: "#15202b", secondary: "#465361" },
        },
        typography: {
          fontSize: "16px",
          fontFamily: sans,
          headings: { fontFamily: sans, fontWeight: "650" },
          code: { fontFamily: mono, fontSize: "14px", color: "#854a00", wrap: true },
          links: { color: "#0f6e66", visited: "#0f6e66", hover: "#0a5650" },
        },
        sidebar: { backgroundColor: "#f5f6f8", textColor: "#15202b" },
      },
    };
    window.Redoc.init(contract, options, place, (failed) => {
      if (failed) return console.error(failed);
      // Wide tables scroll, which a keyboard has to be able to do too.
      for (const table of place.querySelectorAll("table")) table.tabIndex = 0;
      // Redoc names menu entries without their method, which is part of what is seen.
      const nameMenu = () => {
        for (const item of place.querySelectorAll("[role=menuitem][aria-label]")) {
          if (!item.querySelector("[role=menuitem]")) item.removeAttribute("aria-label");
        }
      };
      nameMenu();
      new MutationObserver(nameMenu).observe(place, { childList: true, subtree: true });
      place.dataset.ready = "yes";
    });
  } catch (failed) {
    document.getElementById("reference-state").textContent = `The reference cannot be shown (${failed.message}).`;
  }
})();
