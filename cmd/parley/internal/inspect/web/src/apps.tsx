// MCP Apps: pages of a server that show the results of its tools. They run in a frame of another origin, in a sandbox without
// an origin of its own, and talk to this page by messages only.
import { useEffect, useRef, useState } from "preact/hooks";
import { get } from "./api";
import { ended } from "./calls";
import { calls, current, errorText, hello, startCall } from "./state";
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
async function perform(method: string, name: string, args: Json): Promise<Result> {
  const server = current.peek();
  const number = server && (await startCall(server, { method, name, arguments: args }));
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

async function pageOf(uri: string): Promise<Page> {
  const found = (await perform("resources/read", uri, {})).contents?.[0];
  if (!found?.mimeType?.startsWith("text/html")) throw new Error(`the resource must have the type text/html;profile=mcp-app, not ${found?.mimeType ?? "none"}`);
  const html = found.text ?? new TextDecoder().decode(Uint8Array.from(atob(found.blob ?? ""), (c) => c.charCodeAt(0)));
  const ui = found._meta?.ui;
  const csp = isObject(ui) && isObject(ui.csp) ? ui.csp : {};
  const query = new URLSearchParams();
  for (const origin of list(csp.connectDomains)) query.append("connect", origin);
  for (const origin of list(csp.resourceDomains)) query.append("resource", origin);
  for (const origin of list(csp.frameDomains)) query.append("frame", origin);
  return { html, address: `${hello.value.apps}/?${query}` };
}

const maxHeight = 800;

export function AppFrame({ call, tool, uri, result }: Props) {
  const [page, setPage] = useState<Page | null>(null);
  const [problem, setProblem] = useState("");
  const [height, setHeight] = useState(240);
  const [link, setLink] = useState("");
  const frame = useRef<HTMLIFrameElement>(null);

  useEffect(() => {
    pageOf(uri).then(setPage, (error) => setProblem(errorText(error)));
  }, [uri]);

  useEffect(() => {
    if (!page) return;
    const origin = hello.value.apps!;
    const send = (message: JsonObject) => frame.current?.contentWindow?.postMessage({ jsonrpc: "2.0", ...message }, origin);
    const notify = (method: string, params: Json) => send({ method, params });
    const listen = async (event: MessageEvent) => {
      if (event.source !== frame.current?.contentWindow || event.origin !== origin || !isObject(event.data)) return;
      const { id, method, params: given } = event.data as JsonObject;
      const params = isObject(given) ? given : {};
      switch (method) {
        case "ui/notifications/sandbox-proxy-ready":
          notify("ui/notifications/sandbox-resource-ready", { html: page.html });
          return;
        case "ui/notifications/initialized":
          notify("ui/notifications/tool-input", { arguments: call.arguments ?? {} });
          notify("ui/notifications/tool-result", result as unknown as Json);
          return;
        case "ui/notifications/size-changed":
          if (typeof params.height === "number") setHeight(Math.max(40, Math.min(params.height, maxHeight)));
          return;
      }
      if (typeof id !== "number" && typeof id !== "string") return;
      try {
        send({ id, result: await answer(String(method), params, tool, setLink) });
      } catch (error) {
        send({ id, error: { code: error instanceof Unsupported ? -32601 : -32000, message: errorText(error) } });
      }
    };
    addEventListener("message", listen);
    return () => removeEventListener("message", listen);
  }, [page]);

  if (problem) return <p class="problem">Cannot show the page of the tool: {problem}</p>;
  if (!page) return <p class="muted" aria-busy="true">Loading the page of the tool…</p>;
  return (
    <section class="app" aria-label={"Page of " + tool.name}>
      <h3>Page of the tool <code>{uri}</code></h3>
      <iframe ref={frame} src={page.address} title={"Page of " + tool.name} sandbox="allow-scripts allow-same-origin allow-forms" referrerpolicy="origin" style={{ height: `${height}px` }} />
      {link && <p>The page wants to open <a href={link} target="_blank" rel="noopener noreferrer">{link}</a></p>}
    </section>
  );
}

class Unsupported extends Error {}

// answer answers a request of the page.
async function answer(method: string, params: JsonObject, tool: Tool, showLink: (url: string) => void): Promise<Json> {
  switch (method) {
    case "ping":
      return {};
    case "ui/initialize":
      return {
        protocolVersion: typeof params.protocolVersion === "string" ? params.protocolVersion : "2026-01-26",
        hostInfo: { name: "parley inspect", version: hello.value.version },
        hostCapabilities: { openLinks: {}, serverTools: {}, serverResources: {} },
        hostContext: {
          toolInfo: { tool: tool as unknown as Json },
          theme: matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light",
          displayMode: "inline",
          availableDisplayModes: ["inline"],
          platform: "web",
        },
      };
    case "tools/call":
      return (await perform("tools/call", String(params.name), params.arguments ?? {})) as unknown as Json;
    case "resources/read":
      return (await perform("resources/read", String(params.uri), {})) as unknown as Json;
    case "ui/open-link":
      if (!/^https?:\/\//.test(String(params.url))) throw new Error("the URL must begin with http:// or https://");
      showLink(String(params.url)); // the user opens it
      return {};
    case "ui/request-display-mode":
      return { mode: "inline" };
  }
  throw new Unsupported(`the inspector does not support ${method}`);
}
