// The host of a page of MCP Apps: the frame of the page, and the messages between the page and the inspector. It
// follows the specification of 2026-01-26, and the draft where that is compatible.
import { effect, signal } from "@preact/signals";
import { get, post, serverPath } from "./api";
import { fileName } from "./parts";
import { isObject } from "./schema";
import { calls, errorText, has, hello, isDark, listed, load, servers } from "./state";
import type { Call, Json, JsonObject, Resource, Result, Tool } from "./types";

// appOf returns the URI of the page of a tool.
export function appOf(tool: Tool): string | undefined {
  const ui = tool._meta?.ui;
  const uri = isObject(ui) && typeof ui.resourceUri === "string" ? ui.resourceUri : tool._meta?.["ui/resourceUri"];
  return typeof uri === "string" && uri.startsWith("ui://") ? uri : undefined;
}

// Origins are those with which a page may exchange data, by the members of _meta.ui.csp.
export type Origins = { [kind in "connectDomains" | "resourceDomains" | "frameDomains" | "baseUriDomains"]?: string[] };

export interface Page {
  html: string;
  address: string; // of the outer frame
  declared: Origins;
  allowed: Origins;
  hasBorder: boolean;
}

// loadPage reads a page of a server.
export async function loadPage(server: string, uri: string): Promise<Page> {
  const { contents } = await perform(server, "resources/read", uri, {});
  const found = contents?.find((one) => one.uri === uri) ?? contents?.[0];
  if (!isPage(found?.mimeType)) {
    throw new Error(`the resource must have the type text/html;profile=mcp-app, not ${found?.mimeType ?? "none"}`);
  }
  const html = found!.text ?? new TextDecoder().decode(decode(found!.blob ?? ""));
  // The metadata of the contents takes precedence over that of the list.
  const ui = found!._meta?.ui ?? (await resourcesOf(server)).find((one) => one.uri === uri)?._meta?.ui;
  const csp = isObject(ui) && isObject(ui.csp) ? ui.csp : {};
  const declared: Origins = {};
  for (const kind of ["connectDomains", "resourceDomains", "frameDomains", "baseUriDomains"] as const) {
    const list = texts(csp[kind]);
    if (list?.length) declared[kind] = list;
  }
  const frame = await post<{ address: string; allowed: Origins }>("/api/frames", declared);
  return { html, declared, ...frame, hasBorder: !isObject(ui) || ui.prefersBorder !== false };
}

// decode decodes base64.
function decode(text: string) {
  return Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
}

