// Draws every [data-spec] with Vega's interpreter, which needs neither eval nor inline styles. Colours follow the page's light or dark theme.

const OPTIONS = { ast: true, actions: false, renderer: "svg", defaultStyle: false, tooltip: { disableDefaultStyle: true } };
const views = new Map();

function ink(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function fillInInks(spec) {
  const inks = {
    INK: ink("--ink"), FAINT: ink("--chart-faint"), MEETS: ink("--chart-meets"), FAILS: ink("--chart-fails"), MUTED: ink("--chart-muted"),
  };
  return JSON.parse(JSON.stringify(spec), (_, value) => (typeof value === "string" && value in inks ? inks[value] : value));
}

export async function draw(element, spec) {
  const result = await window.vegaEmbed(element, fillInInks(spec), OPTIONS);
  const earlier = views.get(element);
  if (earlier) earlier.view.finalize();
  views.set(element, { view: result.view, spec });
  element.querySelector("svg")?.setAttribute("aria-hidden", "true"); // the element has a label, and a table has the numbers
  return result.view;
}

export function viewOf(element) {
  return views.get(element)?.view;
}

export async function drawAll() {
  for (const element of document.querySelectorAll("[data-spec]")) {
    const view = await draw(element, JSON.parse(element.dataset.spec));
    if (element.dataset.selected) await view.signal("selected", element.dataset.selected).runAsync();
    element.dataset.drawn = "true";
  }
}

export const drawn = drawAll();

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", async () => {
  for (const [element, { spec }] of views) {
    const view = await draw(element, spec);
    if (element.dataset.selected) await view.signal("selected", element.dataset.selected).runAsync();
  }
});
