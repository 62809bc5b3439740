// Calls: their progress, timelines and results.
import { batch } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { get, post } from "./api";
import { appOf } from "./apphost";
import { AppFrame } from "./apps";
import { EntryList, openDetail, Split } from "./panes";
import { breakable, bytes, clock, millis, Tree } from "./parts";
import { ResultView } from "./result";
import { attempt, calls, current, errorText, section, selectedServer, servers, startCall } from "./state";
import { showMessage } from "./log";
import { isObject } from "./schema";
import type { Call, Result, Server, Tool } from "./types";
import { selectedCall, selectedResource } from "./selection";

export const stateLabels: { [state: string]: string } = {
  running: "running",
  input_required: "waits for an answer",
  done: "done",
  failed: "failed",
  cancelled: "cancelled",
};

export function ended(call: Call): boolean {
  return call.state !== "running" && call.state !== "input_required";
}

// openResource reads a resource of a server and shows it.
export async function openResource(server: string, uri: string) {
  const call = await startCall(server, { method: "resources/read", name: uri });
  if (!call) return;
  batch(() => {
    selectedCall.value = { ...selectedCall.peek(), ["resources/read " + server + " " + uri]: call };
    selectedResource.value = { ...selectedResource.peek(), [server]: uri };
    selectedServer.value = server;
    section.value = "resources";
  });
  openDetail();
}

// CallView shows a call with its timeline and result.
export function CallView({ call, tool }: { call: Call; tool?: Tool | undefined }) {
  const [loaded, setLoaded] = useState<{ number: number; result: Result } | undefined>();
  const [problem, setProblem] = useState("");
  const view = useRef<HTMLElement>(null);
  useEffect(() => {
    if (Date.now() - Date.parse(call.started) < 2000) view.current?.scrollIntoView({ block: "nearest" });
  }, [call.number, loaded]);
  useEffect(() => {
    setProblem("");
    if (!call.size) return;
    const abort = new AbortController();
    get<Result>(`/api/calls/${call.number}/result`, abort.signal).then((result) => setLoaded({ number: call.number, result }), (error) => abort.signal.aborted || setProblem(errorText(error)));
    return () => abort.abort();
  }, [call.number, call.size]);
  const failed = call.state === "failed" || call.isError;
  const result = loaded?.number === call.number ? loaded.result : undefined;
  const app = tool && servers.value.find((one) => one.name === call.server)?.settings.apps ? appOf(tool) : undefined;
  return (
    <section class="call" ref={view} aria-label={`Call ${call.number}`} data-state={call.state}>
      <header class="call-head" aria-live="polite">
        <span class={"badge " + (failed ? "bad" : call.state === "done" ? "good" : call.state === "cancelled" ? "" : "busy")}>
          {call.isError ? "tool error" : stateLabels[call.state]}
        </span>
        {call.millis !== undefined && <span class="muted">{millis(call.millis)}</span>}
        {!!call.size && <span class="muted">{bytes(call.size)}</span>}
        {call.rounds > 1 && <span class="muted">{call.rounds} rounds</span>}
        {call.task && <span class="muted task" title={call.task.id}>task: {call.task.status}{call.task.message ? ` — ${call.task.message}` : ""}</span>}
        {!ended(call) && <button type="button" onClick={() => attempt(post(`/api/calls/${call.number}/cancel`))}>Cancel the call</button>}
      </header>
      {call.progress && !ended(call) && (
        <div class="progress">
          <progress aria-label="Progress of the call" {...(call.progress.total ? { max: call.progress.total, value: call.progress.progress } : {})} />
          <span>{call.progress.message || (call.progress.total ? `${call.progress.progress} of ${call.progress.total}` : call.progress.progress)}</span>
        </div>
      )}
      {call.error && call.state === "failed" && <p class="problem" role="alert">{call.error}</p>}
      {problem && <p class="problem">{problem}</p>}
      {app && <AppFrame key={call.number} call={call} tool={tool!} uri={app} result={result} />}
      {result && call.method !== "ping" && <ResultView result={result} onOpen={(uri) => void openResource(call.server, uri)} />}
      <Timeline call={call} />
    </section>
  );
}

function Timeline({ call }: { call: Call }) {
  const [open, setOpen] = useState(true);
  const total = Math.max(call.millis ?? 0, ...call.steps.map((step) => step.millis), 1);
  return (
    <details class="timeline" open={open} onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>Timeline <span class="muted">{call.steps.length} steps</span></summary>
      <ol>
        {call.steps.map((step, i) => (
          <li key={i} class={"step step-" + step.kind}>
            <span class="at">{millis(step.millis)}</span>
            <svg class="track" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
              <rect x="0" y="3.5" width="100" height="1" class="rail" />
              <rect x={Math.min((step.millis / total) * 98, 98)} y="0" width="2" height="8" class="mark" />
            </svg>
            <span class="what">{step.text}</span>
            {step.message && <button type="button" class="quiet" onClick={() => showMessage(step.message!)} aria-label={`Show message ${step.message} in the log`}>#{step.message}</button>}
          </li>
        ))}
      </ol>
    </details>
  );
}

// WatchTask waits for a task that another program has started.
function WatchTask({ server }: { server: Server }) {
  const [id, setId] = useState("");
  const watch = async () => {
    if (await startCall(server.name, { method: "tasks/get", name: id.trim(), taskId: id.trim() })) setId("");
  };
  return (
    <form class="add-member" onSubmit={(e) => (e.preventDefault(), void watch())}>
      <label class="sr" for="task-id">Task ID on {server.name}</label>
      <input id="task-id" class="filter" placeholder="Task ID" autocomplete="off" value={id} onInput={(e) => setId(e.currentTarget.value)} />
      <button disabled={!id.trim()}>Watch</button>
    </form>
  );
}

function hasTasks(server: Server): boolean {
  const { tasks, extensions } = server.capabilities ?? {};
  return server.state === "ready" && (tasks !== undefined || (isObject(extensions) && "io.modelcontextprotocol/tasks" in extensions));
}

// Calls lists the latest calls of all servers.
export function Calls() {
  const server = current.value;
  const tasks = server && hasTasks(server) && <WatchTask server={server} />;
  const all = [...calls.value.values()].sort((a, b) => b.number - a.number);
  const [number, setNumber] = useState(0);
  const selected = calls.value.get(number) ?? all[0];
  if (!all.length) {
    return (
      <div class="detail wide">
        <p class="muted">Tools you call, prompts you get and resources you read appear here, each with a timeline.</p>
        {tasks && <><p>Watch a task that another program started:</p>{tasks}</>}
      </div>
    );
  }
  const entries = all.map((call) => ({
    key: String(call.number), name: call.name || call.method,
    note: `${call.isError ? "tool error" : stateLabels[call.state]} · ${clock(call.started)}` + (servers.value.length > 1 ? " · " + call.server : ""),
  }));
  return (
    <Split back="Calls" list={<EntryList label="Calls" entries={entries} selected={String(selected?.number)} onSelect={(key) => setNumber(Number(key))}>{tasks}</EntryList>}>
      {selected && (
        <div class="detail">
          <h2>{breakable(selected.name || selected.method)}</h2>
          <p class="muted">{selected.method} · {selected.server}</p>
          {selected.arguments !== undefined && selected.method !== "resources/read" && <Tree value={selected.arguments} name="arguments" />}
          <CallView call={selected} />
        </div>
      )}
    </Split>
  );
}