// isPage reports whether a media type is that of pages. Other parameters than the profile have no effect.
function isPage(type: string | undefined): boolean {
  const [name, ...parameters] = (type ?? "").split(";").map((part) => part.trim());
  return name!.toLowerCase() === "text/html" && parameters.some((one) => /^profile=("?)mcp-app\1$/.test(one));
}

async function resourcesOf(server: string): Promise<Resource[]> {
  const found = servers.peek().find((one) => one.name === server);
  if (found && has(found, "resources")) await load(found, "resources");
  return listed(server, "resources").entries;
}

// texts returns the strings of an array, or undefined if a value is no array.
function texts(value: Json | undefined): string[] | undefined {
  return Array.isArray(value) ? value.filter((one) => typeof one === "string") : undefined;
}

// perform sends a request to the server and returns its result. It cancels the request when signal is aborted.
async function perform(server: string, method: string, name: string, args: Json, signal?: AbortSignal) {
  const request = { method, name, arguments: args };
  const { call: number } = await post<{ call: number }>(serverPath(server, "calls"), request);
  const cancel = () => void post(`/api/calls/${number}/cancel`).catch(() => undefined);
  if (signal?.aborted) cancel();
  signal?.addEventListener("abort", cancel);
  return new Promise<Result>((resolve, reject) => {
    const stop = calls.subscribe((all) => {
      const call = all.get(number);
      if (!call || call.state === "running" || call.state === "input_required") return;
      setTimeout(() => stop(), 0); // subscribe calls this function before it returns
      if (call.state === "done") get<Result>(`/api/calls/${number}/result`).then(resolve, reject);
      else reject(new Error(call.error ?? call.state));
    });
  }).finally(() => signal?.removeEventListener("abort", cancel));
}

// isForPages reports whether the pages of a server may call a tool. A visibility that is no list allows nothing.
function isForPages(tool: Tool): boolean {
  const ui = tool._meta?.ui;
  const visibility = (isObject(ui) ? ui.visibility : undefined) ?? ["app"];
  return Array.isArray(visibility) && visibility.includes("app");
}

export type Mode = "inline" | "fullscreen";

export interface Note {
  title: string;
  value: Json;
}

export interface PageFile {
  name: string;
  content: () => Promise<Blob>;
}

type Wish =
  | { kind: "tool"; tool: Tool; arguments: JsonObject }
  | { kind: "link"; url: string }
  | { kind: "files"; files: PageFile[] };

// An Ask is a request of a page that the user decides.
export type Ask = Wish & { number: number; decide: (isAllowed: boolean) => void };

const revision = "2026-01-26";
export const maxHeight = 800;
const maxNotes = 50; // messages and log messages of a page that are shown
const maxNote = 100_000; // characters of the JSON of each
const maxMessage = 16 << 20; // characters of the JSON of a message of a page
const maxRequests = 16; // of a page that are in flight or wait for the user
const maxRate = 1000; // messages of a page in a second
const teardownTime = 1000; // milliseconds that a page has to answer ui/resource-teardown
const teardownID = "teardown";

class Unsupported extends Error {}

export class AppHost {
  readonly height = signal(240);
  readonly mode = signal<Mode>("inline");
  readonly asks = signal<Ask[]>([]);
  readonly notes = signal<Note[]>([]);
  readonly context = signal<Json>(null); // of the model
  readonly closed = signal(""); // why the page has ended

  private readonly frame = document.createElement("iframe");
  private state: "loading" | "initializing" | "running" | "leaving" = "loading";
  private page: Page | undefined;
  private modes: string[] | undefined; // that the page declares
  private outcome: { method: string; params: Json } | undefined; // of the call
  private told = ""; // the host context that the page has
  private asked = 0;
  private newNotes: Note[] = []; // that are not shown yet
  private second = 0; // when the count of messages began
  private count = 0;
  private readonly allowed = new Set<string>(); // tools that the user has allowed to this page
  private readonly requests = new Map<string | number, AbortController>(); // in flight
  private onTeardown: (() => void) | undefined;
  private stopTelling: (() => void) | undefined;

  constructor(
    private readonly call: Call,
    private readonly tool: Tool,
  ) {}

  // open loads the page into a frame.
  open(page: Page, place: HTMLElement) {
    if (this.state !== "loading" || this.page) return;
    this.page = page;
    this.frame.title = "Page of " + this.tool.name;
    this.frame.setAttribute("sandbox", "allow-scripts allow-same-origin allow-forms");
    this.frame.referrerPolicy = "origin";
    this.frame.src = page.address;
    addEventListener("message", this.listen);
    this.stopTelling = effect(() => {
      const context = this.changingContext();
      if (this.state === "running") this.tell(context);
    });
    place.append(this.frame);
  }

  // finish tells the page the outcome of the call, when the page is initialized.
  finish(outcome: { method: "ui/notifications/tool-result" | "ui/notifications/tool-cancelled"; params: Json }) {
    if (this.outcome) return;
    this.outcome = outcome;
    if (this.state === "running") this.send(outcome);
  }

  // allow allows the page to call a tool until the page is closing.
  allow(tool: string) {
    this.allowed.add(tool);
    for (const ask of this.asks.peek()) if (ask.kind === "tool" && ask.tool.name === tool) ask.decide(true);
  }

  // leaveFullscreen ends a page that does not support another mode.
  leaveFullscreen() {
    if (this.supports("inline")) this.mode.value = "inline";
    else void this.end("the user has left full window");
  }

  // end removes the frame. A page that is initialized is told the reason before, and has a second to respond.
  async end(reason: string) {
    if (this.state === "leaving") return;
    const isRunning = this.state === "running";
    this.state = "leaving";
    this.stopTelling?.();
    for (const ask of this.asks.peek()) ask.decide(false);
    this.closed.value = reason;
    this.hide();
    if (isRunning) {
      const answered = new Promise<void>((resolve) => (this.onTeardown = resolve));
      this.send({ id: teardownID, method: "ui/resource-teardown", params: { reason } });
      await Promise.race([answered, new Promise((resolve) => setTimeout(resolve, teardownTime))]);
    }
    this.remove();
  }

  private remove() {
    removeEventListener("message", this.listen);
    this.frame.remove();
  }

  // hide moves the frame out of the view, which can be removed then. A browser without moveBefore would load it again.
  private hide() {
    const leaving = document.getElementById("leaving")!;
    if (this.frame.isConnected && "moveBefore" in leaving) leaving.moveBefore(this.frame, null);
  }

  private send(message: JsonObject) {
    this.frame.contentWindow?.postMessage({ jsonrpc: "2.0", ...message }, hello.value.apps!);
  }

  private tell(context: JsonObject) {
    const text = JSON.stringify(context);
    if (text === this.told) return;
    this.told = text;
    this.send({ method: "ui/notifications/host-context-changed", params: context });
  }

  private changingContext(): JsonObject {
    return { theme: isDark.value ? "dark" : "light", displayMode: this.mode.value };
  }

  private readonly listen = (event: MessageEvent) => {
    if (event.source !== this.frame.contentWindow || event.origin !== hello.value.apps) return;
    if (event.timeStamp - this.second > 1000) [this.second, this.count] = [event.timeStamp, 0];
    if (++this.count > maxRate) {
      void this.end(`it sent more than ${maxRate} messages in a second`);
      this.remove();
      return;
    }
    const message = parse(event.data);
    if (!message) return;
    const { id, method } = message;
    const params = isObject(message.params) ? message.params : {};
    if (method === undefined && id === teardownID) this.onTeardown?.();
    if (typeof method !== "string") return;
    if (id === undefined) this.receive(method, params);
    else if (typeof id === "string" || typeof id === "number") void this.respond(id, method, params);
  };

  // receive handles a notification.
  private receive(method: string, params: JsonObject) {
    switch (method) {
      case "ui/notifications/sandbox-proxy-ready": {
        const html = this.page?.html;
        if (html === undefined || this.state !== "loading") return;
        this.send({ method: "ui/notifications/sandbox-resource-ready", params: { html } });
        return;
      }
      case "ui/notifications/initialized":
        if (this.state !== "initializing") return;
        this.state = "running";
        this.send({ method: "ui/notifications/tool-input", params: { arguments: this.call.arguments ?? {} } });
        this.tell(this.changingContext());
        if (this.outcome) this.send(this.outcome);
        return;
      case "ui/notifications/size-changed":
        if (typeof params.height === "number") this.height.value = Math.max(40, Math.min(params.height, maxHeight));
        return;
      case "ui/notifications/request-teardown":
        void this.end("the page asked for it");
        return;
      case "notifications/cancelled":
        this.requests.get(params.requestId as string | number)?.abort();
        return;
      case "notifications/message":
        this.note(`Log message, ${String(params.level)}`, params.data ?? null);
    }
  }

  private note(title: string, value: Json) {
    if (!this.newNotes.length) setTimeout(() => {
      this.notes.value = [...this.notes.peek(), ...this.newNotes].slice(-maxNotes);
      this.newNotes = [];
    }, 50); // a page can log faster than the inspector can show it
    this.newNotes = [...this.newNotes.slice(1 - maxNotes), { title: title.slice(0, 100), value: shortened(value) }];
  }

  // respond answers a request.
  private async respond(id: string | number, method: string, params: JsonObject) {
    const fail = (code: number, message: string) => this.send({ id, error: { code, message } });
    if (method === "ping") return this.send({ id, result: {} });
    if (this.requests.has(id)) return fail(-32600, "the id is already used by a request in flight");
    if (this.requests.size >= maxRequests) {
      return fail(-32000, `${maxRequests} requests are already in flight`);
    }
    const abort = new AbortController();
    this.requests.set(id, abort);
    try {
      const result = await this.answer(method, params, abort.signal);
      if (!abort.signal.aborted) this.send({ id, result });
    } catch (error) {
      if (!abort.signal.aborted) fail(error instanceof Unsupported ? -32601 : -32000, errorText(error));
    } finally {
      this.requests.delete(id);
    }
  }

  // answer returns the result of a request.
  private async answer(method: string, params: JsonObject, signal: AbortSignal): Promise<Json> {
    if (method === "ui/initialize") return this.initialize(params);
    if (this.state === "loading") throw new Error("the page must send ui/initialize first");
    const server = this.call.server;
    switch (method) {
      case "tools/list":
        return { tools: listed(server, "tools").entries.filter(isForPages) as unknown as Json };
      case "resources/list":
        return { resources: (await resourcesOf(server)) as unknown as Json };
      case "tools/call":
        return (await this.callTool(String(params.name), params.arguments ?? {}, signal)) as unknown as Json;
      case "resources/read":
        return (await perform(server, "resources/read", String(params.uri), {}, signal)) as unknown as Json;
      case "ui/open-link": {
        const url = URL.parse(String(params.url));
        if (url?.protocol !== "https:" && url?.protocol !== "http:") {
          throw new Error("the URL must begin with http:// or https://");
        }
        await this.ask({ kind: "link", url: url.href }, signal);
        return {};
      }
      case "ui/download-file": {
        const files = (Array.isArray(params.contents) ? params.contents : []).map((one) => this.fileOf(one));
        if (!files.length) throw new Error("contents must contain a file");
        await this.ask({ kind: "files", files }, signal);
        return {};
      }
      case "ui/message": {
        checkContent(Array.isArray(params.content) ? params.content : [params.content]);
        this.note(`Message of the ${String(params.role)}`, params.content!);
        return {};
      }
      case "ui/update-model-context":
        checkContent(params.content ?? []);
        this.context.value = shortened(params);
        return {};
      case "ui/request-display-mode":
        if (params.mode === "inline" || params.mode === "fullscreen") {
          if (this.supports(params.mode)) this.mode.value = params.mode;
        }
        return { mode: this.mode.peek() };
    }
    throw new Unsupported(`the inspector does not support ${method}`);
  }

  private initialize(params: JsonObject): Json {
    const capabilities = isObject(params.appCapabilities) ? params.appCapabilities : {};
    this.modes = texts(capabilities.availableDisplayModes);
    if (this.state === "loading") this.state = "initializing";
    const context = this.changingContext();
    this.told = JSON.stringify(context);
    const blocks = { text: {}, image: {}, audio: {}, resource: {}, resourceLink: {} };
    return {
      protocolVersion: revision,
      hostInfo: { name: "parley inspect", version: hello.value.version },
      hostCapabilities: {
        openLinks: {}, downloadFile: {}, serverTools: {}, serverResources: {}, logging: {}, message: blocks,
        updateModelContext: { ...blocks, structuredContent: {} },
        sandbox: { csp: (this.page?.allowed ?? {}) as unknown as Json, permissions: {} }, // none is granted
      },
      hostContext: {
        ...context,
        toolInfo: { tool: this.tool as unknown as Json },
        availableDisplayModes: ["inline", "fullscreen"],
        containerDimensions: { maxHeight },
        locale: navigator.language,
        timeZone: Intl.DateTimeFormat().resolvedOptions().timeZone,
        platform: "web",
      },
    };
  }

  // supports reports whether the page declares a display mode. Pages that declare none are inline.
  private supports(mode: Mode): boolean {
    return this.modes?.includes(mode) ?? mode === "inline";
  }

  private async callTool(name: string, args: Json, signal: AbortSignal): Promise<Result> {
    const { server } = this.call;
    const tool = listed(server, "tools").entries.find((one) => one.name === name);
    if (!tool) throw new Error(`the page's server has no tool ${name.slice(0, 100)}`);
    if (!isForPages(tool)) throw new Error(`the tool ${name} is not for pages`);
    if (!isObject(args)) throw new Error("the arguments must be an object");
    if (!this.allowed.has(name)) await this.ask({ kind: "tool", tool, arguments: args }, signal);
    return perform(server, "tools/call", name, args, signal);
  }

  // ask waits until the user allows a request. It throws an error if the user does not.
  private ask(wish: Wish, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const decide = (isAllowed: boolean) => {
        this.asks.value = this.asks.peek().filter((one) => one !== ask);
        if (isAllowed) resolve();
        else reject(new Error("the user denied the request"));
      };
      if (this.state === "leaving" || signal.aborted) return reject(new Error("the page is closing"));
      const ask: Ask = { ...wish, number: ++this.asked, decide };
      this.asks.value = [...this.asks.peek(), ask];
      signal.addEventListener("abort", () => decide(false));
    });
  }

  // fileOf returns a file of ui/download-file. A link is read from the server of the page, and from nowhere else.
  private fileOf(content: Json): PageFile {
    const { type, uri, resource } = isObject(content) ? content : {};
    if (type === "resource_link" && typeof uri === "string") {
      const read = async () => {
        const { contents } = await perform(this.call.server, "resources/read", uri, {});
        return blobOf((contents?.[0] ?? {}) as unknown as JsonObject);
      };
      return { name: fileName(uri), content: read };
    }
    if (type === "resource" && isObject(resource) && typeof resource.uri === "string") {
      const blob = blobOf(resource);
      return { name: fileName(resource.uri), content: async () => blob };
    }
    throw new Error("contents must be resources and links to resources");
  }
}

