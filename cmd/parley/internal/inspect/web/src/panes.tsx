// The panes of the page: their sizes, which the browser keeps for the address of the page, and the one that a narrow window shows.
import { computed, effect, signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useId, useRef, useState } from "preact/hooks";
import { breakable } from "./parts";
import { section, selectedServer } from "./state";

// The panes that can be resized: the size at the start, the minimum in pixels, and the maximum as a part of the window. grows is
// the direction in which a drag enlarges the pane: 1 is to the right, -1 to the left or up.
const panes = {
  side: { label: "Width of servers and views", start: 216, min: 150, max: 0.3, grows: 1 },
  list: { label: "Width of the list", start: 260, min: 150, max: 0.4, grows: 1 },
  questions: { label: "Width of the questions", start: 420, min: 300, max: 0.4, grows: -1 },
  message: { label: "Width of the message", start: 600, min: 240, max: 0.6, grows: -1 },
  log: { label: "Height of the log", start: 240, min: 110, max: 1 / 3, grows: -1 },
};
type Pane = keyof typeof panes;

function stored<T>(key: string, otherwise: T): T {
  try {
    return (JSON.parse(localStorage.getItem(key) ?? "") as T) ?? otherwise;
  } catch {
    return otherwise;
  }
}

const sizes = signal<{ [pane: string]: number }>(stored("parley-panes", {}));
const viewport = signal({ width: innerWidth, height: innerHeight });
addEventListener("resize", () => (viewport.value = { width: innerWidth, height: innerHeight }));

function sizeOf(pane: Pane) {
  const { start, min, max } = panes[pane];
  const most = Math.max(min, Math.floor(max * (pane === "log" ? viewport.value.height : viewport.value.width)));
  return { most, now: Math.max(min, Math.min(Number(sizes.value[pane]) || start, most)) };
}

// The style sheet has the sizes as custom properties.
effect(() => {
  for (const pane in panes) document.documentElement.style.setProperty("--" + pane, sizeOf(pane as Pane).now + "px");
});

// Separator changes the size of a pane by the pointer and by the arrow keys, Home and End. A double click restores the size.
export function Separator({ pane }: { pane: Pane }) {
  const { label, start, min, grows } = panes[pane];
  const { now, most } = sizeOf(pane);
  const set = (size: number) => {
    sizes.value = { ...sizes.value, [pane]: Math.max(min, Math.min(Math.round(size), most)) };
    localStorage.setItem("parley-panes", JSON.stringify(sizes.value));
  };
  const drag = (event: PointerEvent) => {
    const bar = event.currentTarget as HTMLElement;
    const at = (e: PointerEvent) => grows * (pane === "log" ? e.clientY : e.clientX);
    const offset = now - at(event);
    bar.setPointerCapture(event.pointerId);
    bar.onpointermove = (e) => set(offset + at(e));
    bar.onpointerup = bar.onpointercancel = () => (bar.onpointermove = null);
  };
  const move = (event: KeyboardEvent) => {
    const forward = pane === "log" ? "ArrowDown" : "ArrowRight";
    const back = pane === "log" ? "ArrowUp" : "ArrowLeft";
    const to: { [key: string]: number } = { [forward]: now + grows * 16, [back]: now - grows * 16, Home: min, End: most };
    const size = to[event.key];
    if (size === undefined) return;
    event.preventDefault();
    set(size);
  };
  return (
    <div class="separator" data-pane={pane} role="separator" tabIndex={0} aria-label={label} aria-orientation={pane === "log" ? "horizontal" : "vertical"} aria-valuenow={now} aria-valuemin={min} aria-valuemax={most}
      onPointerDown={drag} onKeyDown={move} onDblClick={() => set(start)} />
  );
}

// A narrow window shows one pane at a time: the list of a view, or the details of an entry.
export const isNarrow = computed(() => viewport.value.width < 700);
const detailOpen = signal(false);
effect(() => {
  void section.value, selectedServer.value;
  detailOpen.value = false;
});

export function openDetail() {
  detailOpen.value = true;
  if (isNarrow.value) requestAnimationFrame(() => document.querySelector<HTMLElement>(".back")?.focus());
}

function closeDetail() {
  detailOpen.value = false;
  requestAnimationFrame(() => document.querySelector<HTMLElement>(".column .entry.on")?.focus());
}

// The log is open in a large window at first.
const logChoice = signal<boolean | undefined>(undefined); // of the user
export const logOpen = computed(() => logChoice.value ?? (viewport.value.height >= 700 && !isNarrow.value));
effect(() => {
  void isNarrow.value;
  logChoice.value = undefined;
});

