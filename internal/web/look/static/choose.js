// Adds up what is ticked in a form with data-choose: how many, and their sum. If data-choose
// has what a wallet holds, also what it holds afterwards. Amounts are whole paise. The server
// checks the list again before anything is done; without this script the next page shows the sum.
(() => {
  "use strict";
  const groups = new Intl.NumberFormat("en-IN");
  const rupees = (paise) => {
    const whole = Math.abs(paise);
    return `${paise < 0 ? "−" : ""}₹${groups.format(Math.floor(whole / 100))}.${String(whole % 100).padStart(2, "0")}`;
  };

  for (const form of document.querySelectorAll("form[data-choose]")) {
    const part = (name) => form.querySelector(`[data-choose-${name}]`);
    const boxes = [...form.querySelectorAll("input[data-paise]")];
    const all = part("all");
    const paid = form.dataset.choose !== "";
    const wallet = paid ? Number(form.dataset.choose) : Infinity;

    const show = () => {
      const ticked = boxes.filter((box) => box.checked);
      const sum = ticked.reduce((total, box) => total + Number(box.dataset.paise), 0);
      const after = wallet - sum;
      part("count").textContent = groups.format(ticked.length);
      part("sum").textContent = rupees(sum);
      if (paid) {
        part("after").textContent = rupees(Math.max(after, 0));
        part("short").textContent = rupees(-after);
        part("covered").hidden = after < 0;
        part("lacking").hidden = after >= 0;
        part("why").hidden = after >= 0;
      }
      part("go").disabled = ticked.length === 0 || after < 0;
      all.checked = ticked.length === boxes.length;
      all.indeterminate = ticked.length > 0 && !all.checked;
    };

    form.addEventListener("change", (event) => {
      if (event.target === all) for (const box of boxes) box.checked = all.checked;
      show();
    });
    // A browser that goes back restores the ticks after the page is loaded.
    addEventListener("pageshow", show);
    for (const it of form.querySelectorAll("[data-choose-scripted]")) it.hidden = false;
    for (const it of form.querySelectorAll("[data-choose-plain]")) it.hidden = true;
    show();
  }
})();
