// The slider. Without this script a list of values is shown instead, and everything works.
"use strict";
const form = document.querySelector("form.choice");
const list = form.querySelector("select");
const slider = form.querySelector("input[type=range]");
const value = form.querySelector("output");

function show() {
  const chosen = list.value !== "";
  slider.classList.toggle("untouched", !chosen);
  slider.setAttribute("aria-valuetext", chosen ? "ε = " + list.value : form.dataset.unchosen);
  value.textContent = chosen ? "ε = " + list.value : form.dataset.unchosen;
  value.classList.remove("missing");
}

function choose() {
  list.value = Number(slider.value).toFixed(1);
  show();
}

form.querySelector(".slider").hidden = false;
list.hidden = true;
list.required = false;
form.querySelector("label").removeAttribute("for");
list.value = "";
slider.addEventListener("input", choose);
slider.addEventListener("click", choose);
slider.addEventListener("keydown", (event) => {
  if (event.key === " ") {
    event.preventDefault();
    choose();
  }
});
form.addEventListener("submit", (event) => {
  if (list.value === "") {
    event.preventDefault();
    value.textContent = form.dataset.missing;
    value.classList.add("missing");
    slider.focus();
  }
});
show();
