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
