// Requests to the program. The token of the page is in the fragment of its address, and then in the session storage of the
// tab, so that a reload works.
import type { Issue, Update } from "./types";

const storageKey = "parley-token";

function takeToken(): string {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) {
    sessionStorage.setItem(storageKey, given);
    history.replaceState(null, "", location.pathname);
  }
  return given ?? sessionStorage.getItem(storageKey) ?? "";
}

let token = takeToken();

// An address that the user opens in the same tab changes the fragment only.
addEventListener("hashchange", () => {
  const given = takeToken();
  if (given && given !== token) {
    token = given;
    location.reload();
  }
});

export class RequestError extends Error {
  constructor(
    message: string,
    readonly status: number,
    readonly issues: Issue[] = [],
  ) {
    super(message);
  }
}

async function send(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  headers.set("Authorization", "Bearer " + token);
  let response: Response;
  try {
    response = await fetch(path, { ...init, headers });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new RequestError("parley inspect does not respond; start it again", 0);
  }
  if (!response.ok) {
    const text = await response.text();
    let problem: { error?: string; issues?: Issue[] } = {};
    try {
      problem = JSON.parse(text);
    } catch {
      problem = { error: text };
    }
    throw new RequestError(problem.error ?? response.statusText, response.status, problem.issues);
  }
  return response;
}

export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return (await send(path, signal ? { signal } : {})).json();
}

export async function getText(path: string): Promise<string> {
  return (await send(path)).text();
}

export async function getBlob(path: string): Promise<Blob> {
  return (await send(path)).blob();
}

export async function post<T>(path: string, body: unknown = {}, signal?: AbortSignal): Promise<T> {
  const init: RequestInit = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  if (signal) init.signal = signal;
  return (await send(path, init)).json();
}

export function serverPath(name: string, rest: string): string {
  return "/api/servers/" + encodeURIComponent(name) + "/" + rest;
}

// listen reads the event stream until it ends. It throws the error of the connection.
export async function listen(onUpdate: (update: Update) => void): Promise<void> {
  const response = await send("/api/events");
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop()!;
    for (const line of lines) if (line) onUpdate(JSON.parse(line));
  }
}
