// The connection to a server: its state, the settings for the next connection, and the login step by step.
import { useState } from "preact/hooks";
import { post, serverPath } from "./api";
import { Editor } from "./editor";
import { Headers } from "./log";
import { Markdown } from "./markdown";
import { millis, OutsideLink, pretty, Tree } from "./parts";
import { attempt, connect, hello, logins, startCall } from "./state";
import type { JsonObject, Login, LoginStep, Server, Settings } from "./types";

export function Connection({ server }: { server: Server }) {
  return (
    <div class="detail wide">
      <header class="detail-head">
        <h2>{server.info?.title ?? server.info?.name ?? server.name}</h2>
        <State server={server} />
      </header>
      <p><code class="wrap">{server.target}</code></p>
      {server.problem && <p class="problem" role="alert">{server.problem}</p>}
      <div class="actions">
        {server.state === "ready" && <button type="button" onClick={() => void startCall(server.name, { method: "ping", name: "" })}>Ping</button>}
        {(server.state === "ready" || server.state === "connecting") && <button type="button" onClick={() => void attempt(post(serverPath(server.name, "disconnect")))}>Disconnect</button>}
      </div>
      {server.info && (
        <dl class="facts">
          <div><dt>Server</dt><dd>{server.info.name} {server.info.version}{server.info.websiteUrl && <> · <OutsideLink url={server.info.websiteUrl} /></>}</dd></div>
          <div><dt>Revision</dt><dd>{server.revision} {server.revision && (server.revision >= "2026" ? "(stateless)" : "(session)")}</dd></div>
        </dl>
      )}
      {server.instructions && <details open><summary>Instructions</summary><Markdown text={server.instructions} /></details>}
      {server.capabilities && <details><summary>Server capabilities</summary><Tree value={server.capabilities} /></details>}
      {server.canLogIn && <LoginView server={server} login={logins.value.find((one) => one.server === server.name)} />}
      <SettingsForm key={server.name} server={server} />
      {server.capabilities?.logging !== undefined && <Level server={server} />}
    </div>
  );
}

export function State({ server }: { server: Server }) {
  const words = { idle: "not connected", connecting: "connecting…", ready: "connected", failed: server.login ? "requires a login" : "failed" };
  const colour = server.state === "ready" ? "good" : server.state === "failed" ? "bad" : server.state === "connecting" ? "busy" : "";
  return <span class={"badge " + colour} role="status">{words[server.state]}</span>;
}

const toggles: [keyof Settings, string][] = [
  ["elicitation", "Elicitation with forms"],
  ["urlElicitation", "Elicitation by URL"],
  ["sampling", "Sampling"],
  ["samplingTools", "Sampling with tools"],
  ["roots", "Roots"],
  ["tasks", "Tasks"],
  ["apps", "MCP Apps"],
];

function SettingsForm({ server }: { server: Server }) {
  const [settings, setSettings] = useState<Settings>(server.settings);
  const [extensions, setExtensions] = useState(() => JSON.stringify(server.settings.extensions ?? {}, null, 2));
  const [problem, setProblem] = useState("");
  const submit = () => {
    let parsed: JsonObject;
    try {
      parsed = JSON.parse(extensions || "{}");
    } catch {
      setProblem("The extensions must be a JSON object.");
      return;
    }
    setProblem("");
    void connect(server, { ...settings, extensions: parsed });
  };
  return (
    <form class="settings" onSubmit={(e) => (e.preventDefault(), submit())} aria-label="Connection settings">
      <h3>Client settings</h3>
      <p class="help">They apply to the next connection.</p>
      <div class="field">
        <div class="caption"><label for="revision"><span class="name">Protocol revision</span></label></div>
        <select id="revision" value={settings.revision} onChange={(e) => setSettings({ ...settings, revision: e.currentTarget.value })}>
          <option value="">the newest that the server supports</option>
          {[...hello.value.revisions].reverse().map((one) => <option key={one} value={one}>{one}{one >= "2026" ? " (stateless)" : ""}</option>)}
        </select>
      </div>
      <fieldset class="field group">
        <legend><span class="name">Capabilities to declare</span></legend>
        <div class="checks">
          {toggles.map(([name, label]) => (
            <label key={name}><input type="checkbox" checked={settings[name] as boolean} onChange={(e) => setSettings({ ...settings, [name]: e.currentTarget.checked })} /> {label}</label>
          ))}
        </div>
      </fieldset>
      <div class="field">
        <div class="caption"><span class="name">Other extensions</span><span class="kind">settings by name, as in {'{"com.example/jobs": {}}'}</span></div>
        <div class="short"><Editor label="Other extensions as JSON" value={extensions} onChange={setExtensions} onSubmit={submit} /></div>
        {problem && <p class="problem" role="alert">{problem}</p>}
      </div>
      <div class="actions"><button class="primary">{server.state === "ready" ? "Connect again" : "Connect"}</button></div>
    </form>
  );
}

