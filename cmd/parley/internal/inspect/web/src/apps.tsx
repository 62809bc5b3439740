// MCP Apps: pages of a server that show the results of its tools. They run in a frame of another origin, in a sandbox
// without an origin of its own, and talk to this page by messages only.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { AppHost, loadPage, type Ask, type Note, type Origins, type Page } from "./apphost";
import { breakable, save, Tree } from "./parts";
import { UrlQuestion } from "./questions";
import { errorText, say, servers } from "./state";
import type { Call, Json, Result, Tool } from "./types";

interface Props {
  call: Call;
  tool: Tool;
  uri: string;
  result?: Result | undefined; // when the call has ended
}

// AppFrame shows the page of a tool for a call. The user can close the page and open it again.
export function AppFrame(props: Props) {
  const [opened, setOpened] = useState(0);
  return <AppPage key={opened} {...props} onReopen={() => setOpened(opened + 1)} />;
}

function AppPage({ call, tool, uri, result, onReopen }: Props & { onReopen: () => void }) {
  const [host] = useState(() => new AppHost(call, tool));
  const [page, setPage] = useState<Page | null>(null);
  const [problem, setProblem] = useState("");
  const section = useRef<HTMLElement>(null);
  const place = useRef<HTMLDivElement>(null);
  const server = servers.value.find((one) => one.name === call.server);
  const connection = server?.state === "ready" ? server.connection : 0;
  const first = useRef(connection);

  useEffect(() => {
    loadPage(call.server, uri).then(setPage, (error) => setProblem(errorText(error)));
  }, []);
  useLayoutEffect(() => () => void host.end("the inspector shows something else"), []); // before the frame is removed
  useEffect(() => {
    if (page) host.open(page, place.current!);
  }, [page]);
  useEffect(() => {
    if (result) host.finish({ method: "ui/notifications/tool-result", params: result as unknown as Json });
    else if (call.state === "failed" || call.state === "cancelled") {
      host.finish({ method: "ui/notifications/tool-cancelled", params: { reason: call.error ?? call.state } });
    }
  }, [result, call.state]);
  useEffect(() => {
    if (connection !== first.current) void host.end("the connection to the server has ended");
  }, [connection]);

  const mode = host.mode.value;
  const closed = host.closed.value;
  useEffect(() => {
    const raised = section.current;
    if (mode !== "fullscreen" || closed || !raised) return;
    raised.popover = "manual"; // above all other content, without a move of the frame, which would load it again
    raised.showPopover();
    return () => {
      raised.hidePopover();
      raised.removeAttribute("popover");
    };
  }, [mode, closed]);

  if (problem) return <p class="problem">Cannot show the page of the tool: {problem}</p>;
  const [ask] = host.asks.value;
  const waiting = host.asks.value.length - 1;
  return (
    <section class="app" ref={section} aria-label={"Page of " + tool.name}>
      <div class="toolbar">
        <h3>Page of the tool <code>{uri}</code></h3>
        {mode === "fullscreen" && !closed && (
          <button type="button" onClick={() => host.leaveFullscreen()}>Exit full window</button>
        )}
        {closed && <button type="button" onClick={onReopen}>Open the page again</button>}
        {page && !closed && (
          <button type="button" class="quiet" onClick={() => void host.end("the user has closed it")}>Close the page</button>
        )}
      </div>
      {page && <Reach page={page} />}
      <div aria-live="polite">
        {ask && <AskCard key={ask.number} ask={ask} host={host} server={call.server} waiting={waiting} />}
      </div>
      {!page && <p class="muted" aria-busy="true">Loading the page of the tool…</p>}
      {closed && <p class="muted">The page is closed: {closed}.</p>}
      <div ref={place} class={page?.hasBorder === false ? "frame plain" : "frame"} hidden={!page || !!closed}
        style={{ height: mode === "inline" ? `${host.height.value}px` : "" }} />
      {host.context.value && <Shown title="Context for the model" value={host.context.value} />}
      {host.notes.value.map((note, i) => <Shown key={i} {...note} />)}
    </section>
  );
}

function Shown({ title, value }: Note) {
  return <details open><summary>{title}</summary><Tree value={value} /></details>;
}

const reachOf = {
  connectDomains: "sends data to",
  resourceDomains: "loads files from",
  frameDomains: "embeds frames from",
  baseUriDomains: "resolves links at",
} as const;

// Reach tells the other origins of a page.
function Reach({ page }: { page: Page }) {
  const kinds = Object.keys(reachOf) as (keyof typeof reachOf)[];
  const reached = kinds.filter((kind) => page.allowed[kind]?.length);
  const refusedOf = (kind: keyof Origins) => page.declared[kind]?.filter((one) => !page.allowed[kind]?.includes(one));
  const refused = [...new Set(kinds.flatMap((kind) => refusedOf(kind) ?? []))].slice(0, 10).join(" ");
  const text = reached.map((kind) => `${reachOf[kind]} ${page.allowed[kind]!.join(" ")}`).join(", and ");
  return (
    <p class="muted wrap">
      The page {text || "reaches no other origin"}.
      {refused && <span class="problem"> Not allowed, because they must be https or wss origins: {refused}</span>}
    </p>
  );
}

const clickTime = 500; // milliseconds in which a click may be one that was meant for what was in the place of the card

// AskCard asks the user about a request of a page.
function AskCard({ ask, host, server, waiting }: { ask: Ask; host: AppHost; server: string; waiting: number }) {
  const [isReady, setReady] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setReady(true), clickTime);
    return () => clearTimeout(timer);
  }, []);
  const allowing = { type: "button", disabled: !isReady } as const;
  const saveAll = async (files: { name: string; content: () => Promise<Blob> }[]) => {
    try {
      for (const file of files) save(await file.content(), file.name);
      ask.decide(true);
    } catch (error) {
      say(errorText(error));
      ask.decide(false);
    }
  };
  return (
    <article class="question" aria-label="Question from the page">
      {ask.kind === "tool" && (
        <>
          <h2>The page wants to call <strong>{breakable(ask.tool.name)}</strong> on {server}</h2>
          <Tree value={ask.arguments} name="arguments" />
          <div class="actions">
            <button {...allowing} class="primary" onClick={() => ask.decide(true)}>Allow once</button>
            <button {...allowing} onClick={() => host.allow(ask.tool.name)}>Allow this tool for this page</button>
            <button type="button" onClick={() => ask.decide(false)}>Deny</button>
          </div>
        </>
      )}
      {ask.kind === "link" && (
        <>
          <h2>The page wants to open a link</h2>
          <UrlQuestion url={ask.url} isReady={isReady} onAnswer={({ action }) => ask.decide(action === "accept")} />
        </>
      )}
      {ask.kind === "files" && (
        <>
          <h2>The page wants to save {ask.files.length === 1 ? "a file" : `${ask.files.length} files`}</h2>
          <ul>{ask.files.map((file, i) => <li key={i}><code>{file.name}</code></li>)}</ul>
          <div class="actions">
            <button {...allowing} class="primary" onClick={() => void saveAll(ask.files)}>Save</button>
            <button type="button" onClick={() => ask.decide(false)}>Deny</button>
          </div>
        </>
      )}
      {waiting > 0 && <p class="muted">{waiting} more {waiting === 1 ? "request waits" : "requests wait"}.</p>}
    </article>
  );
}
