// JSON Schema as far as forms and completion need it. The program validates values; see validate in form.tsx.
import type { Json, JsonObject, Schema } from "./types";

export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

// resolve follows $ref within the root and merges allOf.
export function resolve(schema: Schema | boolean | undefined, root: Schema, depth = 0): Schema {
  if (!isObject(schema) || depth > 20) return {};
  let found = schema as Schema;
  if (found.$ref?.startsWith("#")) {
    let target: unknown = root;
    for (const part of found.$ref.slice(1).split("/").filter(Boolean)) {
      const name = decodeURIComponent(part).replaceAll("~1", "/").replaceAll("~0", "~");
      target = isObject(target) || Array.isArray(target) ? (target as Record<string, unknown>)[name] : undefined;
    }
    const { $ref: _, ...rest } = found;
    found = { ...resolve(target as Schema, root, depth + 1), ...rest };
  }
  if (found.allOf) {
    const { allOf, ...rest } = found;
    for (const part of allOf) {
      const one = resolve(part, root, depth + 1);
      const merged: Schema = { ...one, ...rest };
      if (one.properties || rest.properties) merged.properties = { ...one.properties, ...rest.properties };
      if (one.required || rest.required) merged.required = [...new Set([...(one.required ?? []), ...(rest.required ?? [])])];
      Object.assign(rest, merged);
    }
    found = rest;
  }
  return found;
}

// variants returns the alternatives of a schema: oneOf, anyOf, or the types if there are several.
export function variants(schema: Schema, root: Schema): Schema[] {
  const { oneOf, anyOf, ...rest } = schema;
  const alternatives = oneOf ?? anyOf;
  if (alternatives?.length) {
    return alternatives.map((one) => {
      const found = resolve(one, root);
      const { title, description, default: _, ...base } = rest;
      const merged: Schema = { ...base, ...found };
      if (base.properties && found.properties) merged.properties = { ...base.properties, ...found.properties };
      if (base.required && found.required) merged.required = [...new Set([...base.required, ...found.required])];
      return merged;
    });
  }
  if (Array.isArray(schema.type) && schema.type.length > 1) return schema.type.map((type) => ({ ...schema, type }));
  return [];
}

export interface Choice {
  value: Json;
  label: string;
}

// choices returns the values of an enumeration, or undefined.
export function choices(schema: Schema, root: Schema): Choice[] | undefined {
  if (schema.enum) return schema.enum.map((value, i) => ({ value, label: schema.enumNames?.[i] ?? text(value) }));
  const alternatives = schema.oneOf ?? schema.anyOf;
  if (alternatives?.length) {
    const found = alternatives.map((one) => resolve(one, root));
    if (found.every((one) => "const" in one)) return found.map((one) => ({ value: one.const as Json, label: one.title ?? text(one.const as Json) }));
  }
  return undefined;
}

function text(value: Json): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

export function typeOf(schema: Schema): string {
  const type = Array.isArray(schema.type) ? schema.type[0] : schema.type;
  if (type) return type;
  if (schema.properties || schema.required || isObject(schema.additionalProperties)) return "object";
  if (schema.items || schema.prefixItems) return "array";
  return "";
}

// kindOf describes the values of a schema in a few words.
export function kindOf(schema: Schema, root: Schema): string {
  const found = resolve(schema, root);
  if (found.const !== undefined) return text(found.const);
  if (choices(found, root)) return "choice";
  const alternatives = variants(found, root);
  if (alternatives.length > 1) return alternatives.map((one) => one.title ?? kindOf(one, root)).join(" or ");
  const type = typeOf(found);
  if (type === "array") return "list of " + (isObject(found.items) ? (kindOf(found.items as Schema, root) || "values") : "values");
  return found.format ? `${type}, ${found.format}` : type;
}

