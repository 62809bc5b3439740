// The page: the servers, the views of the selected one, the questions and the log.
import { signal } from "@preact/signals";
import { render } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { post } from "./api";
import { Calls } from "./calls";
import { Connection, State } from "./connection";
import { Log } from "./log";
import { Entry, logOpen, openLog, Separator } from "./panes";
import { Prompts } from "./prompts";
import { Questions } from "./questions";
import { Resources } from "./resources";
import { Skills } from "./skills";
import { attempt, current, follow, has, hello, link, notice, questions, section, sections, selectedServer, servers, theme, type Section, type Theme } from "./state";
import { Tools } from "./tools";
import type { Server } from "./types";

const titles: { [name in Section]: string } = { tools: "Tools", prompts: "Prompts", resources: "Resources", skills: "Skills", calls: "Calls", connection: "Connection" };
const helpOpen = signal(false);

function setTheme(next: Theme) {
  theme.value = next;
  localStorage.setItem("parley-theme", next);
  document.documentElement.dataset.theme = next;
}
document.documentElement.dataset.theme = theme.value;

function App() {
  const server = current.value;
  useEffect(() => document.querySelector(".servers .on")?.scrollIntoView({ block: "nearest", inline: "nearest" }), [server?.name]);
  if (link.value === "rejected") return <Rejected />;
  return (
    <>
      <a class="skip" href="#main">Skip to the content</a>
      <header class="top">
        <h1><img src="icon.svg" alt="" width="18" height="18" /> Parley <span>Inspector</span></h1>
        <span class="muted version">{hello.value.version}</span>
        <span class="grow" />
        {link.value === "lost" && <span class="badge bad" role="alert">parley inspect does not respond</span>}
        {questions.value.length > 0 && <button type="button" class="badge busy" onClick={focusQuestion}>{questions.value.length} {questions.value.length === 1 ? "question" : "questions"}</button>}
        <label class="sr" for="theme">Colours</label>
        <select id="theme" value={theme.value} onChange={(e) => setTheme(e.currentTarget.value as Theme)}>
          <option value="system">System colours</option><option value="light">Light</option><option value="dark">Dark</option>
        </select>
        <button type="button" onClick={() => (helpOpen.value = true)} aria-keyshortcuts="?"><span class="word">Shortcuts</span> <kbd>?</kbd></button>
      </header>
      <nav class="side" data-view={section.value} aria-label="Servers and views">
        <h2>Servers</h2>
        <ul class="servers">
          {servers.value.map((one) => (
            <Entry key={one.name} on={one === server} name={one.name} note={one.revision ?? stateNote(one)} before={<span class={"dot " + one.state} aria-hidden="true" />} onSelect={() => (selectedServer.value = one.name)} />
          ))}
        </ul>
        <AddServer />
        <h2>Views</h2>
        <ul class="views">
          {sections.map((name, i) => (
            <Entry key={name} on={section.value === name} name={titles[name]} note={lacks(server, name) ? "none" : ""} before={<kbd>{i + 1}</kbd>} current="page" onSelect={() => (section.value = name)} />
          ))}
        </ul>
      </nav>
      <main id="main" tabIndex={-1}>
        <Separator pane="side" />
        <Questions />
        {server ? <View server={server} /> : <p class="empty">Add the URL of a server here, or pass servers to parley inspect on the command line.</p>}
      </main>
      <Log />
      <div class={notice.value ? "notice" : "notice none"} role="status" aria-live="polite">{notice.value}</div>
      <Help />
    </>
  );
}

function stateNote(server: Server): string {
  return server.state === "failed" ? (server.login ? "requires a login" : "failed") : server.state === "connecting" ? "connecting…" : "not connected";
}

// lacks reports whether a server has said that it has nothing for a view.
function lacks(server: Server | undefined, name: Section): boolean {
  return !!server?.capabilities && (name === "tools" || name === "prompts" || name === "resources" || name === "skills") && !has(server, name);
}

