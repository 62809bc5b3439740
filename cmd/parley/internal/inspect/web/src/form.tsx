// Forms that are generated from a JSON Schema.
import { useEffect, useId, useRef, useState } from "preact/hooks";
import type { ComponentChildren } from "preact";
import { post } from "./api";
import { breakable } from "./parts";
import { choices, example, fits, initial, isObject, kindOf, resolve, typeOf, variants } from "./schema";
import type { Issue, Json, JsonObject, Schema } from "./types";

export interface Validation {
  issues: Issue[];
  unchecked?: { Pointer: string; Reason: string }[];
  error?: string;
}

// useValidation validates a value shortly after it has changed.
export function useValidation(schema: Schema, value: Json | undefined): Validation {
  const [found, setFound] = useState<Validation>({ issues: [] });
  useEffect(() => {
    const abort = new AbortController();
    const timer = setTimeout(() => {
      post<Validation>("/api/validate", { schema, value: value ?? {} }, abort.signal).then(setFound, () => {});
    }, 120);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [schema, value]);
  return found;
}

interface FormProps {
  schema: Schema;
  value: Json | undefined;
  onChange: (value: Json) => void;
  issues: Issue[];
  showMissing: boolean; // show also that required values are missing
}

// hasFields reports whether the form of a schema has fields.
export function hasFields(root: Schema): boolean {
  const schema = resolve(root, root);
  const type = typeOf(schema);
  return (type !== "object" && type !== "") || variants(schema, root).length > 0 || Object.keys(schema.properties ?? {}).length > 0 || openObject(schema);
}

// Form shows the fields of an object.
export function Form(props: FormProps) {
  const schema = resolve(props.schema, props.schema);
  const type = typeOf(schema);
  if (!hasFields(props.schema)) return <p class="muted">No arguments.</p>;
  const common = { root: props.schema, path: "", issues: props.issues, showMissing: props.showMissing };
  return (
    <div class="form">
      {type === "object" && !variants(schema, props.schema).length ? (
        <Members {...common} schema={schema} value={isObject(props.value) ? props.value : {}} onChange={props.onChange} />
      ) : (
        <Field {...common} schema={schema} label="Value" required value={props.value} onChange={(value) => props.onChange(value ?? null)} />
      )}
    </div>
  );
}

interface FieldProps {
  schema: Schema;
  root: Schema;
  label: string;
  path: string;
  required?: boolean;
  value: Json | undefined;
  onChange: (value: Json | undefined) => void;
  issues: Issue[];
  showMissing: boolean;
  actions?: ComponentChildren;
}

function openObject(schema: Schema): boolean {
  return schema.additionalProperties === true || isObject(schema.additionalProperties);
}

function child(path: string, name: string | number): string {
  return path + "/" + String(name).replaceAll("~", "~0").replaceAll("/", "~1");
}

// problemAt returns the message about the value at a path.
function problemAt(issues: Issue[], path: string, showMissing: boolean): string {
  const found = issues.filter((issue) => issue.Path === path);
  return found
    .filter((issue) => showMissing || !isMissing(issue))
    .map((issue) => (isMissing(issue) ? "is required" : `must be ${issue.Expected}, not ${issue.Got}`))
    .join("; ");
}

function isMissing(issue: Issue): boolean {
  return issue.Got.startsWith("nothing");
}

interface MembersProps extends Omit<FieldProps, "label" | "value" | "onChange" | "required"> {
  value: JsonObject;
  onChange: (value: JsonObject) => void;
}

// Members shows the properties of an object.
function Members({ schema, root, value, onChange, path, issues, showMissing }: MembersProps) {
  const [newName, setNewName] = useState("");
  const id = useId();
  const properties = schema.properties ?? {};
  const set = (name: string, member: Json | undefined) => {
    const next = { ...value };
    if (member === undefined) delete next[name];
    else next[name] = member;
    onChange(next);
  };
  const others = Object.keys(value).filter((name) => !Object.hasOwn(properties, name));
  const otherSchema = isObject(schema.additionalProperties) ? (schema.additionalProperties as Schema) : {};
  const add = () => {
    const name = newName.trim();
    if (name && !Object.hasOwn(value, name)) set(name, example(otherSchema, root));
    setNewName("");
  };
  return (
    <>
      {Object.entries(properties).map(([name, property]) => (
        <Field key={name} schema={resolve(property, root)} root={root} label={name} path={child(path, name)} required={schema.required?.includes(name) ?? false}
          value={Object.hasOwn(value, name) ? value[name] : undefined} onChange={(member) => set(name, member)} issues={issues} showMissing={showMissing} />
      ))}
      {others.map((name) => (
        <Field key={name} schema={resolve(otherSchema, root)} root={root} label={name} path={child(path, name)} value={value[name]} onChange={(member) => set(name, member ?? null)}
          issues={issues} showMissing={showMissing} actions={<button type="button" class="quiet" onClick={() => set(name, undefined)} aria-label={"Remove " + name}>Remove</button>} />
      ))}
      {openObject(schema) && (
        <div class="add-member">
          <label class="sr" for={id}>Name of the new field</label>
          <input id={id} value={newName} placeholder="name" onInput={(e) => setNewName(e.currentTarget.value)} onKeyDown={(e) => e.key === "Enter" && (e.preventDefault(), add())} />
          <button type="button" onClick={add} disabled={!newName.trim()}>Add field</button>
        </div>
      )}
    </>
  );
}

// Field shows one value with its label, description and problem.
function Field(props: FieldProps) {
  const { schema, root, label, path, required, value, issues, showMissing } = props;
  const id = useId();
  const [touched, setTouched] = useState(false);
  const problem = problemAt(issues, path, showMissing || (touched && !!required));
  const alternatives = choices(schema, root) ? [] : variants(schema, root);
  const type = typeOf(schema);
  const group = alternatives.length > 0 || type === "object" || type === "array";
  const described = [schema.description && id + "-d", problem && id + "-p"].filter(Boolean).join(" ");
  const title = schema.title && schema.title.toLowerCase() !== label.toLowerCase() ? schema.title : "";
  const caption = (
    <>
      <span class="name">{breakable(label)}</span>
      {required && <span class="required" title="required" aria-hidden="true">*</span>}
      {title && <span class="title">{title}</span>}
      <span class="kind">{kindOf(schema, root)}{limits(schema)}</span>
    </>
  );
  const notes = (
    <>
      {schema.description && <p class="help" id={id + "-d"}>{schema.description}</p>}
      {problem && <p class="problem" id={id + "-p"}>{problem}</p>}
    </>
  );
  const input: InputProps = { ...props, id, described, invalid: problem !== "", onLeave: () => setTouched(true) };
  if (!group) {
    return (
      <div class={problem ? "field invalid" : "field"}>
        <div class="caption"><label for={id}>{caption}</label>{props.actions}</div>
        <Input {...input} />
        {notes}
      </div>
    );
  }
  return (
    <fieldset class={problem ? "field group invalid" : "field group"} aria-describedby={described || undefined}>
      <legend>{caption}</legend>
      {props.actions && <div class="group-actions">{props.actions}</div>}
      {notes}
      {value === undefined && !isCheckList(schema, root) ? (
        <button type="button" onClick={() => props.onChange(example(schema, root))}>Add {label}</button>
      ) : alternatives.length > 0 ? (
        <Variants {...input} alternatives={alternatives} />
      ) : type === "object" ? (
        <Members {...props} value={isObject(value) ? value : {}} />
      ) : (
        <Items {...input} />
      )}
      {value !== undefined && !required && !props.actions && (
        <button type="button" class="quiet" onClick={() => props.onChange(undefined)}>Remove {label}</button>
      )}
    </fieldset>
  );
}

// limits describes the bounds of a value.
function limits(schema: Schema): string {
  const low = schema.minimum ?? schema.minLength ?? schema.minItems;
  const high = schema.maximum ?? schema.maxLength ?? schema.maxItems;
  const unit = schema.minLength !== undefined || schema.maxLength !== undefined ? " characters" : schema.minItems !== undefined || schema.maxItems !== undefined ? " elements" : "";
  if (low !== undefined && high !== undefined) return `, ${low} to ${high}${unit}`;
  if (low !== undefined && !(low === 1 && unit === " characters")) return `, at least ${low}${unit}`;
  if (high !== undefined) return `, at most ${high}${unit}`;
  return "";
}

interface InputProps extends FieldProps {
  id: string;
  described: string;
  invalid: boolean;
  onLeave: () => void;
}

const inputTypes: { [format: string]: "date" | "time" | "email" | "url" | "text" } = { date: "date", time: "time", email: "email", uri: "url", "date-time": "text" };

// Input shows the control of a value that is neither an object nor an array.
function Input({ schema, root, id, described, invalid, value, onChange, required, onLeave }: InputProps) {
  const common = { id, "aria-describedby": described || undefined, "aria-invalid": invalid, "aria-required": required, onBlur: onLeave };
  const known = choices(schema, root);
  if (schema.const !== undefined) return <output id={id} class="fixed">{JSON.stringify(schema.const)}</output>;
  const type = typeOf(schema);
  if (known || type === "boolean") {
    const options = known ?? [{ value: true as Json, label: "true" }, { value: false as Json, label: "false" }];
    const index = options.findIndex((one) => JSON.stringify(one.value) === JSON.stringify(value));
    return (
      <select {...common} value={index < 0 ? "" : String(index)} onChange={(e) => onChange(e.currentTarget.value === "" ? undefined : options[Number(e.currentTarget.value)]!.value)}>
        {(!required || index < 0) && <option value="">{required ? "choose…" : "not set"}</option>}
        {options.map((one, i) => <option key={i} value={String(i)}>{one.label}</option>)}
      </select>
    );
  }
  if (type === "integer" || type === "number") return <NumberInput common={common} value={value} onChange={onChange} />;
  if (type === "string") {
    const text = typeof value === "string" ? value : "";
    // An empty text of an optional value means that it is not set.
    const change = (next: string) => onChange(next === "" && !(required && value !== undefined && schema.minLength === undefined && schema.format === undefined) ? undefined : next);
    const placeholder = schema.examples?.find((one) => typeof one === "string") as string | undefined;
    if (schema.format || schema.pattern) {
      return <input {...common} type={(inputTypes[schema.format ?? ""] ?? "text") as "text"} value={text} placeholder={placeholder} onInput={(e) => change(e.currentTarget.value)} />;
    }
    return <textarea {...common} rows={1} value={text} placeholder={placeholder} onInput={(e) => change(e.currentTarget.value)} />;
  }
  if (type === "null") return <output id={id} class="fixed">null</output>;
  return <JsonInput common={common} value={value} onChange={onChange} />;
}

type Common = { id: string };

// NumberInput keeps what the user types until it is a number.
function NumberInput({ common, value, onChange }: { common: Common; value: Json | undefined; onChange: (value: Json | undefined) => void }) {
  const [text, setText] = useState(value === undefined ? "" : String(value));
  const sent = useRef(value);
  useEffect(() => {
    if (value !== sent.current) setText(value === undefined ? "" : String(value));
    sent.current = value;
  }, [value]);
  const change = (next: string) => {
    setText(next);
    const number = Number(next);
    sent.current = next.trim() === "" ? undefined : Number.isFinite(number) ? number : next;
    onChange(sent.current);
  };
  return <input {...common} inputMode="decimal" autocomplete="off" value={text} onInput={(e) => change(e.currentTarget.value)} />;
}

// JsonInput accepts any JSON value.
function JsonInput({ common, value, onChange }: { common: Common; value: Json | undefined; onChange: (value: Json | undefined) => void }) {
  const [text, setText] = useState(value === undefined ? "" : JSON.stringify(value));
  const change = (next: string) => {
    setText(next);
    try {
      onChange(next.trim() === "" ? undefined : JSON.parse(next));
    } catch {
      onChange(next);
    }
  };
  return <textarea {...common} rows={1} class="mono" placeholder="JSON or text" value={text} onInput={(e) => change(e.currentTarget.value)} />;
}

// Variants lets the user choose between alternatives.
function Variants(props: InputProps & { alternatives: Schema[] }) {
  const { alternatives, root, value, id, label } = props;
  const scores = alternatives.map((one) => fits(value, one, root));
  const best = scores.indexOf(Math.max(...scores));
  const [chosen, setChosen] = useState(best);
  const selected = scores[chosen]! > 0 ? chosen : best; // another view has changed the value
  const found = alternatives[selected]!;
  const choose = (i: number) => {
    setChosen(i);
    let next = example(alternatives[i], root);
    if (isObject(next) && isObject(value)) {
      const properties = alternatives[i]!.properties ?? {};
      for (const name of Object.keys(properties)) if (Object.hasOwn(value, name) && resolve(properties[name], root).const === undefined) next = { ...next, [name]: value[name]! };
    }
    props.onChange(next);
  };
  return (
    <>
      <div class="segments" role="radiogroup" aria-label={"Form of " + label}>
        {alternatives.map((one, i) => (
          <label key={i} class={i === selected ? "segment on" : "segment"}>
            <input type="radio" class="sr" name={id} checked={i === selected} onChange={() => choose(i)} />
            {one.title ?? (kindOf(one, root) || `Form ${i + 1}`)}
          </label>
        ))}
      </div>
      {found.description && <p class="help">{found.description}</p>}
      {typeOf(found) === "object" ? (
        <Members {...props} schema={found} value={isObject(value) ? value : {}} />
      ) : typeOf(found) === "array" ? (
        <Items {...props} schema={found} />
      ) : variants(found, root).length > 0 && !choices(found, root) ? (
        <Variants {...props} schema={found} alternatives={variants(found, root)} />
      ) : (
        <>
          <label class="sr" for={id}>{label}</label>
          <Input {...props} schema={found} />
        </>
      )}
    </>
  );
}

// isCheckList reports whether an array is a group of check boxes.
function isCheckList(schema: Schema, root: Schema): boolean {
  const known = typeOf(schema) === "array" && isObject(schema.items) ? choices(resolve(schema.items as Schema, root), root) : undefined;
  return !!known && (!!schema.uniqueItems || known.length <= 8);
}

// Items shows the elements of an array. An array of different choices is a group of check boxes.
function Items(props: InputProps) {
  const { schema, root, path, label, issues, showMissing, onChange } = props;
  const value = Array.isArray(props.value) ? props.value : [];
  const itemSchema = resolve(isObject(schema.items) ? (schema.items as Schema) : {}, root);
  const known = choices(itemSchema, root);
  if (known && isCheckList(schema, root)) {
    const has = (choice: Json) => value.some((one) => JSON.stringify(one) === JSON.stringify(choice));
    return (
      <div class="checks">
        {known.map((choice) => (
          <label key={choice.label}>
            <input type="checkbox" checked={has(choice.value)}
              onChange={(e) => onChange(known.filter((one) => (one === choice ? e.currentTarget.checked : has(one.value))).map((one) => one.value))} />
            {choice.label}
          </label>
        ))}
      </div>
    );
  }
  const replace = (i: number, item: Json | undefined) => onChange(item === undefined ? value.with(i, example(schemaOf(i), root)) : value.with(i, item));
  const schemaOf = (i: number) => resolve(schema.prefixItems?.[i] ?? (itemSchema as Schema), root);
  return (
    <>
      {value.map((item, i) => (
        <Field key={i} schema={schemaOf(i)} root={root} label={`${label} ${i + 1}`} path={child(path, i)} required value={item} onChange={(next) => replace(i, next)} issues={issues} showMissing={showMissing}
          actions={
            <span class="item-actions">
              <button type="button" class="quiet" disabled={i === 0} onClick={() => onChange(value.with(i, value[i - 1]!).with(i - 1, item))} aria-label={`Move ${label} ${i + 1} up`}>↑</button>
              <button type="button" class="quiet" onClick={() => onChange(value.toSpliced(i, 1))} aria-label={`Remove ${label} ${i + 1}`}>Remove</button>
            </span>
          } />
      ))}
      {(schema.maxItems === undefined || value.length < schema.maxItems) && (
        <button type="button" onClick={() => onChange([...value, example(schemaOf(value.length), root)])}>Add an item</button>
      )}
    </>
  );
}

export { initial };