export function openLog(open = true) {
  logChoice.value = open;
}

// Split shows a list, and the details of its selected entry.
export function Split({ back, list, children }: { back: string; list: ComponentChildren; children: ComponentChildren }) {
  return (
    <div class={detailOpen.value ? "split open" : "split"}>
      {list}
      <Separator pane="list" />
      <div class="content">
        <button type="button" class="back quiet" onClick={closeDetail}>‹ {back}</button>
        {children}
      </div>
    </div>
  );
}

// Long names end in an ellipsis, or wrap if the user wants this.
const wrapNames = signal(stored("parley-wrap", false));
effect(() => void document.documentElement.classList.toggle("wrap-names", wrapNames.value));

function WrapButton() {
  const toggle = () => {
    wrapNames.value = !wrapNames.value;
    localStorage.setItem("parley-wrap", String(wrapNames.value));
  };
  return <button type="button" class="quiet" aria-pressed={wrapNames.value} title="Wrap long names" onClick={toggle}>Wrap</button>;
}

// Entry is an entry of a list. Its name and note are shown in full while the pointer is on it.
export function Entry({ on, name, note, before, after, current = "true", onSelect }: EntryProps) {
  return (
    <li>
      <button type="button" class={on ? "entry on" : "entry"} aria-current={on ? current : undefined} onClick={onSelect} title={note ? `${name}\n${note}` : name}>
        {before}
        <span class="entry-name"><span>{breakable(name)}</span>{after}</span>
        {note && <span class="entry-note">{note}</span>}
      </button>
    </li>
  );
}

interface EntryProps {
  on: boolean;
  name: string;
  note: string;
  before?: ComponentChildren;
  after?: ComponentChildren;
  current?: "true" | "page";
  onSelect: () => void;
}

interface ListProps {
  label: string;
  entries: { key: string; name: string; note: string; marks?: ComponentChildren }[];
  selected: string;
  onSelect: (key: string) => void;
  loading?: boolean;
  error?: string;
  empty?: string;
  onRefresh?: () => void;
  children?: ComponentChildren;
}

// EntryList is a list with a filter. The arrow keys move through it.
export function EntryList({ label, entries, selected, onSelect, loading = false, error, empty, onRefresh, children }: ListProps) {
  const [filter, setFilter] = useState("");
  const list = useRef<HTMLUListElement>(null);
  const id = useId();
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const shown = entries.filter((entry) => words.every((word) => (entry.name + " " + entry.key + " " + entry.note).toLowerCase().includes(word)));
  const move = (event: KeyboardEvent) => {
    const buttons = [...(list.current?.querySelectorAll<HTMLButtonElement>("button.entry") ?? [])];
    const at = buttons.indexOf(document.activeElement as HTMLButtonElement);
    const to = event.key === "ArrowDown" ? at + 1 : event.key === "ArrowUp" ? at - 1 : event.key === "Home" ? 0 : event.key === "End" ? buttons.length - 1 : -2;
    if (to === -2) return;
    event.preventDefault();
    buttons[Math.max(0, Math.min(to, buttons.length - 1))]?.focus();
  };
  const select = (key: string) => {
    onSelect(key);
    openDetail();
  };
  return (
    <div class="column">
      <div class="list-head">
        <label class="sr" for={id}>Filter {label.toLowerCase()}</label>
        <input id={id} type="search" class="filter" data-filter placeholder={`Filter ${entries.length} ${label.toLowerCase()}`} value={filter}
          onInput={(e) => setFilter(e.currentTarget.value)} onKeyDown={(e) => (e.key === "ArrowDown" ? move(e) : e.key === "Escape" && setFilter(""))} />
        <WrapButton />
        {onRefresh && <button type="button" class="quiet" onClick={onRefresh} disabled={loading} aria-label={`Reload the ${label.toLowerCase()}`} title="Reload">↻</button>}
      </div>
      {error && <p class="problem" role="alert">{error}</p>}
      {!loading && !error && !shown.length && <p class="empty">{entries.length ? "Nothing matches the filter." : empty}</p>}
      <ul class="list" ref={list} aria-label={label} aria-busy={loading} onKeyDown={move}>
        {shown.map(({ key, name, note, marks }) => <Entry key={key} on={key === selected} name={name} note={note} after={marks} onSelect={() => select(key)} />)}
      </ul>
      {children}
    </div>
  );
}
