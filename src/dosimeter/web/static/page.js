// Small conveniences on every page. Nothing here is needed: every form works without it.
"use strict";

// A page that waits for something reloads by itself.
for (const waiting of document.querySelectorAll("[data-reload]")) {
  setTimeout(() => location.reload(), Number(waiting.dataset.reload));
}

// Ignore a second click on a form's button (the server decides a query once in any case).
for (const button of document.querySelectorAll("[data-once]")) {
  button.form.addEventListener("submit", () => { setTimeout(() => { button.disabled = true; }, 0); });
}
window.addEventListener("pageshow", () => {
  for (const button of document.querySelectorAll("[data-once]")) button.disabled = false;
});

// Keep a typed reason in this tab until the user signs out, also when they go back a page or sign in again.
const who = document.body.dataset.who ?? "";
for (const input of document.querySelectorAll("[data-keep]")) {
  const name = `${who} ${input.dataset.keep}`;
  input.value ||= sessionStorage.getItem(name) ?? "";
  input.addEventListener("input", () => sessionStorage.setItem(name, input.value));
}
for (const form of document.querySelectorAll("[data-forget]")) {
  form.addEventListener("submit", () => sessionStorage.clear());
}

// A click writes a usual reason into the box, where it can be changed.
for (const button of document.querySelectorAll("[data-fill]")) {
  button.hidden = false;
  button.addEventListener("click", () => {
    const box = button.form.elements[button.dataset.fill];
    box.value = button.textContent;
    box.dispatchEvent(new Event("input", { bubbles: true }));
    box.focus();
  });
}

// Say a moment in the reader's own time zone too, beside UTC.
function tellLocalTimes(root) {
  for (const time of root.querySelectorAll("time[datetime]:not([title])")) {
    const moment = new Date(time.dateTime);
    if (!Number.isNaN(moment.getTime())) time.title = `${moment.toLocaleString()} where you are`;
  }
}
tellLocalTimes(document);
document.addEventListener("htmx:afterSwap", (event) => tellLocalTimes(event.target));

// Put a column's name, or an example, into the query.
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-insert], [data-example]");
  const sql = document.getElementById("sql");
  if (!button || !sql) return;
  const { insert, example } = button.dataset;
  if (example !== undefined) {
    sql.value = example;
  } else {
    const name = /^[A-Za-z_]\w*$/.test(insert) ? insert : `"${insert.replaceAll('"', '""')}"`;
    const before = sql.value.slice(0, sql.selectionStart);
    sql.setRangeText((before && !/[\s(,]$/.test(before) ? " " : "") + name, sql.selectionStart, sql.selectionEnd, "end");
  }
  sql.focus();
  sql.dispatchEvent(new Event("input", { bubbles: true }));
});

// Copy what stands in another element.
for (const button of document.querySelectorAll("[data-copy]")) {
  if (!navigator.clipboard) continue;
  button.hidden = false;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
    button.textContent = "Copied";
  });
}

// A verdict belongs to the query that was checked: hide it while another check runs.
const check = document.getElementById("check");
if (check) {
  document.addEventListener("htmx:beforeRequest", (event) => {
    if (event.detail.target === check) check.setAttribute("aria-busy", "true");
  });
  document.addEventListener("htmx:afterSwap", (event) => {
    if (event.detail.target === check) check.removeAttribute("aria-busy");
  });
  for (const failure of ["htmx:sendError", "htmx:responseError"]) {
    document.addEventListener(failure, (event) => {
      if (event.detail.target !== check) return;
      check.textContent = "The query could not be checked. Change it, or submit it as it is.";
      check.removeAttribute("aria-busy");
    });
  }
}

// Say at once that something was begun which may take a while.
document.addEventListener("htmx:beforeRequest", (event) => {
  const busy = event.target.dataset?.busy;
  if (busy) { event.target.textContent = busy; event.target.disabled = true; }
});

// Show why a part of the page could not be made, in its place: htmx drops a refusal otherwise.
document.addEventListener("htmx:beforeSwap", (event) => {
  if (!event.detail.target.closest("[data-problems]") || event.detail.xhr.status < 400) return;
  event.detail.shouldSwap = true;
  event.detail.isError = false;
});
