// The state of the page: what the program has reported, and what the user has chosen.
import { batch, computed, effect, signal } from "@preact/signals";
import { get, listen, post, RequestError, serverPath } from "./api";
import type { Call, Hello, Json, Login, Message, Prompt, Question, Resource, Server, Skill, Template, Tool } from "./types";

export type Section = "tools" | "prompts" | "resources" | "skills" | "calls" | "connection";
export const sections: Section[] = ["tools", "prompts", "resources", "skills", "calls", "connection"];

// The colours that the user has chosen, and whether the page is dark.
export type Theme = "system" | "light" | "dark";
const systemDark = matchMedia("(prefers-color-scheme: dark)");
const systemIsDark = signal(systemDark.matches);
systemDark.addEventListener("change", () => (systemIsDark.value = systemDark.matches));
export const theme = signal<Theme>((localStorage.getItem("parley-theme") as Theme | null) ?? "system");
export const isDark = computed(() => theme.value === "dark" || (theme.value === "system" && systemIsDark.value));

export const link = signal<"connecting" | "open" | "lost" | "rejected">("connecting");
export const hello = signal<Hello>({ version: "", revisions: [] });
export const servers = signal<Server[]>([]);
export const questions = signal<Question[]>([]);
export const logins = signal<Login[]>([]);
export const calls = signal<Map<number, Call>>(new Map());
export const messages = signal<Message[]>([]);
export const droppedBefore = signal(1); // the number of the oldest message that the program keeps

export const selectedServer = signal("");
export const section = signal<Section>("tools");
export const notice = signal(""); // read out by screen readers, and shown for a while

export const current = computed(() => servers.value.find((s) => s.name === selectedServer.value) ?? servers.value[0]);

// What a server lists, by server and kind. version is that of the server's list when it was requested.
export interface Lists {
  tools: Tool[];
  prompts: Prompt[];
  resources: Resource[];
  templates: Template[];
  skills: Skill[];
}
export type Kind = keyof Lists;

export interface Listed<T> {
  entries: T[];
  version: number;
  loading: boolean;
  error: string;
}

const lists = signal<Map<string, Listed<never>>>(new Map());

export function listed<K extends Kind>(server: string, kind: K): Listed<Lists[K][number]> {
  return (lists.value.get(kind + " " + server) as Listed<Lists[K][number]> | undefined) ?? { entries: [], version: -1, loading: false, error: "" };
}

// has reports whether a server declares what a list is of.
export function has(server: Server, kind: Kind): boolean {
  if (kind === "skills") return server.skills ?? false;
  return server.capabilities?.[kind === "templates" ? "resources" : kind] !== undefined;
}

// load requests a list unless the page has its newest version.
export async function load(server: Server, kind: Kind, refresh = false) {
  const version = server.lists[kind === "tools" ? 0 : kind === "prompts" ? 1 : 2];
  const key = kind + " " + server.name;
  const before = lists.peek().get(key);
  if (!refresh && before && before.version === version) return;
  const set = (value: Partial<Listed<never>>) => {
    const old = lists.peek().get(key) ?? { entries: [], version, loading: false, error: "" };
    lists.value = new Map(lists.peek()).set(key, { ...old, ...value });
  };
  set({ loading: true, version, error: "" });
  try {
    const list = await get<{ entries: never[]; error?: string }>(serverPath(server.name, kind + (refresh ? "?refresh=1" : "")));
    set({ entries: list.entries, loading: false, error: list.error ?? "" });
  } catch (error) {
    set({ entries: [], loading: false, error: errorText(error) });
  }
}

export function errorText(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

let noticeTimer = 0;
export function say(text: string) {
  notice.value = text;
  clearTimeout(noticeTimer);
  noticeTimer = window.setTimeout(() => (notice.value = ""), 6000);
}

// attempt runs a request of the user and shows its error.
export async function attempt<T>(request: Promise<T>): Promise<T | undefined> {
  try {
    return await request;
  } catch (error) {
    say(errorText(error));
    return undefined;
  }
}

export function connect(server: Server, settings = server.settings) {
  return attempt(post(serverPath(server.name, "connect"), settings));
}

export interface CallRequest {
  method: string;
  name: string;
  arguments?: Json;
  task?: boolean;
  taskId?: string; // wait for this task instead
}

export async function startCall(server: string, request: CallRequest): Promise<number | undefined> {
  return (await attempt(post<{ call: number }>(serverPath(server, "calls"), request)))?.call;
}

// follow keeps the state up to date.
export async function follow() {
  for (let pause = 250; ; pause = Math.min(pause * 2, 4000)) {
    try {
      await listen((update) => {
        pause = 250;
        batch(() => {
          link.value = "open";
          if (update.hello) {
            hello.value = update.hello;
            messages.value = [];
            calls.value = new Map();
          }
          if (update.state) {
            servers.value = update.state.servers;
            questions.value = update.state.questions ?? [];
            logins.value = update.state.logins;
          }
          if (update.calls) {
            const next = new Map(calls.peek());
            for (const call of update.calls) next.set(call.number, call);
            calls.value = next;
          }
          const kept = messages.peek();
          const first = kept[0];
          if (update.messages || (first && first.number < update.oldest)) {
            const start = first ? Math.max(0, Math.min(update.oldest - first.number, kept.length)) : 0;
            messages.value = kept.slice(start).concat(update.messages ?? []);
          }
          droppedBefore.value = update.oldest;
        });
      });
    } catch (error) {
      if (error instanceof RequestError && (error.status === 401 || error.status === 403)) {
        link.value = "rejected";
        return;
      }
    }
    link.value = "lost";
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
}

// The first connection to a server is opened when the user selects it.
const opened = new Set<string>();
effect(() => {
  const server = current.value;
  if (server && server.state === "idle" && !opened.has(server.name)) {
    opened.add(server.name);
    void connect(server);
  }
});
