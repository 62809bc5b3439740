// Small parts that several views use.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { say } from "./state";
import type { Json } from "./types";

// OutsideLink links to a page of another site, without telling it where the user comes from. Other URLs are text.
export function OutsideLink({ url, children }: { url: string; children?: ComponentChildren }) {
  if (!/^(https?|mailto):/i.test(url)) return <>{children ?? url}</>;
  return <a href={url} target="_blank" rel="noopener noreferrer" title={url}>{children ?? url}</a>;
}

// breakable returns a name that wraps after its separators.
export function breakable(name: string): ComponentChildren {
  return name.split(/(?<=[_/.:-])/).flatMap((part, i) => (i ? [<wbr key={i} />, part] : part));
}

export async function copyText(text: string, what: string) {
  try {
    await navigator.clipboard.writeText(text);
    say(`Copied ${what}.`);
  } catch {
    say("The browser does not allow copying.");
  }
}

export function CopyButton({ text, what, label = "Copy" }: { text: () => string | Promise<string>; what: string; label?: string }) {
  return (
    <button type="button" class="quiet" onClick={async () => {
      try {
        await copyText(await text(), what);
      } catch (error) {
        say(error instanceof Error ? error.message : String(error));
      }
    }}>{label}</button>
  );
}

// save lets the browser save data as a file.
export function save(data: Blob, name: string) {
  const url = URL.createObjectURL(data);
  const link = document.createElement("a");
  link.href = url;
  link.download = fileName(name);
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

// fileName returns the last segment of a URI or path as the name of a file that every system accepts.
export function fileName(uri: string): string {
  let last = uri.replace(/[?#].*$/s, "").split(/[/\\]/).pop()!;
  try {
    last = decodeURIComponent(last);
  } catch {
    // not encoded
  }
  const name = last.replaceAll(/[^\w.-]+/g, "_").slice(-100).replaceAll(/^\.+|\.+$/g, "");
  return /^(con|prn|aux|nul|com\d|lpt\d)(\.|$)/i.test(name) ? "_" + name : name || "file";
}

export function Tabs<T extends string>({ label, tabs, selected, onSelect }: { label: string; tabs: { id: T; label: ComponentChildren }[]; selected: T; onSelect: (id: T) => void }) {
  return (
    <div class="segments" role="group" aria-label={label}>
      {tabs.map((tab) => (
        <button key={tab.id} type="button" class={tab.id === selected ? "segment on" : "segment"} aria-pressed={tab.id === selected} onClick={() => onSelect(tab.id)}>{tab.label}</button>
      ))}
    </div>
  );
}

const maxLines = 16;
const maxShort = 1500; // characters

// Folded shows only the beginning of what is made of a long text, until the user wants to see all of it.
export function Folded({ text, children }: { text: string; children: ComponentChildren }) {
  const [isOpen, setOpen] = useState(false);
  const lines = text.split("\n", maxLines + 1).length;
  if (text.length <= maxShort && lines <= maxLines) return <>{children}</>;
  return (
    <div class={isOpen ? "folded open" : "folded"}>
      <div>{children}</div>
      <button type="button" class="quiet" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>{isOpen ? "Show less" : `Show all, ${bytes(text.length)}`}</button>
    </div>
  );
}

const treeStep = 100; // members that a tree shows at once
const maxString = 240; // characters of a string that a tree shows at first

function lengthOf(value: Json): number {
  return typeof value === "object" && value !== null ? Object.keys(value).length : 0;
}

// Tree shows a JSON value whose objects and arrays can be opened.
export function Tree({ value, name, open = true, depth = 0 }: { value: Json; name?: string; open?: boolean; depth?: number }) {
  const [shown, setShown] = useState(treeStep);
  const [isOpen, setOpen] = useState(open);
  const [isAll, setAll] = useState(false);
  const label = name === undefined ? null : <span class="json-name">{name}: </span>;
  if (typeof value !== "object" || value === null) {
    const kind = value === null || typeof value === "boolean" ? "word" : typeof value;
    const text = JSON.stringify(value);
    const cut = !isAll && text.length > maxString + 60; // a few more characters are not worth a button
    return (
      <div class="tree-leaf">
        {label}<span class={"json-" + kind}>{cut ? text.slice(0, maxString) + "…" : text}</span>
        {cut && <button type="button" class="quiet" onClick={() => setAll(true)}>Show all, {bytes(text.length)}</button>}
      </div>
    );
  }
  const entries = Object.entries(value);
  const size = Array.isArray(value) ? `[${entries.length}]` : `{${entries.length}}`;
  return (
    <details class="tree" open={isOpen} onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>{label}<span class="muted">{size}</span></summary>
      {isOpen && (
        <div class="tree-members">
          {entries.slice(0, shown).map(([key, member]) => <Tree key={key} name={key} value={member} open={depth < 2 && entries.length <= 20 && lengthOf(member) <= 20} depth={depth + 1} />)}
          {entries.length > shown && <button type="button" class="quiet" onClick={() => setShown(shown + treeStep)}>Show {Math.min(treeStep, entries.length - shown)} more of {entries.length - shown}</button>}
        </div>
      )}
    </details>
  );
}

export function millis(n: number): string {
  return n < 10 ? `${n.toFixed(1)} ms` : n < 1000 ? `${Math.round(n)} ms` : `${(n / 1000).toFixed(2)} s`;
}

export function bytes(n: number): string {
  return n < 1000 ? `${n} B` : n < 1_000_000 ? `${(n / 1000).toFixed(1)} kB` : `${(n / 1_000_000).toFixed(1)} MB`;
}

export function clock(time: string): string {
  const date = new Date(time);
  return date.toLocaleTimeString("en-GB") + "." + String(date.getMilliseconds()).padStart(3, "0");
}

export function pretty(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
