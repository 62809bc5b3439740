// The resources and resource templates of a server, and the changes that it reports.
import { useState } from "preact/hooks";
import { post, serverPath } from "./api";
import { CallView, openResource } from "./calls";
import { EntryList, Split } from "./panes";
import { breakable, bytes, clock, Folded } from "./parts";
import { CompletedInput, completer } from "./prompts";
import { selectedCall, selectedResource } from "./selection";
import { attempt, calls } from "./state";
import { useList } from "./tools";
import type { Server, Template } from "./types";

export function Resources({ server }: { server: Server }) {
  const { list: resources, props } = useList(server, "resources");
  const { list: templates, props: ofTemplates } = useList(server, "templates");
  const [templateUri, setTemplate] = useState("");
  const template = templates.entries.find((one) => one.uriTemplate === templateUri);
  const uri = selectedResource.value[server.name] ?? "";
  const entries = [
    ...resources.entries.map((one) => ({ key: one.uri, name: one.title ?? one.name, note: one.uri + (one.size ? ", " + bytes(one.size) : "") })),
    ...templates.entries.map((one) => ({ key: one.uriTemplate, name: one.title ?? one.name, note: one.uriTemplate, marks: <span class="mark">template</span> })),
  ];
  const select = (key: string) => {
    const isTemplate = templates.entries.some((one) => one.uriTemplate === key);
    setTemplate(isTemplate ? key : "");
    if (!isTemplate) void openResource(server.name, key);
  };
  const list = (
    <EntryList {...props} label="Resources" entries={entries} selected={templateUri || uri} onSelect={select} loading={resources.loading || templates.loading}
      error={resources.error || (resources.entries.length ? "" : templates.error)} onRefresh={() => (props.onRefresh(), ofTemplates.onRefresh())}>
      <Changes server={server} />
    </EntryList>
  );
  return (
    <Split back="Resources" list={list}>
      {template ? <TemplateView key={template.uriTemplate} server={server} template={template} /> : uri ? <ResourceView server={server} uri={uri} /> : entries.length > 0 && <p class="detail empty">Select a resource to read it.</p>}
    </Split>
  );
}

function Changes({ server }: { server: Server }) {
  const changes = [...(server.changes ?? [])].reverse().slice(0, 20);
  if (!changes.length) return null;
  return (
    <section class="changes" aria-label="Changes" aria-live="polite">
      <h2>Changes</h2>
      <ol>{changes.map((one, i) => <li key={i}><span class="at">{clock(one.time)}</span> {one.uri || one.kind}</li>)}</ol>
    </section>
  );
}

function ResourceView({ server, uri }: { server: Server; uri: string }) {
  const call = calls.value.get(selectedCall.value["resources/read " + server.name + " " + uri] ?? 0);
  const watched = server.watched ?? [];
  const isWatched = watched.includes(uri);
  const latest = server.changes?.findLast((one) => one.uri === uri);
  const isStale = latest && call && latest.time > call.started;
  const toggle = () => attempt(post(serverPath(server.name, "subscribe"), { uris: isWatched ? watched.filter((one) => one !== uri) : [...watched, uri] }));
  const resources = server.capabilities?.resources;
  const canSubscribe = typeof resources === "object" && resources !== null && "subscribe" in resources && resources.subscribe;
  return (
    <article class="detail" aria-label={"Resource " + uri}>
      <header class="detail-head"><h2 class="uri">{breakable(uri)}</h2></header>
      <div class="actions">
        <button type="button" class="primary" onClick={() => void openResource(server.name, uri)} disabled={server.state !== "ready"}>Read again</button>
        {canSubscribe && <label class="check"><input type="checkbox" checked={isWatched} onChange={toggle} /> subscribed to changes</label>}
        {isStale && <span class="badge busy" role="status">has changed at {clock(latest.time)}</span>}
      </div>
      {call && <CallView call={call} />}
    </article>
  );
}

// variablesOf returns the names of the variables of a URI template (RFC 6570).
export function variablesOf(template: string): string[] {
  return [...template.matchAll(/\{[+#./;?&]?([^}]+)\}/g)].flatMap((found) => found[1]!.split(",").map((one) => one.replace(/\*$|:\d+$/, "")));
}

// expand replaces the variables of a URI template.
export function expand(template: string, values: { [name: string]: string }): string {
  return template.replaceAll(/\{([+#./;?&]?)([^}]+)\}/g, (_, operator: string, list: string) => {
    const reserved = operator === "+" || operator === "#";
    const named = operator === "?" || operator === "&" || operator === ";";
    const parts = list.split(",").flatMap((spec) => {
      const name = spec.replace(/\*$|:\d+$/, "");
      const value = values[name];
      if (value === undefined || value === "") return [];
      const limit = /:(\d+)$/.exec(spec)?.[1];
      const cut = limit ? [...value].slice(0, Number(limit)).join("") : value;
      const encoded = reserved ? encodeURI(cut) : encodeURIComponent(cut).replaceAll(/[!'()*]/g, (c) => "%" + c.charCodeAt(0).toString(16).toUpperCase());
      return [named ? `${name}=${encoded}` : encoded];
    });
    if (!parts.length) return "";
    const first = operator === "" || operator === "+" ? "" : operator;
    const separator = operator === "?" ? "&" : operator === "" || operator === "+" || operator === "#" ? "," : operator;
    return first + parts.join(separator);
  });
}

function TemplateView({ server, template }: { server: Server; template: Template }) {
  const [values, setValues] = useState<{ [name: string]: string }>({});
  const uri = expand(template.uriTemplate, values);
  const call = calls.value.get(selectedCall.value["resources/read " + server.name + " " + uri] ?? 0);
  return (
    <article class="detail" aria-label={"Template " + template.uriTemplate}>
      <header class="detail-head"><h2 class="uri">{breakable(template.uriTemplate)}</h2></header>
      {template.description && <Folded text={template.description}><p>{template.description}</p></Folded>}
      <form class="form" onSubmit={(e) => (e.preventDefault(), void openResource(server.name, uri))}>
        {variablesOf(template.uriTemplate).map((name) => (
          <CompletedInput key={name} label={name} required={false} value={values[name] ?? ""} onChange={(text) => setValues({ ...values, [name]: text })}
            complete={completer(server, { type: "ref/resource", uri: template.uriTemplate }, name, values)} />
        ))}
        <p><code>{uri}</code></p>
        <div class="actions"><button class="primary" disabled={server.state !== "ready"}>Read</button></div>
      </form>
      {call && <CallView call={call} />}
    </article>
  );
}
