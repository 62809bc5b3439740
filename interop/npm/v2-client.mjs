// A client made with the second generation of the TypeScript SDK (all revisions).

import { Client, LOG_LEVEL_META_KEY, SSEClientTransport, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { z } from 'zod';
import { readArguments, exitWithUsage } from './arguments.mjs';
import { capabilities } from './use/handlers.mjs';
import { logIn, Provider } from './use/login.mjs';
import { observe, report } from './use/observe.mjs';
import { reconnectionOptions, resume } from './use/streams.mjs';

const usage = 'v2-client.mjs [--browser URL] [--disconnector URL] [--gateway yes] [--era legacy|modern|auto] [--revision REVISION] http URL | sse URL | stdio COMMAND [ARGUMENT…]';
const { browser, disconnector, gateway, era = 'auto', revision, transport: kind, where } = readArguments(usage);

// legacy starts with initialize, modern requires 2026-07-28, auto detects the era of the server.
const modes = { legacy: 'legacy', modern: { pin: revision ?? '2026-07-28' }, auto: 'auto' };
const transports = {
    http: url => new StreamableHTTPClientTransport(new URL(url)),
    sse: url => new SSEClientTransport(new URL(url)),
    stdio: (command, ...args) => new StdioClientTransport({ command, args, env: process.env, stderr: 'inherit' }),
};
if (!modes[era] || !transports[kind] || where.length === 0) exitWithUsage(usage);

await report(() => {
    const newClient = () =>
        new Client(
            { name: 'interop-v2-client', version: '1.0.0' },
            { capabilities, versionNegotiation: { mode: modes[era] }, supportedProtocolVersions: revision ? [revision] : undefined },
        );
    if (disconnector) {
        return resume({
            disconnector,
            newClient,
            newTransport: options => new StreamableHTTPClientTransport(new URL(where[0]), { reconnectionOptions, ...options }),
            callTool: (client, name, options) => client.callTool({ name, arguments: {} }, options),
        });
    }
    if (browser) {
        const provider = new Provider(browser);
        return logIn({
            provider,
            newClient,
            newTransport: () => new StreamableHTTPClientTransport(new URL(where[0]), { authProvider: provider }),
            finish: (transport, callback) => transport.finishAuth(callback),
        });
    }
    const client = newClient();
    const transport = transports[kind](...where);
    const modern = () => client.getProtocolEra() === 'modern';
    return observe({
        client,
        gateway,
        transport,
        connect: () => client.connect(transport, { timeout: 30_000 }),
        negotiated: () => ({ sdk: 'v2', era: client.getProtocolEra(), revision: client.getNegotiatedProtocolVersion() }),
        onRequest: (method, handler) => client.setRequestHandler(method, ({ params }, { mcpReq }) => handler(params, mcpReq.signal)),
        onNotification: (method, handler) => client.setNotificationHandler(method, ({ params }) => handler(params)),
        callTool: (name, args, options, _meta) => client.callTool({ name, arguments: args, _meta }, options),
        logLevel: async level => (modern() ? { [LOG_LEVEL_META_KEY]: level } : void (await client.setLoggingLevel(level))),
        request: (method, params) => client.request({ method, params }, z.any()),
    });
});
