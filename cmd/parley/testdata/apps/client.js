// What the pages of these tests share: the messages to their host, and the attempts of hostile pages.
let lastID = 0;
const waiting = new Map(); // by id
const handlers = {}; // of notifications and requests of the host, by method
const received = []; // methods of the host, in order
const send = (message) => parent.postMessage({ jsonrpc: "2.0", ...message }, "*");
const notify = (method, params = {}) => send({ method, params });
const request = (method, params = {}) => new Promise((resolve, reject) => {
  waiting.set(++lastID, { resolve, reject });
  send({ id: lastID, method, params });
});
// log logs a text. The inspector would show quotes with backslashes.
const log = (text) => notify("notifications/message", { level: "info", data: text.replaceAll('"', "'") });
const call = (name, args = {}) => request("tools/call", { name, arguments: args });
// outcome describes how a request ends.
const outcome = (promise) => promise.then((r) => r.content?.[0].text ?? "done", (e) => `error ${e.code}: ${e.message}`);

addEventListener("message", async ({ source, data }) => {
  if (source !== parent || source === window) return;
  const { id, method, params, result, error } = data;
  if (!method) {
    const one = waiting.get(id);
    waiting.delete(id);
    if (error) one?.reject(error);
    else one?.resolve(result);
    return;
  }
  received.push(method);
  const answer = await handlers[method]?.(params);
  if (id !== undefined) send({ id, result: answer ?? {} });
});

let initialized; // the result of ui/initialize
async function start(appCapabilities = {}) {
  const appInfo = { name: "test", version: "1" };
  initialized = await request("ui/initialize", { protocolVersion: "2026-01-26", appInfo, appCapabilities });
  notify("ui/notifications/initialized");
}

// attack runs what a hostile page attempts, at once or in order, and logs the names of what succeeds. An attempt fails
// if it throws an error or returns a false value. A page that is not in a frame of a host attacks without one.
async function attack(attempts, isInOrder = false) {
  if (parent !== window) await start();
  const reached = [];
  const run = async ([name, attempt]) => {
    try {
      const late = new Promise((resolve) => setTimeout(resolve, 1000, false));
      if (await Promise.race([attempt(), late])) reached.push(name);
    } catch {
      // as it must be
    }
  };
  if (isInOrder) for (const one of Object.entries(attempts)) await run(one);
  else await Promise.all(Object.entries(attempts).map(run));
  log("reached: " + (reached.join(", ") || "nothing"));
}
