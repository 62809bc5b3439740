// The prompts of a server, with completion of their arguments.
import { useId, useRef, useState } from "preact/hooks";
import { post, serverPath } from "./api";
import { CallView } from "./calls";
import { EntryList, Split } from "./panes";
import { breakable, Folded } from "./parts";
import { drafts, selectedCall, selectedPrompt } from "./selection";
import { calls, startCall } from "./state";
import { useList } from "./tools";
import type { JsonObject, Prompt, Server } from "./types";

export function Prompts({ server }: { server: Server }) {
  const { list, props } = useList(server, "prompts");
  const prompt = list.entries.find((one) => one.name === selectedPrompt.value[server.name]) ?? list.entries[0];
  const entries = list.entries.map((one) => ({ key: one.name, name: one.name, note: one.title ?? one.description ?? "" }));
  const select = (name: string) => (selectedPrompt.value = { ...selectedPrompt.value, [server.name]: name });
  return (
    <Split back="Prompts" list={<EntryList label="Prompts" entries={entries} selected={prompt?.name ?? ""} onSelect={select} {...props} />}>
      {prompt && <PromptView key={server.name + " " + prompt.name} server={server} prompt={prompt} />}
    </Split>
  );
}

function PromptView({ server, prompt }: { server: Server; prompt: Prompt }) {
  const key = "prompt " + server.name + " " + prompt.name;
  const callKey = "prompts/get " + server.name + " " + prompt.name;
  const values = (drafts.value[key] ?? {}) as { [name: string]: string };
  const call = calls.value.get(selectedCall.value[callKey] ?? 0);
  const set = (name: string, text: string) => {
    const next: JsonObject = { ...values, [name]: text };
    if (!text) delete next[name];
    drafts.value = { ...drafts.value, [key]: next };
  };
  const run = async () => {
    const number = await startCall(server.name, { method: "prompts/get", name: prompt.name, arguments: values });
    if (number) selectedCall.value = { ...selectedCall.peek(), [callKey]: number };
  };
  return (
    <article class="detail" aria-label={"Prompt " + prompt.name}>
      <header class="detail-head"><h2>{breakable(prompt.name)}</h2>{prompt.title && <span class="muted">{prompt.title}</span>}</header>
      {prompt.description && <Folded text={prompt.description}><p>{prompt.description}</p></Folded>}
      <form class="form" onSubmit={(e) => (e.preventDefault(), void run())} onKeyDown={(e) => e.key === "Enter" && (e.ctrlKey || e.metaKey) && (e.preventDefault(), void run())}>
        {prompt.arguments?.map((one) => (
          <CompletedInput key={one.name} label={one.name} title={one.title} help={one.description} required={one.required ?? false} value={values[one.name] ?? ""} onChange={(text) => set(one.name, text)}
            complete={completer(server, { type: "ref/prompt", name: prompt.name }, one.name, values)} />
        ))}
        {!prompt.arguments?.length && <p class="muted">No arguments.</p>}
        <div class="actions"><button class="primary" disabled={server.state !== "ready"}>Get the prompt <kbd>Ctrl ↵</kbd></button></div>
      </form>
      {call && <CallView call={call} />}
    </article>
  );
}

type Completer = (value: string, signal: AbortSignal) => Promise<string[]>;

// completer returns a function that asks the server for values of an argument; undefined if the server has no completion.
export function completer(server: Server, ref: JsonObject, name: string, others: { [name: string]: string }): Completer | undefined {
  if (!server.capabilities?.completions) return undefined;
  return async (value, signal) => {
    const rest = Object.fromEntries(Object.entries(others).filter(([other]) => other !== name));
    const params = { ref, argument: { name, value }, ...(Object.keys(rest).length ? { context: { arguments: rest } } : {}) };
    return (await post<{ values: string[] }>(serverPath(server.name, "complete"), params, signal)).values;
  };
}

interface InputProps {
  label: string;
  title?: string | undefined;
  help?: string | undefined;
  required: boolean;
  value: string;
  onChange: (text: string) => void;
  complete?: Completer | undefined;
}

// CompletedInput is a text field that shows the values that the server proposes.
export function CompletedInput({ label, title, help, required, value, onChange, complete }: InputProps) {
  const id = useId();
  const [proposed, setProposed] = useState<string[]>([]);
  const timer = useRef(0);
  const abort = useRef<AbortController | null>(null);
  const ask = (text: string) => {
    if (!complete) return;
    clearTimeout(timer.current);
    abort.current?.abort();
    const asked = (abort.current = new AbortController());
    timer.current = window.setTimeout(() => complete(text, asked.signal).then(setProposed, () => {}), 150);
  };
  return (
    <div class="field">
      <div class="caption">
        <label for={id}><span class="name">{label}</span>{required && <span class="required" aria-hidden="true">*</span>}{title && <span class="title">{title}</span>}<span class="kind">text</span></label>
      </div>
      <input id={id} list={complete ? id + "-l" : undefined} value={value} aria-required={required} aria-describedby={help ? id + "-d" : undefined} autocomplete="off"
        onFocus={(e) => ask(e.currentTarget.value)} onInput={(e) => (onChange(e.currentTarget.value), ask(e.currentTarget.value))} />
      {complete && <datalist id={id + "-l"}>{proposed.map((one) => <option key={one} value={one} />)}</datalist>}
      {help && <p class="help" id={id + "-d"}>{help}</p>}
    </div>
  );
}