const levels = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

function Level({ server }: { server: Server }) {
  return (
    <div class="field">
      <div class="caption"><label for="level"><span class="name">Log level of the server</span></label></div>
      <select id="level" onChange={(e) => e.currentTarget.value && void attempt(post(serverPath(server.name, "level"), { level: e.currentTarget.value }))}>
        <option value="">not set</option>
        {levels.map((one) => <option key={one}>{one}</option>)}
      </select>
    </div>
  );
}

const clientFields: ["clientId" | "clientSecret" | "redirectUri", string, "text" | "password", string][] = [
  ["clientId", "Client ID", "text", ""],
  ["clientSecret", "Client secret, if there is one", "password", ""],
  ["redirectUri", "Redirect URI, if it must match exactly", "text", "http://localhost:3118/callback"],
];

function LoginView({ server, login }: { server: Server; login: Login | undefined }) {
  const [scopes, setScopes] = useState("");
  const [client, setClient] = useState({ clientId: "", clientSecret: "", redirectUri: "" });
  const running = login?.state === "running";
  return (
    <section class="login" aria-label="Login">
      <h3>Login</h3>
      <form class="actions" onSubmit={(e) => (e.preventDefault(), void attempt(post(serverPath(server.name, "login"), { scopes, ...client, clientId: client.clientId.trim(), redirectUri: client.redirectUri.trim() })))}>
        <label class="sr" for="scopes">Scopes to request</label>
        <input id="scopes" value={scopes} placeholder="more scopes" onInput={(e) => setScopes(e.currentTarget.value)} />
        <button class={server.login ? "primary" : ""} disabled={running}>Log in</button>
        {running && <button type="button" onClick={() => void attempt(post(serverPath(server.name, "login"), { cancel: true }))}>Cancel</button>}
        <details class="own-client">
          <summary>Client and redirect URI</summary>
          <p class="help">If the authorization server does not let programs register clients, register one there yourself, with the redirect URI http://127.0.0.1/callback or the one below. The client ID can be the URL of a metadata document.</p>
          {clientFields.map(([name, label, type, placeholder]) => (
            <div key={name} class="field">
              <div class="caption"><label for={name}><span class="name">{label}</span></label></div>
              <input id={name} type={type as "text"} autocomplete="off" placeholder={placeholder} value={client[name]} onInput={(e) => setClient({ ...client, [name]: e.currentTarget.value })} />
            </div>
          ))}
        </details>
      </form>
      {login && (
        <>
          <p role="status" aria-live="polite">
            {login.state === "done" && <span class="badge good">logged in</span>}
            {login.state === "failed" && <span class="problem">{login.error}</span>}
            {running && !login.page && <span class="badge busy">talking to the servers…</span>}
          </p>
          {login.page && (
            <p class="actions">
              <a class="button primary" id="login-page" href={login.page} target="_blank" rel="noopener noreferrer">Open the login page</a>
              <span class="muted">Come back here when you have logged in.</span>
            </p>
          )}
          <ol class="login-steps">{login.steps.map((step) => <StepView key={step.number} step={step} />)}</ol>
        </>
      )}
    </section>
  );
}

function StepView({ step }: { step: LoginStep }) {
  const failed = step.error || (step.status !== undefined && step.status >= 400 && step.status !== 401 && step.status !== 404);
  return (
    <li>
      <details>
        <summary>
          <span class={failed ? "badge bad" : step.status && step.status < 300 ? "badge good" : "badge"}>{step.status ?? (step.error ? "failed" : "…")}</span>
          <span class="what">{step.purpose}</span>
          {step.reference && <span class="muted">{step.reference}</span>}
          {step.millis !== undefined && <span class="muted">{millis(step.millis)}</span>}
        </summary>
        {step.error && <p class="problem">{step.error}</p>}
        <Headers title={`${step.method} ${step.url}`} header={step.requestHeader ?? {}} />
        {step.requestBody && <pre tabIndex={0}>{step.requestBody.includes("=") ? step.requestBody.replaceAll("&", "\n&") : pretty(step.requestBody)}</pre>}
        {step.status !== undefined && <Headers title={`Status ${step.status}`} header={step.responseHeader ?? {}} />}
        {step.responseBody && <pre tabIndex={0}>{pretty(step.responseBody)}</pre>}
      </details>
    </li>
  );
}
