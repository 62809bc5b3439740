// Change notifications: of resources to their subscribers, of lists to every client.

import { z } from 'zod';
import { text } from './tools.mjs';

let rootsChanged = 0;

// addChanges adds a tool that calls announce(kind, uri), which depends on the era and the transport.
export function addChanges(server, sdk, announce) {
    const subscribed = new Set();
    sdk.handle(server, 'resources/subscribe', ({ uri }) => (subscribed.add(uri), {}));
    sdk.handle(server, 'resources/unsubscribe', ({ uri }) => (subscribed.delete(uri), {}));
    server.registerTool(
        'change',
        {
            description: 'Send a change notification',
            inputSchema: z.object({ what: z.enum(['tools', 'prompts', 'resources', 'resource']), uri: z.string().optional() }),
        },
        async ({ what, uri }) => {
            // In 2026-07-28, the handler of the SDK knows the subscriptions.
            if (what !== 'resource' || subscribed.has(uri) || sdk.listens(server)) await announce(server, what, uri);
            return text('changed');
        },
    );
    sdk.notified(server, 'notifications/roots/list_changed', () => rootsChanged++);
    server.registerTool('roots_changed', { description: 'The number of changes of roots', inputSchema: z.object({}) }, () =>
        text(String(rootsChanged)),
    );
}

// send is the announce of a server with its own connection.
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
