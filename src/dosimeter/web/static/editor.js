// The editor of a query: colours, completion, and errors where they stand. The form's text box stays the form's field
// and holds the same text; without this script it is all there is.
import {
  Compartment, Decoration, EditorState, EditorView, SQLDialect, StateEffect, StateField, autocompletion,
  bracketMatching, completionKeymap, defaultKeymap, history, historyKeymap, isolateHistory, keymap, pickedCompletion,
  placeholder, sql as language, syntaxHighlighting, syntaxTree, tagHighlighter, tags,
} from "./vendor/codemirror-6.min.js";

if (!document.adoptedStyleSheets) throw new Error("This browser is too old for the editor: the text box stays.");

const KEYWORDS = `all and as asc between by case cross cube current desc distinct else end exists false filter first
  following from group grouping having ilike in inner interval is join last left like limit not null nulls on or order
  outer over partition preceding qualify right rollup row rows select sets then true unbounded union using when where
  with`.split(/\s+/);
const TYPES = "bigint boolean date decimal double integer timestamp varchar";

const box = document.getElementById("sql");
const check = document.getElementById("check");
const chosen = box.form.elements.dataset;

// ---- What can be completed: public facts of the chosen dataset's schema, and the functions that are supported.

let names = { tables: [], functions: [] };

async function ask(path, fields) {
  const response = await fetch(`${path}?${new URLSearchParams(fields)}`, { headers: { Accept: "application/json" } });
  if (!response.ok) throw new Error(path);
  return response.json();
}

const quote = (name) => (/^[A-Za-z_]\w*$/.test(name) ? name : `"${name.replaceAll('"', '""')}"`);

function take(view, completion, from, to, text, back = 0) {
  view.dispatch({
    changes: { from, to, insert: text },
    selection: { anchor: from + text.length - back },
    userEvent: "input.complete",
    annotations: pickedCompletion.of(completion),
  });
}

function call(view, completion, from, to) {
  const opened = view.state.sliceDoc(to, to + 1) === "(";
  take(view, completion, from, to, completion.label + (opened ? "" : "()"), opened ? 0 : 1);
}

const listColumns = () => names.tables.flatMap((table) => table.columns);

function listNames() {
  return [
    ...listColumns().map(({ name, type, description }) => (
      { label: name, apply: quote(name), detail: type, info: description || undefined })),
    ...names.tables.map(({ name }) => ({ label: name, apply: quote(name), detail: "table" })),
    ...names.functions.map((name) => ({ label: name, apply: call, detail: "function" })),
    ...KEYWORDS.map((word) => ({ label: word.toUpperCase() })),
  ];
}

let options = listNames();

// Names that begin with what was typed, then names of which a later part does.
function findNames(typed, among) {
  const lower = (option) => option.label.toLowerCase();
  const first = among.filter((option) => lower(option).startsWith(typed));
  return [...first, ...among.filter((option) => !first.includes(option) && lower(option).includes(`_${typed}`))];
}

const COMPARED = /(?:"((?:[^"]|"")+)"|(\w+))\s*(?:=|==|<>|!=|\b(?:not\s+)?i?like|\b(?:not\s+)?in\s*\((?:\s*'(?:[^']|'')*'\s*,)*)\s*$/i;

async function completeValue(context, start) {
  const compared = COMPARED.exec(context.state.sliceDoc(Math.max(0, start - 4_000), start));
  if (!compared) return null;
  const name = (compared[1]?.replaceAll('""', '"') ?? compared[2]).toLowerCase();
  const column = listColumns().find((each) => each.listed && each.name.toLowerCase() === name);
  if (!column) return null;
  const text = context.state.sliceDoc(start + 1, context.pos).replaceAll("''", "'");
  const found = await ask("/ask/names/values", { dataset: chosen.value, column: column.name, text });
  const apply = (view, completion, from, to) => {
    const closed = view.state.sliceDoc(to, to + 1) === "'";
    take(view, completion, from, to, completion.label.replaceAll("'", "''") + (closed ? "" : "'"));
  };
  const others = found.filter((value) => value !== text);
  return { from: start + 1, filter: false, options: others.map((label) => ({ label, apply })) };
}

