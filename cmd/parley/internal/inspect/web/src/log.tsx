// The log of the messages in both directions. Only the rows that are visible exist, so that its length does not matter.
import { computed, signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { get, getBlob, getText, post } from "./api";
import { Editor } from "./editor";
import { isNarrow, logOpen, openLog, Separator } from "./panes";
import { bytes, clock, copyText, millis, pretty, save } from "./parts";
import { attempt, droppedBefore, errorText, messages, servers } from "./state";
import type { FullMessage, Header, Message } from "./types";

const logRaised = signal(false); // the log takes the place of the view
const selected = signal(0); // number of the message
const server = signal("");
const direction = signal<"" | "sent" | "received">("");
const kind = signal("");
const method = signal("");
const text = signal("");
const found = signal<Set<number> | null>(null); // the result of the search in the texts
const following = signal(true); // the log shows the newest message
const rowHeight = 24;

const shown = computed(() => {
  const words = method.value.toLowerCase();
  return messages.value.filter(
    (one) =>
      (!server.value || one.server === server.value) &&
      (!direction.value || one.sent === (direction.value === "sent")) &&
      (!kind.value || one.kind === kind.value) &&
      (!words || `${one.method ?? ""} ${one.subject ?? ""} ${one.id ?? ""}`.toLowerCase().includes(words)) &&
      (!found.value || found.value.has(one.number)),
  );
});

export function showMessage(number: number) {
  openLog();
  selected.value = number;
  following.value = false;
  if (!shown.value.some((one) => one.number === number)) resetFilters();
}

function resetFilters() {
  server.value = direction.value = kind.value = method.value = text.value = "";
  found.value = null;
}

let searchTimer = 0;
function search(words: string) {
  text.value = words;
  clearTimeout(searchTimer);
  if (!words) {
    found.value = null;
    return;
  }
  searchTimer = window.setTimeout(async () => {
    const numbers = await attempt(get<number[]>("/api/search?text=" + encodeURIComponent(words)));
    if (numbers && text.value === words) found.value = new Set(numbers);
  }, 200);
}

export function Log() {
  const all = messages.value.length;
  const rows = shown.value;
  const raised = logRaised.value || isNarrow.value;
  return (
    <section class={!logOpen.value ? "log" : raised ? "log open raised" : "log open"} aria-label="Message log">
      {logOpen.value && !raised && <Separator pane="log" />}
      <header class="log-head">
        <button type="button" class="quiet strong" aria-expanded={logOpen.value} aria-controls="log-body" onClick={() => openLog(!logOpen.value)}>{logOpen.value ? "▾" : "▸"} Log</button>
        <span class="muted count" role="status">{rows.length === all ? `${all} ${all === 1 ? "message" : "messages"}` : `${rows.length} of ${all} messages`}{droppedBefore.value > 1 && `, ${droppedBefore.value - 1} older dropped`}</span>
        {logOpen.value && (
          <>
            <input type="search" class="filter" id="log-filter" aria-label="Filter by method, name or id" placeholder="Method or name" value={method.value} onInput={(e) => (method.value = e.currentTarget.value)} />
            <input type="search" class="filter" aria-label="Search in messages and headers" placeholder="Search text" value={text.value} onInput={(e) => search(e.currentTarget.value)} />
            <select aria-label="Direction" value={direction.value} onChange={(e) => (direction.value = e.currentTarget.value as "")}>
              <option value="">both ways</option><option value="sent">sent</option><option value="received">received</option>
            </select>
            <select aria-label="Kind" value={kind.value} onChange={(e) => (kind.value = e.currentTarget.value)}>
              <option value="">all kinds</option>
              {["request", "response", "error", "notification", "http", "invalid", "program"].map((one) => <option key={one} value={one}>{one}</option>)}
            </select>
            {servers.value.length > 1 && (
              <select aria-label="Server" value={server.value} onChange={(e) => (server.value = e.currentTarget.value)}>
                <option value="">all servers</option>
                {servers.value.map((one) => <option key={one.name} value={one.name}>{one.name}</option>)}
              </select>
            )}
            <span class="grow" />
            <button type="button" class="quiet" aria-pressed={following.value} onClick={() => (following.value = !following.value)}>Follow</button>
            {!isNarrow.value && <button type="button" class="quiet" aria-pressed={logRaised.value} onClick={() => (logRaised.value = !logRaised.value)}>Full height</button>}
            <ExportMenu />
            <button type="button" class="quiet" onClick={() => attempt(post("/api/clear"))}>Clear</button>
          </>
        )}
      </header>
      {logOpen.value && (
        <div class="log-body" id="log-body">
          <Rows rows={rows} />
          {selected.value > 0 && <><Separator pane="message" /><Detail number={selected.value} /></>}
        </div>
      )}
    </section>
  );
}

function ExportMenu() {
  const download = async (format: string, name: string) => {
    try {
      save(await getBlob("/api/export?format=" + format), name);
    } catch (error) {
      await attempt(Promise.reject(new Error(errorText(error))));
    }
  };
  return (
    <>
      <button type="button" class="quiet" onClick={() => void download("jsonl", "recording.jsonl")} title="A recording for parley mock, without credentials">Export recording</button>
      <button type="button" class="quiet" onClick={() => void download("har", "recording.har")} title="The HTTP exchanges as an HTTP archive, without credentials">HAR</button>
    </>
  );
}

// Rows shows the rows that are visible, and a few more.
function Rows({ rows }: { rows: Message[] }) {
  const box = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(300);
  useEffect(() => {
    const observer = new ResizeObserver(() => setHeight(box.current?.clientHeight ?? 300));
    observer.observe(box.current!);
    return () => observer.disconnect();
  }, []);
  useEffect(() => {
    if (following.value && box.current) box.current.scrollTop = rows.length * rowHeight;
  }, [rows, following.value, height]);
  useEffect(() => {
    const at = rows.findIndex((one) => one.number === selected.value);
    const y = at * rowHeight;
    if (at >= 0 && box.current && (y < box.current.scrollTop || y + rowHeight > box.current.scrollTop + box.current.clientHeight)) box.current.scrollTop = y - box.current.clientHeight / 2;
  }, [selected.value]);
  const first = Math.max(0, Math.floor(top / rowHeight) - 5);
  const last = Math.min(rows.length, Math.ceil((top + height) / rowHeight) + 5);
  const onScroll = () => {
    const now = box.current!;
    setTop(now.scrollTop);
    following.value = now.scrollTop + now.clientHeight >= now.scrollHeight - rowHeight;
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const at = rows.findIndex((one) => one.number === selected.value);
    const page = Math.max(1, Math.floor(height / rowHeight) - 1);
    const steps: { [key: string]: number } = { ArrowDown: at + 1, ArrowUp: Math.max(at - 1, 0), PageDown: at + page, PageUp: at - page, Home: 0, End: rows.length - 1 };
    const to = steps[event.key];
    if (event.key === "Escape") selected.value = 0;
    if (to === undefined) return;
    event.preventDefault();
    following.value = false;
    selected.value = rows[Math.max(0, Math.min(to, rows.length - 1))]?.number ?? 0;
  };
  return (
    <div class="rows" ref={box} onScroll={onScroll} onKeyDown={onKeyDown} tabIndex={0} role="listbox" aria-label="Messages" aria-activedescendant={selected.value ? "m" + selected.value : undefined}>
      <div class="space" role="presentation" style={{ height: `${rows.length * rowHeight}px` }}>
        {rows.slice(first, last).map((one, i) => <Row key={one.number} message={one} top={(first + i) * rowHeight} index={first + i} total={rows.length} />)}
      </div>
    </div>
  );
}

function Row({ message, top, index, total }: { message: Message; top: number; index: number; total: number }) {
  const on = message.number === selected.value;
  return (
    <div id={"m" + message.number} class={`row ${message.kind} ${on ? "on" : ""}`} role="option" aria-selected={on} aria-posinset={index + 1} aria-setsize={total} style={{ transform: `translateY(${top}px)` }}
      title={[message.method, message.subject, message.server].filter(Boolean).join("\n")} onClick={() => (selected.value = message.number)}>
      <span class="at">{clock(message.time)}</span>
      <span class={message.sent ? "way sent" : "way"} title={message.sent ? "sent" : "received"}>{message.sent ? "→" : "←"}<span class="sr">{message.sent ? "sent" : "received"}</span></span>
      <span class="method">{message.method ?? message.kind}</span>
      <span class="subject">{message.subject}</span>
      <span class="row-kind">{message.kind}</span>
      <span class="num">{message.status ?? ""}</span>
      <span class="num">{message.millis !== undefined ? millis(message.millis) : ""}</span>
      <span class="num">{bytes(message.size)}</span>
    </div>
  );
}

function Detail({ number }: { number: number }) {
  const [message, setMessage] = useState<FullMessage | null>(null);
  const [problem, setProblem] = useState("");
  useEffect(() => {
    const abort = new AbortController();
    setProblem("");
    get<FullMessage>("/api/messages/" + number, abort.signal).then(setMessage, (error) => abort.signal.aborted || (setMessage(null), setProblem(errorText(error))));
    return () => abort.abort();
  }, [number]);
  if (problem) return <div class="log-detail"><p class="problem">{problem}</p></div>;
  if (!message) return <div class="log-detail" aria-busy="true" />;
  const copy = async (as: string, what: string) => {
    const text = await attempt(getText(`/api/messages/${number}/copy?as=${as}`));
    if (text !== undefined) await copyText(text, what);
  };
  const shownText = message.text.length > 200_000 ? message.text.slice(0, 200_000) : pretty(message.text);
  return (
    <div class="log-detail" role="region" aria-label={"Message " + number}>
      <div class="toolbar">
        <strong>#{number}</strong>
        <span class="muted">{message.kind}{message.id ? `, id ${message.id}` : ""}, {bytes(message.size)}{message.cut ? ", cut" : ""}</span>
        {!!message.request && <button type="button" class="quiet" onClick={() => showMessage(message.request!)}>Request #{message.request}</button>}
        <span class="grow" />
        <button type="button" class="quiet" onClick={() => void copyText(message.text, "the message")}>Copy</button>
        {message.sent && message.kind === "request" && (
          <>
            <button type="button" class="quiet" onClick={() => void copy("parley", "the command of parley")}>as parley</button>
            {message.exchange && <button type="button" class="quiet" onClick={() => void copy("curl", "the command of curl")}>as curl</button>}
          </>
        )}
        <button type="button" class="quiet" aria-label="Close the message" onClick={() => (selected.value = 0)}>✕</button>
      </div>
      {message.exchange && (
        <div class="headers">
          <Headers title={`${message.exchange.method} ${message.exchange.url}`} header={message.exchange.requestHeader} />
          {message.exchange.status !== undefined && <Headers title={`Status ${message.exchange.status}`} header={message.exchange.responseHeader ?? {}} />}
        </div>
      )}
      {message.text && <Editor key={number} label={"Message " + number} value={shownText} readOnly />}
    </div>
  );
}

export function Headers({ title, header }: { title: string; header: Header }) {
  const lines = Object.entries(header).sort(([a], [b]) => a.localeCompare(b));
  return (
    <details class="header" open>
      <summary><code class="wrap">{title}</code></summary>
      <dl>
        {lines.map(([name, values]) => (
          <div key={name}><dt>{name}</dt><dd>{values.join(", ")}</dd></div>
        ))}
      </dl>
    </details>
  );
}
