// The features and the declared capabilities of every server peer.

import { addCalls } from './calls.mjs';
import { addChanges } from './changes.mjs';
import { addData } from './data.mjs';
import { addInputRequests } from './inputrequests.mjs';
import { addStreams } from './streams.mjs';
import { addTools } from './tools.mjs';

export const capabilities = {
    tools: { listChanged: true },
    prompts: { listChanged: true },
    resources: { listChanged: true, subscribe: true },
    completions: {},
    logging: {},
};

export function addAll(server, sdk, announce) {
    addTools(server, sdk);
    addData(server, sdk);
    addCalls(server, sdk);
    addChanges(server, sdk, announce);
    addInputRequests(server, sdk);
    addStreams(server, sdk);
}
