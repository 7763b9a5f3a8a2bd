// The decision page: the slider, the number box and the sentence ask the server for what changed, and show it.
// From an input until the server's answer, what the page shows is out of date: it is dimmed, and nothing can be approved.

const form = document.getElementById("decision-form");
const slider = document.getElementById("slider");
const box = document.getElementById("epsilon");
const problem = document.getElementById("preference-problem");
const sliderProblem = document.getElementById("slider-problem");
const valuetext = document.getElementById("valuetext");
const computing = document.getElementById("preference-computing");
const follows = document.querySelectorAll(".follows"); // parts that show what is approved, and its cost
const verdict = document.getElementById("part-verdict");
const candidates = slider.dataset.candidates.split(",");
const own = form.elements.text;
let preference = form.dataset.preference;
let written = Boolean(own && form.elements.preset.value === "own"); // the controller typed a condition of their own, so it is kept
let following = false; // ε follows the preference until somebody moves it
let running = null;
let job = null;
const parts = new Map(); // what each part showed last: what stays the same is neither drawn nor read out again
let settle = 0;
let waiting = 0;

function query() {
  const values = new URLSearchParams();
  for (const [name, value] of new FormData(form)) values.set(name, value);
  if (following) values.delete("epsilon");
  return values;
}

// Mark the results as out of date: they no longer belong to the form.
function markOutdated(atOnce) {
  for (const part of follows) part.setAttribute("aria-busy", "true");
  parts.delete("part-verdict"); // its button is about to change
  const button = verdict?.querySelector("button");
  if (button) { button.disabled = true; button.textContent = "Approve …"; }
  clearTimeout(waiting);
  waiting = setTimeout(() => { valuetext.textContent = "Working it out …"; }, atOnce ? 0 : 200);
}

function markCurrent() {
  clearTimeout(waiting);
  for (const part of follows) part.removeAttribute("aria-busy");
}

// Return whether the page now shows the server's answer. It does not if something was entered meanwhile.
async function update() {
  running?.abort();
  running = new AbortController();
  const { signal } = running;
  try {
    const response = await fetch(`${form.dataset.update}?${query()}`, { signal, headers: { Accept: "application/json" } });
    if (response.redirected || response.status === 401) { signInAgain(); return false; }
    if (!response.ok) { showProblem("This could not be computed. Load the page again."); return false; }
    return show(await response.json(), signal);
  } catch (error) {
    if (error.name !== "AbortError") showProblem("The server does not answer.");
    return false;
  }
}

function signInAgain() {
  const back = `${location.pathname}?${query()}`;
  location.href = `/sign-in?${new URLSearchParams({ next: back, ended: "1" })}`;
}

function showProblem(text) {
  for (const place of [problem, sliderProblem]) {
    place.textContent = text;
    place.hidden = !text;
  }
  if (text) { clearTimeout(waiting); valuetext.textContent = ""; }
}

function show(reading, signal) {
  job = reading.job;
  computing.hidden = !job;
  showProblem(reading.problem);
  if (job) {
    const share = reading.share;
    document.getElementById("preference-share").textContent = share === null ? "" : `${Math.round(share)} %`;
    setTimeout(() => { if (!signal.aborted) update(); }, 400);
    return false;
  }
  if (reading.problem) return false;
  markCurrent();
  preference = reading.preference;
  slider.value = reading.index;
  slider.setAttribute("aria-valuetext", reading.valuetext);
  valuetext.textContent = "";
  if (document.activeElement !== box || following) box.value = reading.selected;
  for (const [name, html] of Object.entries(reading.fragments)) replacePart(`part-${name}`, html);
  remember(reading.selected);
  clearTimeout(settle);
  settle = setTimeout(showParts, 250);
  document.body.dataset.shown = reading.selected;
  return true;
}

// Write the form into the URL, so that reloading the page, or coming back to it, changes nothing.
function remember(selected) {
  const values = query();
  values.set("epsilon", selected);
  history.replaceState(null, "", `${location.pathname}?${values}${location.hash}`);
}

function replacePart(id, html) {
  const element = document.getElementById(id);
  if (!element || parts.get(id) === html) return;
  parts.set(id, html);
  const open = [...element.querySelectorAll("details")].map((details) => details.open);
  const scrolled = element.querySelector(".scroll")?.scrollTop ?? 0;
  element.innerHTML = html;
  element.querySelectorAll("details").forEach((details, place) => { details.open = open[place] ?? false; });
  const pane = element.querySelector(".scroll.short");
  if (pane) { pane.scrollTop = scrolled; scrollToSelected(pane); }
}

// Scroll the selected row into view within its table, without scrolling the page.
function scrollToSelected(pane) {
  const row = pane.querySelector("tr.selected");
  if (!row) return;
  const head = pane.querySelector("thead").offsetHeight;
  if (row.offsetTop >= pane.scrollTop + head && row.offsetTop <= pane.scrollTop + pane.clientHeight - 60) return;
  const rows = [...pane.querySelectorAll("tbody tr")];
  const top = row.offsetTop - pane.clientHeight / 2;
  pane.scrollTop = Math.max(0, rows.find((each) => each.offsetTop - head >= top).offsetTop - head); // no half row on top
}

