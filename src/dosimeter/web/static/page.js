// Small conveniences on every page. Nothing here is needed: every form works without it.
"use strict";

// A page that waits for something looks again by itself.
for (const waiting of document.querySelectorAll("[data-reload]")) {
  setTimeout(() => location.reload(), Number(waiting.dataset.reload));
}

// A second click sends nothing (and would change nothing: the server decides a query once).
for (const button of document.querySelectorAll("[data-once]")) {
  button.form.addEventListener("submit", () => { setTimeout(() => { button.disabled = true; }, 0); });
}
window.addEventListener("pageshow", () => {
  for (const button of document.querySelectorAll("[data-once]")) button.disabled = false;
});

// A reason that was typed stays in this tab until its user signs out: also over the page before, and a new sign-in.
const who = document.body.dataset.who ?? "";
for (const input of document.querySelectorAll("[data-keep]")) {
  const name = `${who} ${input.dataset.keep}`;
  input.value ||= sessionStorage.getItem(name) ?? "";
  input.addEventListener("input", () => sessionStorage.setItem(name, input.value));
}
for (const form of document.querySelectorAll("[data-forget]")) {
  form.addEventListener("submit", () => sessionStorage.clear());
}