// blobOf returns the data of a resource, without its type, which a browser could use to show it.
function blobOf({ text, blob }: JsonObject): Blob {
  const data = typeof text === "string" ? text : typeof blob === "string" ? decode(blob) : undefined;
  if (data === undefined) throw new Error("the resource must have a text or a blob");
  return new Blob([data], { type: "application/octet-stream" });
}

// checkContent throws an error if a value is no list of content blocks.
function checkContent(value: Json | (Json | undefined)[]) {
  const isBlock = (one: Json | undefined) => isObject(one) && typeof one.type === "string";
  if (!Array.isArray(value) || !value.every(isBlock)) throw new Error("content must be content blocks");
}

// parse returns a message as JSON of its own. Messages can have other values, such as objects that contain themselves.
function parse(data: unknown): JsonObject | undefined {
  try {
    const text = JSON.stringify(data);
    const message: unknown = text.length <= maxMessage ? JSON.parse(text) : undefined;
    return isObject(message) && message.jsonrpc === "2.0" ? message : undefined;
  } catch {
    return undefined;
  }
}

// shortened returns a value, or the beginning of its text if it is long.
function shortened(value: Json): Json {
  const text = JSON.stringify(value);
  return text.length > maxNote ? text.slice(0, maxNote) + "…" : value;
}