function View({ server }: { server: Server }) {
  const name = section.value;
  if (name === "calls") return <Calls />;
  if (name === "connection") return <Connection server={server} />;
  if (server.state !== "ready" && !server.info) {
    return (
      <div class="detail">
        <p><State server={server} /></p>
        {server.problem && <p class="problem" role="alert">{server.problem}</p>}
        <div class="actions"><button type="button" class="primary" onClick={() => (section.value = "connection")}>{server.login ? "Log in" : "Connection"}</button></div>
      </div>
    );
  }
  return name === "tools" ? <Tools server={server} /> : name === "prompts" ? <Prompts server={server} /> : name === "skills" ? <Skills server={server} /> : <Resources server={server} />;
}

function AddServer() {
  const [url, setUrl] = useState("");
  const add = async () => {
    const added = await attempt(post<{ name: string }>("/api/servers", { url: url.trim() }));
    if (added) {
      selectedServer.value = added.name;
      setUrl("");
    }
  };
  return (
    <form class="add-server" onSubmit={(e) => (e.preventDefault(), void add())}>
      <label class="sr" for="add-url">URL of a server to add</label>
      <input id="add-url" type="url" placeholder="Add a URL" value={url} onInput={(e) => setUrl(e.currentTarget.value)} />
      <button disabled={!url.trim()}>Add</button>
    </form>
  );
}

function Rejected() {
  return (
    <main class="rejected">
      <h1>Parley Inspector</h1>
      <p>This tab may not use the inspector, because its token is missing. Open the address that <code>parley inspect</code> printed.</p>
    </main>
  );
}

const shortcuts: [string, string][] = [
  ["1 … 6", "Tools, Prompts, Resources, Skills, Calls, Connection"],
  ["/", "Filter the list"],
  ["f", "Filter the log"],
  ["l", "Open or close the log"],
  ["q", "Go to a server's question"],
  ["[ ]", "Previous and next server"],
  ["↑ ↓", "Move in a list or in the log"],
  ["← →", "Resize a pane, with the focus on its edge"],
  ["Ctrl Enter", "Call the tool, get the prompt"],
  ["Esc", "Close the help or the message, leave a field"],
  ["?", "This help"],
];

function Help() {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (helpOpen.value) dialog.current?.showModal();
    else dialog.current?.close();
  }, [helpOpen.value]);
  return (
    <dialog ref={dialog} aria-labelledby="help-title" onClose={() => (helpOpen.value = false)}>
      <h2 id="help-title">Shortcuts</h2>
      <dl class="shortcuts">
        {shortcuts.map(([keys, text]) => <div key={keys}><dt>{keys.split(" ").map((one) => (one === "…" ? " … " : <kbd>{one}</kbd>))}</dt><dd>{text}</dd></div>)}
      </dl>
      <p class="muted">Shortcuts without Ctrl don't work in text fields. <a href="licenses.txt" target="_blank" rel="noopener">Licenses of the packages in this page</a></p>
      <form method="dialog"><button class="primary">Close</button></form>
    </dialog>
  );
}

function focusQuestion() {
  const region = document.getElementById("questions");
  (region?.querySelector<HTMLElement>("input, textarea, select, a.button, button") ?? region)?.focus();
}

function isField(target: EventTarget | null): boolean {
  const element = target instanceof HTMLElement ? target : null;
  return !!element && (element.matches("input:not([type=checkbox]):not([type=radio]), textarea, select") || element.isContentEditable || !!element.shadowRoot);
}

addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.altKey || event.ctrlKey || event.metaKey || document.querySelector("dialog[open]")) return;
  if (isField(event.target)) {
    if (event.key === "Escape") (event.target as HTMLElement).blur();
    return;
  }
  const view = sections[Number(event.key) - 1];
  const names = servers.value.map((one) => one.name);
  const at = names.indexOf(current.value?.name ?? "");
  const focus = (selector: string) => requestAnimationFrame(() => document.querySelector<HTMLElement>(selector)?.focus());
  if (view) section.value = view;
  else if (event.key === "/") focus("[data-filter]");
  else if (event.key === "f") {
    openLog();
    focus("#log-filter");
  } else if (event.key === "l") openLog(!logOpen.value);
  else if (event.key === "q") focusQuestion();
  else if (event.key === "?") helpOpen.value = true;
  else if (event.key === "]" && names[at + 1]) selectedServer.value = names[at + 1]!;
  else if (event.key === "[" && names[at - 1]) selectedServer.value = names[at - 1]!;
  else return;
  event.preventDefault();
});

render(<App />, document.getElementById("app")!);
void follow();
