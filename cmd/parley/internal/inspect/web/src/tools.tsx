// The tools of a server: a list, and a form for the arguments of the selected one.
import { useEffect, useMemo, useState } from "preact/hooks";
import { CallView, ended } from "./calls";
import { Editor } from "./editor";
import { Form, hasFields, initial, useValidation } from "./form";
import { Markdown } from "./markdown";
import { EntryList, Split } from "./panes";
import { breakable, Folded, Tabs, Tree } from "./parts";
import { drafts, selectedCall, selectedTool } from "./selection";
import { calls, has, listed, load, startCall, type Kind } from "./state";
import type { Json, Server, Tool } from "./types";

// useList loads a list that the server declares, when the page does not have its newest version.
export function useList<K extends Kind>(server: Server, kind: K) {
  const version = server.lists[kind === "tools" ? 0 : kind === "prompts" ? 1 : 2];
  const wanted = server.state === "ready" && has(server, kind);
  useEffect(() => {
    if (wanted) void load(server, kind);
  }, [server.name, wanted, version, kind]);
  const list = listed(server.name, kind);
  return { list, props: { loading: list.loading, error: list.error, empty: `The server has no ${kind}.`, onRefresh: () => void load(server, kind, true) } };
}

export function Tools({ server }: { server: Server }) {
  const { list, props } = useList(server, "tools");
  const chosen = selectedTool.value[server.name];
  const tool = list.entries.find((one) => one.name === chosen) ?? list.entries[0];
  const entries = list.entries.map((one) => ({ key: one.name, name: one.name, note: one.title ?? one.annotations?.title ?? one.description ?? "", marks: <Marks tool={one} /> }));
  const select = (name: string) => (selectedTool.value = { ...selectedTool.value, [server.name]: name });
  return (
    <Split back="Tools" list={<EntryList label="Tools" entries={entries} selected={tool?.name ?? ""} onSelect={select} {...props} />}>
      {tool && <ToolView key={server.name + " " + tool.name} server={server} tool={tool} />}
    </Split>
  );
}

function Marks({ tool }: { tool: Tool }) {
  const a = tool.annotations;
  if (a?.readOnlyHint) return <span class="mark">read</span>;
  if (a?.destructiveHint) return <span class="mark warn">destructive</span>;
  return null;
}

function ToolView({ server, tool }: { server: Server; tool: Tool }) {
  const key = server.name + " " + tool.name;
  const [value, setValueOnly] = useState<Json>(() => drafts.peek()[key] ?? initial(tool.inputSchema, tool.inputSchema) ?? {});
  const [text, setText] = useState(() => JSON.stringify(value, null, 2));
  const [syntax, setSyntax] = useState("");
  const [tried, setTried] = useState(false);
  const [view, setView] = useState<"both" | "form" | "json">(hasFields(tool.inputSchema) ? "both" : "form");
  const [asTask, setAsTask] = useState(false);
  const validation = useValidation(tool.inputSchema, value);
  const callKey = "tools/call " + key;
  const call = calls.value.get(selectedCall.value[callKey] ?? 0);
  const running = call && !ended(call);

  const keep = (next: Json) => {
    setValueOnly(next);
    drafts.value = { ...drafts.peek(), [key]: next };
  };
  const setValue = (next: Json) => {
    keep(next);
    setText(JSON.stringify(next, null, 2));
    setSyntax("");
  };
  const edit = (next: string) => {
    setText(next);
    try {
      keep(JSON.parse(next));
      setSyntax("");
    } catch (error) {
      setSyntax("not JSON: " + (error instanceof Error ? error.message : ""));
    }
  };
  const run = async () => {
    setTried(true);
    if (syntax) return;
    const number = await startCall(server.name, { method: "tools/call", name: tool.name, arguments: value, task: asTask });
    if (number) selectedCall.value = { ...selectedCall.peek(), [callKey]: number };
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      void run();
    }
  };
  const problems = validation.issues.length;
  return (
    <article class="detail" aria-label={"Tool " + tool.name} onKeyDown={onKeyDown}>
      <header class="detail-head">
        <h2>{breakable(tool.name)}</h2>
        {(tool.title ?? tool.annotations?.title) && <span class="muted">{tool.title ?? tool.annotations?.title}</span>}
      </header>
      {tool.description && <Folded text={tool.description}><Markdown text={tool.description} /></Folded>}
      <Annotations tool={tool} />
      <div class="toolbar">
        <h3>Arguments</h3>
        <Tabs label="View of the arguments" selected={view} onSelect={setView} tabs={[{ id: "both", label: "Both" }, { id: "form", label: "Form" }, { id: "json", label: "JSON" }]} />
        <button type="button" class="quiet" onClick={() => setValue(initial(tool.inputSchema, tool.inputSchema) ?? {})}>Reset</button>
      </div>
      <div class={"arguments " + view}>
        {view !== "json" && (
          <form class="pane" onSubmit={(e) => (e.preventDefault(), void run())} aria-label="Arguments">
            <Form schema={tool.inputSchema} value={value} onChange={setValue} issues={validation.issues} showMissing={tried} />
          </form>
        )}
        {view !== "form" && (
          <div class="pane">
            <Editor label="Arguments as JSON" value={text} schema={tool.inputSchema} onChange={edit} onSubmit={() => void run()} />
          </div>
        )}
      </div>
      {(syntax || validation.error) && <p class="problem" role="alert">{syntax || validation.error}</p>}
      {!!validation.unchecked?.length && <p class="muted">Not checked here: {validation.unchecked.map((one) => one.Pointer).join(", ")}</p>}
      <div class="actions">
        <button type="button" class="primary" onClick={() => void run()} disabled={!!syntax || server.state !== "ready"}>{running ? "Call again" : "Call"} <kbd>Ctrl ↵</kbd></button>
        {tool.execution?.taskSupport && tool.execution.taskSupport !== "forbidden" && (
          <label class="check"><input type="checkbox" checked={asTask || tool.execution.taskSupport === "required"} disabled={tool.execution.taskSupport === "required"} onChange={(e) => setAsTask(e.currentTarget.checked)} /> as a task</label>
        )}
        {problems > 0 && (tried ? <span class="problem">{problems} {problems === 1 ? "problem" : "problems"}; the server may reject the call</span> : <span class="muted">incomplete</span>)}
      </div>
      {call && <CallView call={call} tool={tool} />}
      {tool.outputSchema && (
        <details><summary>Output schema</summary><Tree value={tool.outputSchema as unknown as Json} /></details>
      )}
      <details><summary>Definition</summary><Tree value={tool as unknown as Json} /></details>
    </article>
  );
}

function Annotations({ tool }: { tool: Tool }) {
  const a = tool.annotations;
  const words = useMemo(() => {
    if (!a) return [];
    const found: string[] = [];
    if (a.readOnlyHint) found.push("reads only");
    else if (a.destructiveHint !== undefined) found.push(a.destructiveHint ? "may destroy data" : "only adds data");
    if (a.idempotentHint) found.push("same effect when repeated");
    if (a.openWorldHint !== undefined) found.push(a.openWorldHint ? "reaches other systems" : "stays in the server");
    return found;
  }, [a]);
  const support = tool.execution?.taskSupport;
  if (support && support !== "forbidden") words.push(support === "required" ? "runs as a task" : "can run as a task");
  return words.length ? <p class="annotations">The server says: {words.join(" · ")}</p> : null;
}
