// Small conveniences on every page. Nothing here is needed: every form works without it.
"use strict";

// A page that waits for something looks again by itself.
for (const waiting of document.querySelectorAll("[data-reload]")) {
  setTimeout(() => location.reload(), Number(waiting.dataset.reload));
}

// A select that leads to another page.
for (const select of document.querySelectorAll("[data-go]")) {
  select.addEventListener("change", () => { location.href = select.dataset.go + encodeURIComponent(select.value); });
}

// A second click sends nothing (and would change nothing: the server decides a query once).
for (const button of document.querySelectorAll("[data-once]")) {
  button.form.addEventListener("submit", () => { setTimeout(() => { button.disabled = true; }, 0); });
}
