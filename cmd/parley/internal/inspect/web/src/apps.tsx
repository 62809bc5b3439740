// MCP Apps: pages of a server that show the results of its tools. They run in a frame of another origin, in a sandbox without
// an origin of its own, and talk to this page by messages only.
import { useEffect, useRef, useState } from "preact/hooks";
import { get } from "./api";
import { ended } from "./calls";
import { Tree } from "./parts";
import { calls, errorText, hello, isDark, listed, startCall } from "./state";
import { isObject } from "./schema";
import type { Call, Json, JsonObject, Result, Tool } from "./types";

// appOf returns the URI of the page of a tool.
export function appOf(tool: Tool): string | undefined {
  const ui = tool._meta?.ui;
  const uri = isObject(ui) ? ui.resourceUri : tool._meta?.["ui/resourceUri"];
  return typeof uri === "string" && uri.startsWith("ui://") ? uri : undefined;
}

interface Props {
  call: Call;
  tool: Tool;
  uri: string;
  result: Result;
}

interface Page {
  html: string;
  address: string; // of the outer frame
}

// perform sends a request to the server and returns its result.
async function perform(server: string, method: string, name: string, args: Json): Promise<Result> {
  const number = await startCall(server, { method, name, arguments: args });
  if (!number) throw new Error("the call could not be started");
  return new Promise((resolve, reject) => {
    const stop = calls.subscribe((all) => {
      const call = all.get(number);
      if (!call || !ended(call)) return;
      setTimeout(() => stop(), 0);
      if (call.state === "done") get<Result>(`/api/calls/${number}/result`).then(resolve, reject);
      else reject(new Error(call.error ?? call.state));
    });
  });
}

function list(value: Json | undefined): string[] {
  return Array.isArray(value) ? value.filter((one) => typeof one === "string") : [];
}

async function pageOf(server: string, uri: string): Promise<Page> {
  const found = (await perform(server, "resources/read", uri, {})).contents?.[0];
  if (!found?.mimeType?.startsWith("text/html")) throw new Error(`the resource must have the type text/html;profile=mcp-app, not ${found?.mimeType ?? "none"}`);
  const html = found.text ?? new TextDecoder().decode(Uint8Array.from(atob(found.blob ?? ""), (c) => c.charCodeAt(0)));
  const ui = found._meta?.ui;
  const csp = isObject(ui) && isObject(ui.csp) ? ui.csp : {};
  const query = new URLSearchParams();
  for (const origin of list(csp.connectDomains)) query.append("connect", origin);
  for (const origin of list(csp.resourceDomains)) query.append("resource", origin);
  for (const origin of list(csp.frameDomains)) query.append("frame", origin);
  for (const origin of list(csp.baseUriDomains)) query.append("base", origin);
  return { html, address: `${hello.value.apps}/?${query}` };
}

const maxHeight = 800;
const maxNotes = 50; // messages and log messages of a page that are shown

type Mode = "inline" | "fullscreen";

interface Note {
  title: string;
  value: Json;
}

