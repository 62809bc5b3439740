// The questions of servers, which the user answers here.
import { useState } from "preact/hooks";
import { post } from "./api";
import { Form, initial, useValidation } from "./form";
import { Separator } from "./panes";
import { Tree } from "./parts";
import { attempt, questions } from "./state";
import type { Json, JsonObject, Question, Schema } from "./types";

export function Questions() {
  const open = questions.value;
  return (
    <>
      <section id="questions" class={open.length ? "questions" : "questions none"} aria-label="Questions from servers" aria-live="polite" tabIndex={-1}>
        {open.map((one) => <QuestionCard key={one.number} question={one} />)}
      </section>
      {open.length > 0 && <Separator pane="questions" />}
    </>
  );
}

const titles = { form: "asks you to fill in a form", url: "asks you to open a page", sampling: "asks for a message from a model", roots: "asks for the roots" };

function QuestionCard({ question }: { question: Question }) {
  const answer = (body: unknown) => attempt(post("/api/questions/" + question.number, body));
  return (
    <article class="question" data-kind={question.kind} aria-label={`Question from ${question.server}`}>
      <h2><strong>{question.server}</strong> {titles[question.kind]}</h2>
      {question.message && <p class="asked">{question.message}</p>}
      {question.kind === "form" && <FormQuestion schema={question.schema ?? {}} onAnswer={answer} />}
      {question.kind === "url" && <UrlQuestion url={question.url ?? ""} onAnswer={answer} />}
      {question.kind === "sampling" && <SamplingQuestion params={question.params ?? {}} onAnswer={answer} />}
      {question.kind === "roots" && <RootsQuestion question={question} onAnswer={answer} />}
    </article>
  );
}

type Answer = { onAnswer: (body: unknown) => void };

function Decline({ onAnswer }: Pick<UrlProps, "onAnswer">) {
  return (
    <>
      <button type="button" onClick={() => onAnswer({ action: "decline" })}>Decline</button>
      <button type="button" class="quiet" onClick={() => onAnswer({ action: "cancel" })}>Dismiss</button>
    </>
  );
}

function FormQuestion({ schema, onAnswer }: Answer & { schema: Schema }) {
  const [value, setValue] = useState<Json>(() => initial(schema, schema) ?? {});
  const [tried, setTried] = useState(false);
  const { issues } = useValidation(schema, value);
  return (
    <form onSubmit={(e) => {
      e.preventDefault();
      setTried(true);
      onAnswer({ action: "accept", content: value });
    }}>
      <Form schema={schema} value={value} onChange={setValue} issues={issues} showMissing={tried} />
      <div class="actions"><button class="primary">Send the answer</button><Decline onAnswer={onAnswer} /></div>
    </form>
  );
}

interface UrlProps {
  url: string;
  isReady?: boolean;
  onAnswer: (answer: { action: "accept" | "decline" | "cancel" }) => void;
}

// UrlQuestion asks the user to open a URL. The user cannot open it while isReady is false.
export function UrlQuestion({ url, isReady = true, onAnswer }: UrlProps) {
  let host = "";
  try {
    const parsed = new URL(url);
    if (!/^https?:$/.test(parsed.protocol)) throw new Error("the scheme is not http or https");
    host = parsed.host;
  } catch {
    return <div class="actions"><span class="problem">The URL is not valid.</span><Decline onAnswer={onAnswer} /></div>;
  }
  return (
    <>
      <p>The page is at <strong>{host}</strong>:</p>
      <p><code class="wrap">{url}</code></p>
      {/(^|\.)xn--/.test(host) && <p class="problem">The host name mixes in characters of other alphabets. It may imitate another host.</p>}
      <div class="actions">
        {isReady
          ? <a class="button primary" href={url} target="_blank" rel="noopener noreferrer" onClick={() => onAnswer({ action: "accept" })}>Open the page</a>
          : <button type="button" class="primary" disabled>Open the page</button>}
        <Decline onAnswer={onAnswer} />
      </div>
    </>
  );
}

function SamplingQuestion({ params, onAnswer }: Answer & { params: JsonObject }) {
  const [text, setText] = useState("");
  const [model, setModel] = useState("person");
  const messages = Array.isArray(params.messages) ? params.messages : [];
  return (
    <form onSubmit={(e) => {
      e.preventDefault();
      onAnswer({ action: "accept", result: { role: "assistant", content: [{ type: "text", text }], model, stopReason: "endTurn" } });
    }}>
      {typeof params.systemPrompt === "string" && <p class="help">System prompt: {params.systemPrompt}</p>}
      <div class="transcript" tabIndex={0} aria-label="Messages">
        {messages.map((one, i) => {
          const message = one as { role?: string; content?: Json };
          const blocks = Array.isArray(message.content) ? message.content : [message.content];
          return (
            <div key={i} class="message"><h3>{message.role}</h3>
              {blocks.map((block, n) => {
                const content = block as { type?: string; text?: string };
                return content?.type === "text" ? <pre key={n}>{content.text}</pre> : <Tree key={n} value={(block ?? null) as Json} />;
              })}
            </div>
          );
        })}
      </div>
      <details><summary>Request</summary><Tree value={params} /></details>
      <div class="form">
        <div class="field"><div class="caption"><label for="sampled"><span class="name">The model's message</span></label></div>
          <textarea id="sampled" rows={3} value={text} onInput={(e) => setText(e.currentTarget.value)} aria-required="true" /></div>
        <div class="field"><div class="caption"><label for="model"><span class="name">Model</span></label></div>
          <input id="model" value={model} onInput={(e) => setModel(e.currentTarget.value)} /></div>
      </div>
      <div class="actions"><button class="primary" disabled={!text}>Send the message</button><Decline onAnswer={onAnswer} /></div>
    </form>
  );
}

function RootsQuestion({ question, onAnswer }: Answer & { question: Question }) {
  const [text, setText] = useState(() => (question.roots ?? []).map((one) => one.uri).join("\n"));
  const uris = text.split("\n").map((one) => one.trim()).filter(Boolean);
  const invalid = uris.find((one) => !/^file:\/\/\//.test(one));
  return (
    <form onSubmit={(e) => {
      e.preventDefault();
      if (!invalid) onAnswer({ action: "accept", roots: uris.map((uri) => ({ uri })) });
    }}>
      <div class="field">
        <div class="caption"><label for="roots"><span class="name">Roots</span><span class="kind">one file:// URI per line</span></label></div>
        <textarea id="roots" rows={3} class="mono" value={text} onInput={(e) => setText(e.currentTarget.value)} aria-invalid={!!invalid} placeholder="file:///home/ada/project" />
        {invalid && <p class="problem">{invalid} must begin with file:///</p>}
      </div>
      <div class="actions"><button class="primary" disabled={!!invalid}>Send {uris.length} {uris.length === 1 ? "root" : "roots"}</button><Decline onAnswer={onAnswer} /></div>
    </form>
  );
}
