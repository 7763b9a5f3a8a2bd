// What the page Ask uses of CodeMirror. Only this, and what it needs, is bundled.
export { autocompletion, completionKeymap, pickedCompletion } from "@codemirror/autocomplete";
export { defaultKeymap, history, historyKeymap, isolateHistory } from "@codemirror/commands";
export { SQLDialect, sql } from "@codemirror/lang-sql";
export { bracketMatching, syntaxHighlighting, syntaxTree } from "@codemirror/language";
export { Compartment, EditorState, StateEffect, StateField } from "@codemirror/state";
export { Decoration, EditorView, keymap, placeholder } from "@codemirror/view";
export { tagHighlighter, tags } from "@lezer/highlight";
