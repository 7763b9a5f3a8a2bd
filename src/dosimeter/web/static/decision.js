// The decision page: the slider, the number box and the sentence ask the server for what changed, and put it in place.

import { draw, drawn, viewOf } from "./charts.js";

const form = document.getElementById("wish");
const slider = document.getElementById("slider");
const box = document.getElementById("epsilon");
const problem = document.getElementById("live-problem");
const computing = document.getElementById("live-computing");
const candidates = slider.dataset.candidates.split(",");
const range = document.getElementById("range");
const histogram = document.getElementById("histogram");
let rangeSpec = range.dataset.spec;
let histogramKind = form.elements.linear.checked;
let running = null;
let job = null;
let settle = 0;

function query() {
  const values = new URLSearchParams();
  for (const [name, value] of new FormData(form)) values.set(name, value);
  return values;
}

async function update() {
  running?.abort();
  running = new AbortController();
  const { signal } = running;
  try {
    const response = await fetch(`${form.dataset.live}?${query()}`, { signal, headers: { Accept: "application/json" } });
    if (response.redirected || response.status === 401) { location.href = "/sign-in"; return; }
    if (!response.ok) { say("This could not be computed. Load the page again."); return; }
    await show(await response.json(), signal);
  } catch (error) {
    if (error.name !== "AbortError") say("The server does not answer.");
  }
}

function say(text) {
  problem.textContent = text;
  problem.hidden = !text;
}

async function show(reading, signal) {
  job = reading.job;
  computing.hidden = !job;
  say(reading.problem);
  if (job) {
    const share = reading.share;
    document.getElementById("live-share").textContent = share === null ? "" : `${Math.round(share)} %`;
    setTimeout(() => { if (!signal.aborted) update(); }, 400);
    return;
  }
  if (reading.problem) return;
  slider.value = reading.index;
  slider.setAttribute("aria-valuetext", reading.valuetext);
  document.getElementById("valuetext").textContent = reading.valuetext;
  if (document.activeElement !== box) box.value = reading.selected;
  for (const [name, html] of Object.entries(reading.fragments)) put(`part-${name}`, html);
  await drawn;
  if (signal.aborted) return;
  range.dataset.selected = reading.selected;
  await showCharts(reading);
  clearTimeout(settle);
  settle = setTimeout(showParts, 250);
  document.body.dataset.shown = reading.selected;
}

function put(id, html) {
  const element = document.getElementById(id);
  if (!element) return;
  const open = [...element.querySelectorAll("details")].map((details) => details.open);
  const reason = element.querySelector("input[name=reason]")?.value;
  const scrolled = element.querySelector(".scroll")?.scrollTop ?? 0;
  element.innerHTML = html;
  element.querySelectorAll("details").forEach((details, place) => { details.open = open[place] ?? false; });
  if (reason) { const input = element.querySelector("input[name=reason]"); if (input) input.value = reason; }
  const pane = element.querySelector(".scroll.short");
  if (pane) { pane.scrollTop = scrolled; bring(pane); }
}

// Bring the selected row into its own pane, without moving the page.
function bring(pane) {
  const row = pane.querySelector("tr.selected");
  if (!row) return;
  const top = row.offsetTop - pane.clientHeight / 2;
  if (row.offsetTop < pane.scrollTop + 40 || row.offsetTop > pane.scrollTop + pane.clientHeight - 60) pane.scrollTop = Math.max(0, top);
}

async function showCharts(reading) {
  const fresh = JSON.stringify(reading.range);
  if (fresh !== rangeSpec) {
    rangeSpec = fresh;
    await draw(range, reading.range);
  }
  await viewOf(range).signal("selected", reading.selected).runAsync();
  const kind = form.elements.linear.checked;
  if (kind !== histogramKind) {
    histogramKind = kind;
    await draw(histogram, reading.histogram);
  } else {
    await viewOf(histogram).data("bins", reading.bins).runAsync();
  }
}

// What needs the engine follows once the slider rests.
function showParts() {
  const epsilon = document.body.dataset.shown;
  for (const element of document.querySelectorAll("[data-part]")) {
    const values = new URLSearchParams({ epsilon });
    if (element.id === "groups") {
      const column = document.getElementById("by").value;
      if (!column) continue;
      values.set("column", column);
    }
    window.htmx.ajax("GET", `${element.dataset.part}?${values}`, { source: element, target: element, swap: "innerHTML" });
  }
}

function showPreset() {
  const chosen = form.elements.preset.value;
  for (const part of form.querySelectorAll("[data-preset]")) part.hidden = part.dataset.preset !== chosen;
}

function showValues() {
  const column = form.elements.column.value;
  let first = null;
  for (const option of form.elements.value.options) {
    option.hidden = option.disabled = option.dataset.column !== column;
    if (!option.hidden && first === null) first = option;
  }
  if (form.elements.value.selectedOptions[0]?.disabled && first) first.selected = true;
}

// Another preference finds another ε: the slider goes there, as if the page were new.
let typing = 0;
form.addEventListener("input", (event) => {
  const name = event.target.id || event.target.name;
  if (name === "slider") { box.value = candidates[slider.value]; update(); return; }
  if (name === "raw") { document.getElementById("raw-note").hidden = !event.target.checked; update(); return; }
  if (name === "linear") { update(); return; }
  if (event.target.name === "preset") showPreset();
  if (event.target.name === "column") showValues();
  if (name !== "epsilon") box.value = "";
  clearTimeout(typing);
  typing = setTimeout(update, event.target.matches("[type=radio], select") ? 0 : 250);
});
form.addEventListener("submit", (event) => { event.preventDefault(); update(); });
document.getElementById("by").addEventListener("change", showParts);
document.getElementById("live-cancel").addEventListener("click", () => {
  running?.abort();
  computing.hidden = true;
  if (job) window.htmx.ajax("POST", `/jobs/${job}/cancel`, { swap: "none" });
});

range.dataset.selected = candidates[slider.value];
document.body.dataset.shown = candidates[slider.value];
showPreset();
showValues();
bring(document.querySelector("#part-accuracy .scroll"));
showParts();
if (!computing.hidden) update();
