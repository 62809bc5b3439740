// The skills of a server: their frontmatter, and their files as the program has verified them.
import { useState } from "preact/hooks";
import { post, serverPath } from "./api";
import { EntryList, openDetail, Split } from "./panes";
import { breakable, bytes, Tree } from "./parts";
import { Markdown } from "./markdown";
import { selectedSkill } from "./selection";
import { errorText } from "./state";
import { useList } from "./tools";
import type { Server, Skill, SkillFile } from "./types";

export function Skills({ server }: { server: Server }) {
  const { list, props } = useList(server, "skills");
  const skill = list.entries.find((one) => one.uri === selectedSkill.value[server.name]) ?? list.entries[0];
  const entries = list.entries.map((one) => ({ key: one.uri, name: one.frontmatter.name, note: one.uri }));
  const select = (uri: string) => (selectedSkill.value = { ...selectedSkill.value, [server.name]: uri });
  return (
    <Split back="Skills" list={<EntryList label="Skills" entries={entries} selected={skill?.uri ?? ""} onSelect={select} {...props} />}>
      {skill && <SkillView key={server.name + " " + skill.uri} server={server} skill={skill} />}
    </Split>
  );
}

interface Read {
  text?: string;
  error?: string;
  size: number;
}

function SkillView({ server, skill }: { server: Server; skill: Skill }) {
  const [files, setFiles] = useState<{ [uri: string]: Read }>({});
  const [open, setOpen] = useState("");
  const root = skill.uri.slice(0, -"SKILL.md".length);
  const read = async (uri: string) => {
    let file: Read;
    try {
      file = await post<Read>(serverPath(server.name, "skill"), { skill, uri });
    } catch (error) {
      file = { error: errorText(error), size: 0 };
    }
    setFiles((before) => ({ ...before, [uri]: file }));
    setOpen(uri);
    openDetail();
  };
  const all: SkillFile[] = skill.resources === "dynamic" ? [{ uri: skill.uri, digest: "", size: 0 }] : skill.resources;
  const shown = files[open];
  return (
    <article class="detail" aria-label={"Skill " + skill.frontmatter.name}>
      <header class="detail-head"><h2>{breakable(skill.frontmatter.name)}</h2><span class="muted uri">{breakable(skill.uri)}</span></header>
      <p>{skill.frontmatter.description}</p>
      <p class="muted">The instructions come from the server. A digest proves that a file is the one listed, not that you can trust it.</p>
      <h3>Frontmatter</h3>
      <Tree value={skill.frontmatter} />
      <h3>Files</h3>
      {skill.resources === "dynamic" && <p class="muted">The server generates these files, so they cannot be verified.</p>}
      <ul class="files">
        {all.map((one) => (
          <li key={one.uri}>
            <button type="button" class="quiet" disabled={server.state !== "ready"} aria-expanded={open === one.uri} onClick={() => void read(one.uri)}>{breakable(decoded(one.uri.slice(root.length)))}</button>
            {one.digest && <span class="muted">{bytes(one.size)}</span>}
            {files[one.uri] && <span class={"badge " + (files[one.uri]!.error ? "bad" : one.digest ? "good" : "")}>{files[one.uri]!.error ? "not verified" : one.digest ? "verified" : "read"}</span>}
          </li>
        ))}
      </ul>
      {shown && (
        <section aria-label={"File " + open.slice(root.length)}>
          <h3>{decoded(open.slice(root.length))}</h3>
          {shown.error ? <p class="problem" role="alert">{shown.error}</p>
            : shown.text === undefined ? <p class="muted">{bytes(shown.size)} that are not text.</p>
            : open.endsWith(".md") ? <Markdown text={shown.text.replace(frontmatter, "")} /> : <pre tabIndex={0}><code>{shown.text}</code></pre>}
        </section>
      )}
    </article>
  );
}

// The frontmatter at the beginning of a SKILL.md, which the page shows already.
const frontmatter = /^---\s*?\n[\s\S]*?\n---[ \t]*\r?\n/;

function decoded(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    return path;
  }
}
