// What servers tell of changes, and whom: those who have subscribed to a resource, and everybody of lists.

import { z } from 'zod';
import { text } from './tools.mjs';

let rootsChanged = 0;

// addChanges makes announce(kind, uri) of the peer a tool: how a change gets to clients differs by era and transport.
export function addChanges(server, sdk, announce) {
    const subscribed = new Set();
    sdk.handle(server, 'resources/subscribe', ({ uri }) => (subscribed.add(uri), {}));
    sdk.handle(server, 'resources/unsubscribe', ({ uri }) => (subscribed.delete(uri), {}));
    server.registerTool(
        'change',
        {
            description: 'Say that something has changed',
            inputSchema: z.object({ what: z.enum(['tools', 'prompts', 'resources', 'resource']), uri: z.string().optional() }),
        },
        async ({ what, uri }) => {
            // A server of 2026-07-28 leaves it to its entry who is listening for what.
            if (what !== 'resource' || subscribed.has(uri) || sdk.listens(server)) await announce(server, what, uri);
            return text('changed');
        },
    );
    sdk.notified(server, 'notifications/roots/list_changed', () => rootsChanged++);
    server.registerTool('roots_changed', { description: 'How often the roots have changed', inputSchema: z.object({}) }, () =>
        text(String(rootsChanged)),
    );
}

// send is the announce of a server that has its connection.
export async function send({ server }, what, uri) {
    switch (what) {
        case 'tools':
            return server.sendToolListChanged();
        case 'prompts':
            return server.sendPromptListChanged();
        case 'resources':
            return server.sendResourceListChanged();
        case 'resource':
            return server.sendResourceUpdated({ uri });
    }
}
