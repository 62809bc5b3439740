// The results of tools, prompts and resources.
import { useEffect, useMemo, useState } from "preact/hooks";
import { Markdown } from "./markdown";
import { bytes, CopyButton, Folded, OutsideLink, save, Tabs, Tree } from "./parts";
import type { Content, Json, ResourceContents, Result } from "./types";

interface Props {
  result: Result;
  onOpen: (uri: string) => void; // opens a resource of the server
}

export function ResultView({ result, onOpen }: Props) {
  const [raw, setRaw] = useState<"rendered" | "json">("rendered");
  return (
    <div class="result">
      <div class="toolbar">
        <Tabs label="View of the result" selected={raw} onSelect={setRaw} tabs={[{ id: "rendered", label: "Rendered" }, { id: "json", label: "JSON" }]} />
        <CopyButton text={() => JSON.stringify(result, null, 2)} what="the result" label="Copy JSON" />
      </div>
      {raw === "json" ? <Tree value={result as unknown as Json} /> : <Rendered result={result} onOpen={onOpen} />}
    </div>
  );
}

function Rendered({ result, onOpen }: Props) {
  const structured = result.structuredContent;
  // Tools with structured content usually repeat it as a text.
  const repeats = (one: Content) => structured !== undefined && one.type === "text" && sameJson(one.text ?? "", structured);
  const content = (result.content ?? []).filter((one) => !repeats(one));
  return (
    <>
      {result.description && <p class="muted">{result.description}</p>}
      {structured !== undefined && (
        <section aria-label="Structured content">
          <h3>Structured content</h3>
          <Tree value={structured} />
        </section>
      )}
      {content.map((one, i) => <Block key={i} content={one} onOpen={onOpen} />)}
      {result.messages?.map((message, i) => (
        <section key={i} class="message" aria-label={`Message ${i + 1} of ${message.role}`}>
          <h3>{message.role}</h3>
          <Block content={message.content} onOpen={onOpen} />
        </section>
      ))}
      {result.contents?.map((one, i) => <Contents key={i} contents={one} />)}
      {structured === undefined && !content.length && !result.messages?.length && !result.contents?.length && <p class="muted">The result is empty.</p>}
    </>
  );
}

function sameJson(text: string, value: Json): boolean {
  try {
    return JSON.stringify(JSON.parse(text)) === JSON.stringify(value);
  } catch {
    return false;
  }
}

function Block({ content, onOpen }: { content: Content; onOpen: (uri: string) => void }) {
  switch (content.type) {
    case "text":
      return <Text text={content.text ?? ""} type="" />;
    case "image":
    case "audio":
      return <Media data={content.data ?? ""} type={content.mimeType ?? ""} name={content.type} />;
    case "resource_link":
      return (
        <div class="card">
          <button type="button" onClick={() => onOpen(content.uri ?? "")}>Open {content.title ?? content.name ?? content.uri}</button>
          <code>{content.uri}</code>
          {content.mimeType && <span class="muted">{content.mimeType}</span>}
          {content.description && <p class="help">{content.description}</p>}
        </div>
      );
    case "resource":
      return content.resource ? <Contents contents={content.resource} /> : null;
  }
  return <Tree value={content as unknown as Json} />;
}

export function Contents({ contents }: { contents: ResourceContents }) {
  return (
    <section class="contents" aria-label={contents.uri}>
      <div class="toolbar"><code>{contents.uri}</code>{contents.mimeType && <span class="muted">{contents.mimeType}</span>}</div>
      {contents.blob !== undefined ? <Media data={contents.blob} type={contents.mimeType ?? ""} name={contents.uri.split("/").pop() ?? "file"} /> : <Text text={contents.text ?? ""} type={contents.mimeType ?? ""} />}
    </section>
  );
}

const maxShown = 200_000; // characters of a text

// Text shows a text as it is, as Markdown or as JSON.
function Text({ text, type }: { text: string; type: string }) {
  const json = useMemo(() => (/^\s*[{[]/.test(text) && text.length < maxShown ? parse(text) : undefined), [text]);
  const markdown = type.startsWith("text/markdown") || (!type.startsWith("text/html") && /^#{1,6} |\*\*|^[-*] |^```|\[[^\]]+\]\(/m.test(text));
  const [view, setView] = useState<"text" | "markdown" | "json">(json !== undefined ? "json" : markdown ? "markdown" : "text");
  const shown = text.slice(0, maxShown);
  const tabs: { id: typeof view; label: string }[] = [{ id: "text", label: "Text" }];
  if (json !== undefined) tabs.unshift({ id: "json", label: "Tree" });
  else tabs.push({ id: "markdown", label: "Markdown" });
  return (
    <div class="text-block">
      <div class="toolbar">
        {(markdown || json !== undefined) && <Tabs label="View of the text" selected={view} onSelect={setView} tabs={tabs} />}
        <CopyButton text={() => text} what="the text" />
      </div>
      {view === "json" && json !== undefined ? <Tree value={json} /> : <Folded text={shown}>{view === "markdown" ? <Markdown text={shown} /> : <pre tabIndex={0} aria-label="Text">{shown}</pre>}</Folded>}
      {text.length > maxShown && <p class="muted">The first {bytes(maxShown)} of {bytes(text.length)}. Copy the text to see all of it.</p>}
    </div>
  );
}

function parse(text: string): Json | undefined {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

// Media shows an image or a sound, or offers to save other data.
function Media({ data, type, name }: { data: string; type: string; name: string }) {
  const blob = useMemo(() => {
    try {
      return new Blob([Uint8Array.from(atob(data), (c) => c.charCodeAt(0))], { type });
    } catch {
      return undefined;
    }
  }, [data, type]);
  const [url, setUrl] = useState("");
  useEffect(() => {
    if (!blob) return;
    const created = URL.createObjectURL(blob);
    setUrl(created);
    return () => URL.revokeObjectURL(created);
  }, [blob]);
  if (!blob) return <p class="problem">The data is not base64.</p>;
  return (
    <figure>
      {url && type.startsWith("image/") && <img src={url} alt={`${name}, ${type}`} />}
      {url && type.startsWith("audio/") && <audio src={url} controls aria-label={name} />}
      {url && type.startsWith("video/") && <video src={url} controls aria-label={name} />}
      <figcaption>
        <span class="muted">{type || "unknown type"}, {bytes(blob.size)}</span>
        <button type="button" class="quiet" onClick={() => save(blob, name)}>Save</button>
      </figcaption>
    </figure>
  );
}

export { OutsideLink };
