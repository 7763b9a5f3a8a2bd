// Draws every [data-spec] with Vega's interpreter, which needs neither eval nor inline styles. Colours follow the page's light or dark theme.

const OPTIONS = { ast: true, actions: false, renderer: "svg", defaultStyle: false, tooltip: { disableDefaultStyle: true } };
const views = new Map();

function ink(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function fillInInks(spec) {
  const inks = {
    INK: ink("--ink"), FAINT: ink("--chart-faint"), MEETS: ink("--chart-meets"), MUTED: ink("--chart-muted"),
  };
  return JSON.parse(JSON.stringify(spec), (_, value) => (typeof value === "string" && value in inks ? inks[value] : value));
}

async function draw(element, spec) {
  const result = await window.vegaEmbed(element, fillInInks(spec), OPTIONS);
  const earlier = views.get(element);
  if (earlier) earlier.view.finalize();
  views.set(element, { view: result.view, spec });
  element.querySelector("svg")?.setAttribute("aria-hidden", "true"); // the element has a label, and a table has the numbers
  return result.view;
}

async function drawAll() {
  for (const element of document.querySelectorAll("[data-spec]")) {
    await draw(element, JSON.parse(element.dataset.spec));
    element.dataset.drawn = "true";
  }
}

drawAll();

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", async () => {
  for (const [element, { spec }] of views) await draw(element, spec);
});