// Load the parts that need the engine only once the slider rests.
function showParts(inside = document) {
  const epsilon = document.body.dataset.shown;
  for (const element of inside.querySelectorAll("[data-part]")) {
    if (element.closest("details:not([open])")) continue; // on demand
    if (element.querySelector(".htmx-request")) continue; // people are being revealed: that answer shows the part
    const values = new URLSearchParams({ epsilon });
    const revealed = element.querySelector("[data-revealed]")?.dataset.revealed;
    if (revealed) values.set("revealed", revealed);
    if (element.id === "groups") {
      const column = document.getElementById("by").value;
      if (!column) continue;
      values.set("column", column);
    }
    window.htmx.ajax("GET", `${element.dataset.part}?${values}`, { source: element, target: element, swap: "innerHTML" });
  }
}

// What was asked of a part before its people were to be revealed must not come back after them, masked.
document.addEventListener("htmx:beforeRequest", ({ detail }) => {
  const part = detail.elt.closest("[data-part]");
  if (part && part !== detail.elt) window.htmx.trigger(part, "htmx:abort");
});

function showPreset() {
  const chosen = form.elements.preset?.value;
  for (const part of form.querySelectorAll("fieldset[data-preset]")) part.hidden = part.disabled = part.dataset.preset !== chosen;
  if (chosen === "own" && !written) own.value = preference; // start from the preference in use
}

function showValues() {
  if (!form.elements.column) return;
  const column = form.elements.column.value;
  let first = null;
  for (const option of form.elements.value.options) {
    option.hidden = option.disabled = option.dataset.column !== column;
    if (!option.hidden && first === null) first = option;
  }
  if (form.elements.value.selectedOptions[0]?.disabled && first) first.selected = true;
}

// A new preference finds a new ε: the slider follows it again, as on a new page.
let typing = 0;
let moves = 0;
document.addEventListener("input", (event) => {
  const { target } = event;
  if (target.form !== form) return;
  moves += 1;
  running?.abort();
  if (target === slider) {
    following = false;
    box.value = candidates[slider.value];
    markOutdated(false);
    update();
    return;
  }
  if (["raw", "linear", "every", "measure"].includes(target.name)) { update(); return; }
  markOutdated(target !== box);
  if (target === own) written = true;
  if (target.name === "preset") showPreset();
  if (target.name === "column") showValues();
  following = target !== box;
  clearTimeout(typing);
  if (target === box && !(Number(box.value) > 0)) { showProblem("Give ε as a positive number."); return; }
  typing = setTimeout(update, target.matches("[type=radio], select") ? 0 : 250);
});

// Round a number between two candidates down once it is completely typed, and say so on the page.
async function finishTyping() {
  const typed = box.value;
  if (!(Number(typed) > 0)) return;
  const then = moves;
  clearTimeout(typing);
  if (!await update() || moves !== then || following) return;
  const shown = document.body.dataset.shown;
  if (Number(shown) === Number(typed)) return;
  box.value = shown;
  valuetext.textContent = `${typed} is not a candidate; ${shown} is the next smaller one. ${slider.getAttribute("aria-valuetext")}`;
}

box.addEventListener("change", finishTyping);
form.addEventListener("submit", (event) => {
  if (event.submitter?.matches("[data-approve]")) { // to the confirmation page, with the ε that its button names
    box.value = document.body.dataset.shown;
    return;
  }
  event.preventDefault();
  finishTyping();
});
document.getElementById("by").addEventListener("change", () => showParts());
document.addEventListener("toggle", ({ target }) => { // what is folded is looked up once it is opened
  if (!target.open) return;
  showParts(target);
  for (const pane of target.querySelectorAll(".scroll.short")) scrollToSelected(pane);
}, true);

// A row of the picture, and a button in the verdict, stand for their ε; another button offers another percentage.
document.addEventListener("click", ({ target }) => {
  const row = target.closest("[data-index]");
  const offered = target.closest("[data-percent]");
  if (row) { slider.value = row.dataset.index; slider.dispatchEvent(new Event("input", { bubbles: true })); }
  if (offered) { form.elements.percent.value = offered.dataset.percent; form.elements.percent.dispatchEvent(new Event("input", { bubbles: true })); }
});
document.getElementById("preference-cancel").addEventListener("click", ({ target }) => {
  running?.abort();
  target.textContent = "Stopping …"; // the page loads again once the computation has ended
  target.disabled = true;
  if (job) window.htmx.ajax("POST", `/jobs/${job}/cancel`, { swap: "none" });
});

document.getElementById("update").className = "hidden";
document.getElementById("update").tabIndex = -1;
document.body.dataset.shown = candidates[slider.value];
showPreset();
showValues();
showParts();
if (!computing.hidden) { following = !new URLSearchParams(location.search).has("epsilon"); markOutdated(true); update(); }