function complete(context) {
  const node = syntaxTree(context.state).resolveInner(context.pos, -1);
  if (/Comment$/.test(node.name)) return null;
  if (node.name === "String") return completeValue(context, node.from).catch(() => null);
  const inQuotes = node.name === "QuotedIdentifier";
  const word = context.matchBefore(inQuotes ? /[^"]*$/ : /[\p{L}_][\p{L}\p{N}_]*$/u);
  if (!word && !context.explicit) return null;
  const typed = word?.text.toLowerCase() ?? "";
  const among = inQuotes ? options.filter((each) => each.apply?.[0] === '"') : options;
  if (!context.explicit && among.some((each) => each.label.toLowerCase() === typed)) return null; // it is complete
  const from = inQuotes ? node.from : word?.from ?? context.pos;
  return { from, filter: false, options: findNames(typed, among) };
}

const dialect = new Compartment();
const speak = () => language({
  dialect: SQLDialect.define({ keywords: KEYWORDS.join(" "), types: TYPES, builtin: names.functions.join(" ").toLowerCase() }),
}).language;

const colours = tagHighlighter([
  { tag: tags.keyword, class: "sql-keyword" },
  { tag: [tags.standard(tags.name), tags.typeName], class: "sql-function" },
  { tag: [tags.string, tags.number, tags.bool, tags.null], class: "sql-value" },
  { tag: [tags.lineComment, tags.blockComment], class: "sql-comment" },
]);

async function learnNames() {
  const asked = chosen.value;
  try {
    const found = await ask("/ask/names", { dataset: asked });
    if (asked !== chosen.value) return;
    names = found;
  } catch {
    names = { tables: [], functions: [] };
  }
  options = listNames();
  view.dispatch({ effects: dialect.reconfigure(speak()) });
  view.dom.dataset.names = asked; // whose names it knows
}

// ---- The mistake that the last check found, underlined where it stands.

const placeMistake = StateEffect.define();
const mistake = StateField.define({
  create: () => Decoration.none,
  update(marks, transaction) {
    for (const effect of transaction.effects) if (effect.is(placeMistake)) return effect.value;
    return marks.map(transaction.changes);
  },
  provide: (field) => [
    EditorView.decorations.from(field),
    EditorView.contentAttributes.compute([field], (state) => ({ "aria-invalid": String(state.field(field).size > 0) })),
  ],
});

// The check counts characters, the editor halves of a surrogate pair.
const findUnit = (text, count) => Array.from(text).slice(0, count).join("").length;

function showMistake(checked) {
  const told = check.querySelector("[data-from]");
  const text = view.state.doc.toString();
  const known = Boolean(told) && checked === text;
  const [from, to] = known ? [told.dataset.from, told.dataset.to].map((at) => findUnit(text, Number(at))) : [0, 0];
  const mark = Decoration.mark({ tagName: "mark", attributes: { title: told?.querySelector("p").textContent ?? "" } });
  view.dispatch({ effects: placeMistake.of(from < to ? Decoration.set(mark.range(from, to)) : Decoration.none) });
  check.classList.toggle("placed", from < to);
}

document.addEventListener("htmx:afterSwap", (event) => {
  if (event.detail.target !== check) return;
  const sent = event.detail.requestConfig.formData.get("sql") ?? "";
  showMistake(sent.replaceAll("\r\n", "\n"));
});

// ---- The editor, and the field that it stands for.

// A browser that types over coloured letters keeps their colour by a style attribute, which the policy forbids.
function typeOver(event, view) {
  const { state } = view;
  if (event.inputType !== "insertText" || !event.data || view.composing || state.selection.main.empty) return false;
  view.dispatch(state.update(state.replaceSelection(event.data), { userEvent: "input.type", scrollIntoView: true }));
  event.preventDefault();
  return true;
}

const view = new EditorView({
  doc: box.value,
  extensions: [
    history(),
    keymap.of([...completionKeymap, ...defaultKeymap, ...historyKeymap]), // Tab is no key of it: it leaves the editor
    dialect.of(speak()),
    syntaxHighlighting(colours),
    bracketMatching(),
    autocompletion({ override: [complete], icons: false, maxRenderedOptions: 10 }), // few, so that nothing scrolls
    mistake,
    placeholder(box.placeholder),
    EditorView.lineWrapping,
    EditorView.contentAttributes.of({
      "aria-labelledby": "sql-label",
      "aria-describedby": box.getAttribute("aria-describedby"),
      "aria-required": "true",
      autocapitalize: "off",
    }),
    EditorView.domEventHandlers({ beforeinput: typeOver }),
    EditorState.changeFilter.of((change) => change.newDoc.length <= Math.max(box.maxLength, change.startState.doc.length)),
    EditorView.updateListener.of((update) => {
      const text = update.state.doc.toString();
      if (!update.docChanged || text === box.value) return;
      box.value = text;
      box.dispatchEvent(new Event("input", { bubbles: true }));
    }),
  ],
});

function readBox() {
  if (box.value === view.state.doc.toString()) return;
  view.dispatch({
    changes: { from: 0, to: view.state.doc.length, insert: box.value },
    selection: { anchor: box.selectionEnd },
    annotations: isolateHistory.of("full"), // undone by itself
  });
}

document.addEventListener("click", (event) => { // before the page puts a column's name where the cursor is
  const { from, to } = view.state.selection.main;
  if (event.target.closest("[data-insert]")) box.setSelectionRange(from, to);
}, { capture: true });
box.addEventListener("input", readBox); // an example, or a column's name
window.addEventListener("pageshow", readBox); // what the browser kept of the form
box.addEventListener("focus", () => {
  readBox();
  view.dispatch({ selection: { anchor: box.selectionStart, head: box.selectionEnd } });
  view.focus();
});
box.addEventListener("invalid", (event) => { // it is empty, and the browser's own words would point at nothing
  event.preventDefault();
  view.focus();
  check.textContent = "Write a query.";
});
chosen.addEventListener?.("change", learnNames);

view.dom.style.setProperty("--least", `${box.offsetHeight}px`);
box.after(view.dom);
box.classList.add("replaced");
box.tabIndex = -1;
box.setAttribute("aria-hidden", "true");
learnNames();
showMistake(box.value);
