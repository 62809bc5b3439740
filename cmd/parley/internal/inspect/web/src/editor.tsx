// The JSON editor: CodeMirror with completion from a schema. It is in a shadow root, where its style sheets need no
// exception from the content security policy.
import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap, type CompletionContext, type CompletionResult } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { json, jsonParseLinter } from "@codemirror/lang-json";
import { bracketMatching, HighlightStyle, indentOnInput, syntaxHighlighting, syntaxTree } from "@codemirror/language";
import { lintGutter, linter } from "@codemirror/lint";
import { EditorState } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { useEffect, useRef } from "preact/hooks";
import { at, choices, kindOf, resolve } from "./schema";
import type { Json, Schema } from "./types";

// The colours are custom properties of the page, which shadow roots inherit.
const theme = EditorView.theme({
  "&": { color: "var(--text)", backgroundColor: "var(--field)", fontSize: "12.5px", height: "100%" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.55" },
  ".cm-content": { caretColor: "var(--text)", padding: "6px 0" },
  ".cm-gutters": { backgroundColor: "var(--field)", color: "var(--faint)", border: "none" },
  ".cm-activeLine": { backgroundColor: "transparent" },
  "&.cm-focused": { outline: "2px solid var(--focus)", outlineOffset: "-1px" },
  "&.cm-focused .cm-activeLine": { backgroundColor: "var(--hover)" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--selection)" },
  "&.cm-focused .cm-matchingBracket": { backgroundColor: "var(--selection)", outline: "none" },
  ".cm-tooltip": { backgroundColor: "var(--raised)", color: "var(--text)", border: "1px solid var(--line)", borderRadius: "6px", overflow: "hidden" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul": { fontFamily: "var(--mono)", maxHeight: "16em" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { backgroundColor: "var(--accent)", color: "var(--on-accent)" },
  ".cm-completionDetail": { color: "inherit", opacity: "0.75", fontStyle: "normal" },
  ".cm-completionInfo": { fontFamily: "var(--sans)", maxWidth: "320px" },
  ".cm-diagnostic": { fontFamily: "var(--sans)", borderLeftWidth: "3px" },
});

const colours = HighlightStyle.define([
  { tag: tags.propertyName, color: "var(--json-name)" },
  { tag: tags.string, color: "var(--json-string)" },
  { tag: tags.number, color: "var(--json-number)" },
  { tag: [tags.bool, tags.null], color: "var(--json-word)" },
  { tag: tags.punctuation, color: "var(--muted)" },
]);

interface Props {
  value: string;
  label: string;
  readOnly?: boolean;
  schema?: Schema;
  onChange?: (text: string) => void;
  onSubmit?: () => void;
}

export function Editor(props: Props) {
  const host = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | null>(null);
  const latest = useRef(props);
  latest.current = props;

  useEffect(() => {
    const root = host.current!.shadowRoot ?? host.current!.attachShadow({ mode: "open" });
    const mounted = new EditorView({
      root,
      parent: root,
      state: EditorState.create({
        doc: props.value,
        extensions: [
          props.readOnly ? [EditorState.readOnly.of(true)] : [lineNumbers(), history(), closeBrackets(), highlightActiveLine(), indentOnInput()],
          props.readOnly ? [] : [linter(jsonParseLinter(), { delay: 300 }), lintGutter()],
          autocompletion({ override: [(context) => complete(context, latest.current.schema)], icons: false }),
          drawSelection(),
          bracketMatching(),
          json(),
          syntaxHighlighting(colours),
          theme,
          EditorView.lineWrapping,
          EditorView.contentAttributes.of({ "aria-label": props.label }),
          keymap.of([
            { key: "Mod-Enter", run: () => (latest.current.onSubmit?.(), true) },
            ...closeBracketsKeymap,
            ...completionKeymap,
            ...defaultKeymap,
            ...historyKeymap,
          ]),
          EditorView.updateListener.of((update) => {
            if (update.docChanged && !update.transactions.some((t) => t.isUserEvent("set"))) latest.current.onChange?.(update.state.doc.toString());
          }),
        ],
      }),
    });
    view.current = mounted;
    return () => mounted.destroy();
  }, []);

  useEffect(() => {
    const mounted = view.current;
    if (!mounted || mounted.state.doc.toString() === props.value) return;
    mounted.dispatch({ changes: { from: 0, to: mounted.state.doc.length, insert: props.value }, userEvent: "set" });
  }, [props.value]);

  return <div class={props.readOnly ? "editor read-only" : "editor"} ref={host} />;
}

type SyntaxNode = ReturnType<typeof syntaxTree>["topNode"];

// pathOf returns the path of a node in the value.
function pathOf(node: SyntaxNode, state: EditorState): (string | number)[] {
  const path: (string | number)[] = [];
  for (let child = node, parent = node.parent; parent; child = parent, parent = parent.parent) {
    if (parent.name === "Property") {
      const name = parent.getChild("PropertyName");
      if (name && child.name !== "PropertyName") path.unshift(parse(state.sliceDoc(name.from, name.to)) as string);
    } else if (parent.name === "Array") {
      let index = 0;
      for (let before = child.prevSibling; before; before = before.prevSibling) if (!["[", ",", "⚠"].includes(before.name)) index++;
      path.unshift(index);
    }
  }
  return path;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text.replace(/^"|"$/g, "");
  }
}

function complete(context: CompletionContext, root: Schema | undefined): CompletionResult | null {
  if (!root) return null;
  const { state, pos } = context;
  const node = syntaxTree(state).resolveInner(pos, -1);
  const value = parse(state.doc.toString()) as Json;
  const word = context.matchBefore(/"?[\w.$-]*/);
  const from = word?.from ?? pos;
  const object = node.name === "Object" ? node : node.name === "PropertyName" ? node.parent?.parent : node.name === "⚠" && node.parent?.name === "Object" ? node.parent : null;
  const before = state.sliceDoc(0, from).trimEnd();
  if (object && /[{,]$/.test(before)) {
    const path = pathOf(object, state);
    const schema = at(root, path, value);
    const present = new Set(object.getChildren("Property").map((p) => p.getChild("PropertyName")).filter((name) => name && name.from !== from).map((name) => parse(state.sliceDoc(name!.from, name!.to))));
    const options = Object.entries(schema.properties ?? {})
      .filter(([name]) => !present.has(name))
      .map(([name, property], i) => {
        const found = resolve(property, root);
        const follows = /^"?\s*:/.test(state.sliceDoc(pos, pos + 40));
        return {
          label: JSON.stringify(name),
          apply: JSON.stringify(name) + (follows ? "" : ": "),
          detail: kindOf(property, root) + (schema.required?.includes(name) ? ", required" : ""),
          ...(found.description ? { info: found.description } : {}),
          boost: (schema.required?.includes(name) ? 99 : 0) - Math.min(i, 90), // in the order of the schema, required ones first
        };
      });
    const to = state.sliceDoc(pos, pos + 1) === '"' && word?.text.startsWith('"') ? pos + 1 : pos;
    return options.length ? { from, to, options, validFor: /^"?[\w.$-]*"?$/ } : null;
  }
  if (!/[:[,]$/.test(before) || (!word?.text && !context.explicit && !/\s$/.test(state.sliceDoc(0, pos)))) return null;
  let path: (string | number)[];
  if (node.name === "Property" || (node.name === "⚠" && node.parent?.name === "Property")) {
    const property = node.name === "Property" ? node : node.parent!;
    const name = property.getChild("PropertyName");
    if (!name) return null;
    path = [...pathOf(property, state), parse(state.sliceDoc(name.from, name.to)) as string];
  } else if (node.name === "Array") {
    path = [...pathOf(node, state), 0];
  } else {
    path = pathOf(node, state);
  }
  const schema = at(root, path, value);
  const found = choices(schema, root) ?? (schema.type === "boolean" ? [true, false].map((v) => ({ value: v, label: "" })) : []);
  const options: { label: string; detail?: string; boost?: number }[] = found.map((choice, i) => ({
    label: JSON.stringify(choice.value),
    boost: 99 - Math.min(i, 190),
    ...(choice.label && choice.label !== choice.value ? { detail: choice.label } : {}),
  }));
  if (schema.const !== undefined) options.push({ label: JSON.stringify(schema.const) });
  if (schema.default !== undefined && !options.length) options.push({ label: JSON.stringify(schema.default), detail: "default" });
  const to = state.sliceDoc(pos, pos + 1) === '"' && word?.text.startsWith('"') ? pos + 1 : pos;
  return options.length ? { from, to, options, validFor: /^"?[\w.$-]*"?$/ } : null;
}
