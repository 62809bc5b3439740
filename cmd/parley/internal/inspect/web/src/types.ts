// The types of the requests and responses of the program, and of the protocol as far as the page uses it.

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };
export type JsonObject = { [name: string]: Json };

export interface Settings {
  revision: string;
  elicitation: boolean;
  urlElicitation: boolean;
  sampling: boolean;
  samplingTools: boolean;
  roots: boolean;
  tasks: boolean;
  apps: boolean;
  extensions?: JsonObject;
}

export interface Change {
  time: string;
  kind: string;
  uri?: string;
}

export interface Server {
  name: string;
  target: string;
  http: boolean;
  state: "idle" | "connecting" | "ready" | "failed";
  problem?: string;
  login?: boolean;
  canLogIn?: boolean;
  settings: Settings;
  revision?: string;
  info?: { name: string; title?: string; version: string; websiteUrl?: string; description?: string };
  capabilities?: JsonObject;
  instructions?: string;
  skills?: boolean;
  lists: [number, number, number];
  connection: number; // how many connections there have been
  changes: Change[] | null;
  watched: string[] | null;
}

export interface Root {
  uri: string;
  name?: string;
}

export interface Question {
  number: number;
  server: string;
  call?: number;
  kind: "form" | "url" | "sampling" | "roots";
  message?: string;
  schema?: Schema;
  url?: string;
  params?: JsonObject;
  roots?: Root[];
  asked: string;
}

export interface LoginStep {
  number: number;
  purpose: string;
  reference?: string;
  millis?: number;
  method: string;
  url: string;
  requestHeader?: Header;
  requestBody?: string;
  status?: number;
  responseHeader?: Header;
  responseBody?: string;
  error?: string;
}

export interface Login {
  server: string;
  state: "running" | "done" | "failed";
  page?: string;
  error?: string;
  steps: LoginStep[];
}

export interface Step {
  millis: number;
  kind: string;
  text: string;
  message?: number;
}

export interface Call {
  number: number;
  server: string;
  method: string;
  name: string;
  arguments?: Json;
  state: "running" | "input_required" | "done" | "failed" | "cancelled";
  started: string;
  millis?: number;
  progress?: { progress: number; total?: number; message?: string };
  task?: { id: string; status: string; message?: string };
  rounds: number;
  steps: Step[];
  error?: string;
  isError?: boolean;
  size?: number;
}

export type Header = { [name: string]: string[] };

export interface Message {
  number: number;
  time: string;
  server: string;
  sent: boolean;
  kind: "request" | "response" | "error" | "notification" | "http" | "invalid" | "program";
  method?: string;
  subject?: string;
  id?: string;
  size: number;
  status?: number;
  millis?: number;
  call?: number;
  request?: number;
}

export interface Exchange {
  method: string;
  url: string;
  requestHeader: Header;
  status?: number;
  responseHeader?: Header;
}

export interface FullMessage extends Message {
  text: string;
  cut?: boolean;
  exchange?: Exchange;
}

export interface Hello {
  version: string;
  revisions: string[];
  apps?: string;
}

export interface Update {
  hello?: Hello;
  state?: { servers: Server[]; questions: Question[] | null; logins: Login[] };
  calls?: Call[];
  messages?: Message[];
  oldest: number;
}

export interface Issue {
  Path: string;
  Expected: string;
  Got: string;
}

export interface Schema {
  $ref?: string;
  $defs?: { [name: string]: Schema };
  definitions?: { [name: string]: Schema };
  type?: string | string[];
  title?: string;
  description?: string;
  default?: Json;
  examples?: Json[];
  const?: Json;
  enum?: Json[];
  enumNames?: string[];
  oneOf?: Schema[];
  anyOf?: Schema[];
  allOf?: Schema[];
  properties?: { [name: string]: Schema };
  required?: string[];
  additionalProperties?: boolean | Schema;
  items?: Schema | boolean;
  prefixItems?: Schema[];
  minItems?: number;
  maxItems?: number;
  uniqueItems?: boolean;
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: number;
  exclusiveMaximum?: number;
  multipleOf?: number;
  minLength?: number;
  maxLength?: number;
  pattern?: string;
  format?: string;
}

export interface Tool {
  name: string;
  title?: string;
  description?: string;
  inputSchema: Schema;
  outputSchema?: Schema;
  annotations?: { title?: string; readOnlyHint?: boolean; destructiveHint?: boolean; idempotentHint?: boolean; openWorldHint?: boolean };
  execution?: { taskSupport?: string };
  _meta?: JsonObject;
}

export interface PromptArgument {
  name: string;
  title?: string;
  description?: string;
  required?: boolean;
}

export interface Prompt {
  name: string;
  title?: string;
  description?: string;
  arguments?: PromptArgument[];
}

export interface SkillFile {
  uri: string;
  digest: string;
  size: number;
}

export interface Skill {
  uri: string;
  frontmatter: JsonObject & { name: string; description: string };
  resources: SkillFile[] | "dynamic";
}

export interface Resource {
  uri: string;
  name: string;
  title?: string;
  description?: string;
  mimeType?: string;
  size?: number;
  _meta?: JsonObject;
}

export interface Template {
  uriTemplate: string;
  name: string;
  title?: string;
  description?: string;
  mimeType?: string;
}

export interface ResourceContents {
  uri: string;
  mimeType?: string;
  text?: string;
  blob?: string;
  _meta?: JsonObject;
}

export interface Content {
  type: string;
  text?: string;
  data?: string;
  mimeType?: string;
  uri?: string;
  name?: string;
  title?: string;
  description?: string;
  resource?: ResourceContents;
  annotations?: JsonObject;
}

export interface Result {
  content?: Content[];
  structuredContent?: Json;
  isError?: boolean;
  description?: string;
  messages?: { role: string; content: Content }[];
  contents?: ResourceContents[];
  _meta?: JsonObject;
}