export function AppFrame({ call, tool, uri, result }: Props) {
  const [page, setPage] = useState<Page | null>(null);
  const [problem, setProblem] = useState("");
  const [height, setHeight] = useState(240);
  const [link, setLink] = useState("");
  const [notes, setNotes] = useState<Note[]>([]);
  const [context, setContext] = useState<JsonObject | null>(null); // of the model
  const [mode, setMode] = useState<Mode>("inline");
  const shown = useRef<Mode>("inline"); // the latest mode, for the listener of messages
  const show = (next: Mode) => setMode((shown.current = next));
  const initialized = useRef(false);
  const section = useRef<HTMLElement>(null);
  const frame = useRef<HTMLIFrameElement>(null);
  const send = (message: JsonObject) => frame.current?.contentWindow?.postMessage({ jsonrpc: "2.0", ...message }, hello.value.apps!);
  const notify = (method: string, params: Json) => send({ method, params });

  useEffect(() => {
    pageOf(call.server, uri).then(setPage, (error) => setProblem(errorText(error)));
  }, [uri]);

  useEffect(() => {
    if (!page) return;
    let modes: string[] = []; // that the page supports
    const note = (title: string, value: Json) => setNotes((before) => [...before.slice(1 - maxNotes), { title, value }]);

    // answer answers a request of the page.
    const answer = async (method: string, params: JsonObject): Promise<Json> => {
      switch (method) {
        case "ping":
          return {};
        case "ui/initialize":
          modes = list(isObject(params.appCapabilities) ? params.appCapabilities.availableDisplayModes : undefined);
          return {
            protocolVersion: typeof params.protocolVersion === "string" ? params.protocolVersion : "2026-01-26",
            hostInfo: { name: "parley inspect", version: hello.value.version },
            hostCapabilities: { openLinks: {}, serverTools: {}, serverResources: {}, logging: {} },
            hostContext: {
              toolInfo: { tool: tool as unknown as Json },
              theme: isDark.peek() ? "dark" : "light",
              displayMode: "inline",
              availableDisplayModes: ["inline", "fullscreen"],
              containerDimensions: { maxHeight },
              locale: navigator.language,
              timeZone: Intl.DateTimeFormat().resolvedOptions().timeZone,
              platform: "web",
            },
          };
        case "tools/call":
          checkVisibility(call.server, String(params.name));
          return (await perform(call.server, "tools/call", String(params.name), params.arguments ?? {})) as unknown as Json;
        case "resources/read":
          return (await perform(call.server, "resources/read", String(params.uri), {})) as unknown as Json;
        case "ui/open-link":
          if (!/^https?:\/\//.test(String(params.url))) throw new Error("the URL must begin with http:// or https://");
          setLink(String(params.url)); // the user opens it
          return {};
        case "ui/message":
          note(`Message of the ${String(params.role)}`, params.content ?? null);
          return {};
        case "ui/update-model-context":
          setContext(params);
          return {};
        case "ui/request-display-mode":
          if (params.mode === "inline" || (params.mode === "fullscreen" && modes.includes("fullscreen"))) show(params.mode);
          return { mode: shown.current };
      }
      throw new Unsupported(`the inspector does not support ${method}`);
    };

    const listen = async (event: MessageEvent) => {
      if (event.source !== frame.current?.contentWindow || event.origin !== hello.value.apps || !isObject(event.data)) return;
      const { id, method, params: given } = event.data as JsonObject;
      const params = isObject(given) ? given : {};
      switch (method) {
        case "ui/notifications/sandbox-proxy-ready":
          notify("ui/notifications/sandbox-resource-ready", { html: page.html });
          return;
        case "ui/notifications/initialized":
          initialized.current = true;
          notify("ui/notifications/tool-input", { arguments: call.arguments ?? {} });
          notify("ui/notifications/tool-result", result as unknown as Json);
          return;
        case "ui/notifications/size-changed":
          if (typeof params.height === "number") setHeight(Math.max(40, Math.min(params.height, maxHeight)));
          return;
        case "notifications/message":
          note(`Log message, ${String(params.level)}`, params.data ?? null);
          return;
      }
      if (!method || (typeof id !== "number" && typeof id !== "string")) return;
      try {
        send({ id, result: await answer(String(method), params) });
      } catch (error) {
        send({ id, error: { code: error instanceof Unsupported ? -32601 : -32000, message: errorText(error) } });
      }
    };
    addEventListener("message", listen);
    return () => removeEventListener("message", listen);
  }, [page]);

  useEffect(() => {
    if (initialized.current) notify("ui/notifications/host-context-changed", { theme: isDark.value ? "dark" : "light", displayMode: mode });
    const raised = section.current;
    if (mode !== "fullscreen" || !raised) return;
    raised.popover = "manual"; // above all other content, without a move of the frame, which would load it again
    raised.showPopover();
    return () => {
      raised.hidePopover();
      raised.removeAttribute("popover");
    };
  }, [mode, isDark.value]);

  if (problem) return <p class="problem">Cannot show the page of the tool: {problem}</p>;
  if (!page) return <p class="muted" aria-busy="true">Loading the page of the tool…</p>;
  return (
    <section class="app" ref={section} aria-label={"Page of " + tool.name}>
      <div class="toolbar">
        <h3>Page of the tool <code>{uri}</code></h3>
        {mode === "fullscreen" && <button type="button" onClick={() => show("inline")}>Leave the full window</button>}
      </div>
      <iframe ref={frame} src={page.address} title={"Page of " + tool.name} sandbox="allow-scripts allow-same-origin allow-forms" referrerpolicy="origin" style={mode === "inline" ? { height: `${height}px` } : {}} />
      {link && <p>The page wants to open <a href={link} target="_blank" rel="noopener noreferrer">{link}</a></p>}
      {context && <details open><summary>Context for the model</summary><Tree value={context} /></details>}
      {notes.map((note, i) => <details key={i} open><summary>{note.title}</summary><Tree value={note.value} /></details>)}
    </section>
  );
}

class Unsupported extends Error {}

// checkVisibility throws an error if the pages of a server may not call a tool.
function checkVisibility(server: string, name: string) {
  const ui = listed(server, "tools").entries.find((one) => one.name === name)?._meta?.ui;
  if (isObject(ui) && Array.isArray(ui.visibility) && !ui.visibility.includes("app")) throw new Error(`the tool ${name} is not for pages`);
}