// fits reports how well a value fits a schema: 0 for not at all.
export function fits(value: Json | undefined, schema: Schema, root: Schema, depth = 0): number {
  const found = resolve(schema, root);
  if (value === undefined || depth > 8) return 0;
  if (found.const !== undefined) return JSON.stringify(found.const) === JSON.stringify(value) ? 10 : 0;
  if (found.enum) return found.enum.some((one) => JSON.stringify(one) === JSON.stringify(value)) ? 9 : 0;
  const type = typeOf(found);
  switch (type) {
    case "object": {
      if (!isObject(value)) return 0;
      let score = 1;
      for (const [name, property] of Object.entries(found.properties ?? {})) {
        if (!(name in value)) {
          if (found.required?.includes(name)) score -= 0.5;
          continue;
        }
        const one = fits(value[name], property, root, depth + 1);
        if (one === 0 && resolve(property, root).const !== undefined) return 0;
        score += one > 0 ? 1 : -0.5;
      }
      return Math.max(score, 0.1);
    }
    case "array":
      return Array.isArray(value) ? 1 : 0;
    case "string":
    case "boolean":
      return typeof value === type ? 1 : 0;
    case "number":
      return typeof value === "number" ? 1 : 0;
    case "integer":
      return Number.isInteger(value) ? 1.5 : 0;
    case "null":
      return value === null ? 1 : 0;
  }
  const alternatives = variants(found, root);
  if (alternatives.length) return Math.max(...alternatives.map((one) => fits(value, one, root, depth + 1)));
  return 0.2;
}

// initial returns the value with which a form begins: defaults, constants and the objects that are required.
export function initial(schema: Schema | boolean | undefined, root: Schema, depth = 0): Json | undefined {
  const found = resolve(schema, root);
  if (found.default !== undefined) return structuredClone(found.default);
  if (found.const !== undefined) return found.const;
  if (depth > 8) return undefined;
  const alternatives = choices(found, root) ? [] : variants(found, root);
  if (alternatives.length) return initial(alternatives[0], root, depth + 1);
  switch (typeOf(found)) {
    case "object": {
      const value: JsonObject = {};
      for (const [name, property] of Object.entries(found.properties ?? {})) {
        const required = found.required?.includes(name);
        const resolved = resolve(property, root);
        if (required || resolved.default !== undefined) {
          const one = initial(property, root, depth + 1);
          if (one !== undefined) value[name] = one;
        }
      }
      return value;
    }
    case "array":
      return [];
    case "null":
      return null;
  }
  return undefined;
}

// example returns a value for a new element of an array or a new member.
export function example(schema: Schema | boolean | undefined, root: Schema): Json {
  const found = resolve(schema, root);
  const value = initial(found, root);
  if (value !== undefined) return value;
  const choice = choices(found, root)?.[0];
  if (choice) return choice.value;
  switch (typeOf(found)) {
    case "integer":
    case "number":
      return found.minimum ?? 0;
    case "boolean":
      return false;
  }
  return "";
}

// at returns the schema of a path in a value.
export function at(root: Schema, path: (string | number)[], value: Json): Schema {
  let schema = resolve(root, root);
  let here: Json | undefined = value;
  for (const part of path) {
    schema = pick(schema, root, here);
    if (typeof part === "number") {
      schema = resolve(schema.prefixItems?.[part] ?? (schema.items as Schema), root);
      here = Array.isArray(here) ? here[part] : undefined;
    } else {
      schema = resolve(schema.properties?.[part] ?? (schema.additionalProperties as Schema), root);
      here = isObject(here) ? here[part] : undefined;
    }
  }
  return pick(schema, root, here);
}

// pick returns the alternative that fits a value best, or all members of all alternatives if none does.
function pick(schema: Schema, root: Schema, value: Json | undefined): Schema {
  const alternatives = choices(schema, root) ? [] : variants(schema, root);
  if (!alternatives.length) return schema;
  const best = alternatives.map((one) => ({ one, score: fits(value, one, root) })).sort((a, b) => b.score - a.score)[0];
  if (best && best.score > 0.5) return best.one;
  const merged: Schema = { type: "object", properties: {} };
  for (const one of alternatives) Object.assign(merged.properties!, one.properties);
  return merged;
}
