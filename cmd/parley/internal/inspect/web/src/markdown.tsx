// A renderer of Markdown that creates elements only, so that no text of a server becomes HTML. It does not load images.
import type { ComponentChildren } from "preact";
import { OutsideLink } from "./parts";

export function Markdown({ text }: { text: string }) {
  return <div class="markdown">{blocks(text.replaceAll("\r\n", "\n").split("\n"), 0)}</div>;
}

const item = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;

function blocks(lines: string[], depth: number): ComponentChildren[] {
  const out: ComponentChildren[] = [];
  let i = 0;
  while (i < lines.length) {
    const line = lines[i]!;
    const key = out.length;
    const fence = /^\s{0,3}(```+|~~~+)/.exec(line);
    const heading = /^(#{1,6})\s+(.*?)\s*#*$/.exec(line);
    if (line.trim() === "") {
      i++;
    } else if (fence) {
      const end = lines.findIndex((other, n) => n > i && other.trim().startsWith(fence[1]!));
      const stop = end < 0 ? lines.length : end;
      out.push(<pre key={key} tabIndex={0}><code>{lines.slice(i + 1, stop).join("\n")}</code></pre>);
      i = stop + 1;
    } else if (heading) {
      out.push(<h3 key={key} class={"level-" + heading[1]!.length}>{inline(heading[2]!)}</h3>); // a part of the view, whatever its level
      i++;
    } else if (/^\s{0,3}([-*_])(\s*\1){2,}\s*$/.test(line)) {
      out.push(<hr key={key} />);
      i++;
    } else if (/^\s{0,3}>/.test(line) && depth < 8) {
      let end = i;
      while (end < lines.length && /^\s{0,3}>/.test(lines[end]!)) end++;
      out.push(<blockquote key={key}>{blocks(lines.slice(i, end).map((one) => one.replace(/^\s{0,3}>\s?/, "")), depth + 1)}</blockquote>);
      i = end;
    } else if (item.test(line) && depth < 8) {
      const [list, next] = listAt(lines, i, depth, key);
      out.push(list);
      i = next;
    } else if (line.includes("|") && /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/.test(lines[i + 1] ?? "") && lines[i + 1]!.includes("-")) {
      let end = i + 2;
      while (end < lines.length && lines[end]!.includes("|")) end++;
      out.push(<Table key={key} head={cells(line)} rows={lines.slice(i + 2, end).map(cells)} />);
      i = end;
    } else {
      let end = i + 1;
      while (end < lines.length && lines[end]!.trim() !== "" && !/^\s{0,3}(#{1,6}\s|```|~~~|>)/.test(lines[end]!) && !item.test(lines[end]!)) end++;
      out.push(<p key={key}>{inline(lines.slice(i, end).join("\n"))}</p>);
      i = end;
    }
  }
  return out;
}

// listAt returns the list that starts at a line, and the line after it.
function listAt(lines: string[], start: number, depth: number, key: number): [ComponentChildren, number] {
  const first = item.exec(lines[start]!)!;
  const indent = first[1]!.length;
  const ordered = /\d/.test(first[2]!);
  const items: ComponentChildren[] = [];
  let i = start;
  while (i < lines.length) {
    const found = item.exec(lines[i]!);
    if (!found || found[1]!.length !== indent || /\d/.test(found[2]!) !== ordered) break;
    const body = [found[3]!];
    i++;
    while (i < lines.length) {
      const line = lines[i]!;
      if (line.trim() === "" ? !/^\s{2,}\S/.test(lines[i + 1] ?? "") : line.search(/\S/) <= indent) break;
      body.push(line.slice(Math.min(indent + 2, Math.max(line.search(/\S/), 0))));
      i++;
    }
    items.push(<li key={items.length}>{body.length === 1 ? inline(body[0]!) : blocks(body, depth + 1)}</li>);
    if (lines[i]?.trim() === "" && item.test(lines[i + 1] ?? "")) i++;
  }
  return [ordered ? <ol key={key} start={parseInt(first[2]!, 10)}>{items}</ol> : <ul key={key}>{items}</ul>, i];
}

function cells(line: string): string[] {
  return line.trim().replace(/^\||\|$/g, "").split("|").map((cell) => cell.trim());
}

function Table({ head, rows }: { head: string[]; rows: string[][] }) {
  return (
    <div class="table" tabIndex={0}>
      <table>
        <thead><tr>{head.map((cell, i) => <th key={i} scope="col">{inline(cell)}</th>)}</tr></thead>
        <tbody>{rows.map((row, i) => <tr key={i}>{head.map((_, n) => <td key={n}>{inline(row[n] ?? "")}</td>)}</tr>)}</tbody>
      </table>
    </div>
  );
}

// The alternatives are code, images, links, bare links, strong, emphasis and line breaks. None of them repeats a repetition.
const span = /(`+)([^`]|[^`][\s\S]{0,2000}?[^`])\1(?!`)|(!?)\[([^\]\n]{0,500})\]\(([^)\s]{1,2000})(?:\s"[^"\n]*")?\)|(https?:\/\/[^\s<>()]{1,2000})|\*\*([^*\n]{1,1000})\*\*|__([^_\n]{1,1000})__|\*([^*\s][^*\n]{0,1000})\*|(?<![\w])_([^_\s][^_\n]{0,1000})_(?![\w])|\\([\\`*_{}[\]()#+.!|>~-])|( {2,}\n)/g;

function inline(text: string, depth = 0): ComponentChildren[] {
  const out: ComponentChildren[] = [];
  let last = 0;
  for (const found of text.matchAll(span)) {
    out.push(text.slice(last, found.index));
    last = found.index + found[0].length;
    const [, , code, image, label, target, bare, strong, strong2, emphasis, emphasis2, escaped] = found;
    const inner = (part: string) => (depth < 4 ? inline(part, depth + 1) : part);
    if (code !== undefined) out.push(<code>{code}</code>);
    else if (target !== undefined) out.push(<OutsideLink url={target}>{image ? `[image: ${label || target}]` : label ? inner(label) : target}</OutsideLink>);
    else if (bare !== undefined) out.push(<OutsideLink url={bare}>{bare}</OutsideLink>);
    else if (strong ?? strong2) out.push(<strong>{inner((strong ?? strong2)!)}</strong>);
    else if (emphasis ?? emphasis2) out.push(<em>{inner((emphasis ?? emphasis2)!)}</em>);
    else if (escaped) out.push(escaped);
    else out.push(<br />);
  }
  out.push(text.slice(last));
  return out;
}
