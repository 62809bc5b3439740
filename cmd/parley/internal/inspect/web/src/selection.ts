// What the user has selected in the views, by server, so that it stays when they change the view.
import { signal } from "@preact/signals";
import type { Json } from "./types";

export const selectedTool = signal<{ [server: string]: string }>({});
export const selectedPrompt = signal<{ [server: string]: string }>({});
export const selectedSkill = signal<{ [server: string]: string }>({});
export const selectedResource = signal<{ [server: string]: string }>({});
// The latest call of each tool, prompt and resource, by method, server and name.
export const selectedCall = signal<{ [key: string]: number }>({});
// The arguments of each tool and prompt, by server and name.
export const drafts = signal<{ [key: string]: Json }>({});
