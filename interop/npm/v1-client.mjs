// A client made with the first generation of the TypeScript SDK (revisions up to 2025-11-25).

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
    CreateMessageRequestSchema,
    ElicitationCompleteNotificationSchema,
    ElicitRequestSchema,
    ListRootsRequestSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { z } from 'zod';
import { readArguments, exitWithUsage } from './arguments.mjs';
import { capabilities } from './use/handlers.mjs';
import { logIn, Provider } from './use/login.mjs';
import { observe, report } from './use/observe.mjs';
import { reconnectionOptions, resume } from './use/streams.mjs';

const usage = 'v1-client.mjs [--browser URL] [--disconnector URL] [--gateway yes] http URL | sse URL | stdio COMMAND [ARGUMENT…]';
const { browser, disconnector, gateway, transport: kind, where } = readArguments(usage);

const transports = {
    http: url => new StreamableHTTPClientTransport(new URL(url)),
    sse: url => new SSEClientTransport(new URL(url)),
    stdio: (command, ...args) => new StdioClientTransport({ command, args, env: process.env, stderr: 'inherit' }),
};
if (!transports[kind] || where.length === 0) exitWithUsage(usage);

const schemas = {
    'elicitation/create': ElicitRequestSchema,
    'sampling/createMessage': CreateMessageRequestSchema,
    'roots/list': ListRootsRequestSchema,
    'notifications/elicitation/complete': ElicitationCompleteNotificationSchema,
};

await report(() => {
    const newClient = () => new Client({ name: 'interop-v1-client', version: '1.0.0' }, { capabilities });
    if (disconnector) {
        return resume({
            disconnector,
            newClient,
            newTransport: options => new StreamableHTTPClientTransport(new URL(where[0]), { reconnectionOptions, ...options }),
            callTool: (client, name, options) => client.callTool({ name, arguments: {} }, undefined, options),
        });
    }
    if (browser) {
        const provider = new Provider(browser);
        return logIn({
            provider,
            newClient,
            newTransport: () => new StreamableHTTPClientTransport(new URL(where[0]), { authProvider: provider }),
            finish: (transport, callback) => transport.finishAuth(callback.get('code')),
            // With a refresh token, the SDK reacts to an insufficient scope by refreshing the token, and fails when the
            // new token is rejected. 2025-11-25, basic/authorization, Step-Up Authorization Flow, requires a new login.
            beforeStepUp: () => provider.dropRefreshToken(),
        });
    }
    const transport = transports[kind](...where);
    // The SDK passes the negotiated revision to the transport only.
    let revision;
    const setProtocolVersion = transport.setProtocolVersion?.bind(transport);
    transport.setProtocolVersion = version => {
        revision = version;
        setProtocolVersion?.(version);
    };

    const client = newClient();
    return observe({
        client,
        gateway,
        transport,
        connect: () => client.connect(transport, { timeout: 30_000 }),
        negotiated: () => ({ sdk: 'v1', revision }),
        onRequest: (method, handler) => client.setRequestHandler(schemas[method], ({ params }, { signal }) => handler(params, signal)),
        onNotification: (method, handler) => client.setNotificationHandler(schemas[method], ({ params }) => handler(params)),
        callTool: (name, args, options) => client.callTool({ name, arguments: args }, undefined, options),
        logLevel: level => client.setLoggingLevel(level),
        request: (method, params) => client.request({ method, params }, z.any()),
    });
});
