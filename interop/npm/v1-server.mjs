// A server made with the first generation of the TypeScript SDK (revisions up to 2025-11-25).

import { InvalidTokenError } from '@modelcontextprotocol/sdk/server/auth/errors.js';
import { requireBearerAuth } from '@modelcontextprotocol/sdk/server/auth/middleware/bearerAuth.js';
import { getOAuthProtectedResourceMetadataUrl, mcpAuthMetadataRouter } from '@modelcontextprotocol/sdk/server/auth/router.js';
import { completable } from '@modelcontextprotocol/sdk/server/completable.js';
import { createMcpExpressApp } from '@modelcontextprotocol/sdk/server/express.js';
import { McpServer, ResourceTemplate } from '@modelcontextprotocol/sdk/server/mcp.js';
import { SSEServerTransport } from '@modelcontextprotocol/sdk/server/sse.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import {
    EmptyResultSchema,
    ListResourcesRequestSchema,
    RootsListChangedNotificationSchema,
    SubscribeRequestSchema,
    UnsubscribeRequestSchema,
    UrlElicitationRequiredError,
} from '@modelcontextprotocol/sdk/types.js';
import { z } from 'zod';
import { readArguments, exitWithUsage } from './arguments.mjs';
import { listen, sessions } from './listen.mjs';
import { addAll, capabilities } from './offer/all.mjs';
import { send } from './offer/changes.mjs';
import { addAuthorized, metadataOf, extraScope, newVerifier, scopes } from './offer/authorization.mjs';

const usage = 'v1-server.mjs [--issuer URL] http PORT | sse PORT | stdio';
const { issuer, transport, where: [port = 0] } = readArguments(usage);

const schemas = {
    'resources/list': ListResourcesRequestSchema,
    'resources/subscribe': SubscribeRequestSchema,
    'resources/unsubscribe': UnsubscribeRequestSchema,
    'notifications/roots/list_changed': RootsListChangedNotificationSchema,
};

const sdk = {
    ResourceTemplate,
    UrlElicitationRequiredError,
    completable,
    cached: () => ({}),
    listens: () => false,
    handle: ({ server }, method, handler) =>
        server.setRequestHandler(schemas[method], ({ params = {} }) => handler(params)),
    notified: ({ server }, method, handler) => server.setNotificationHandler(schemas[method], handler),
    custom: ({ server }, method, params, handler) =>
        server.setRequestHandler(z.object({ method: z.literal(method), params }), ({ params }) => handler(params)),
    call: ({ _meta, requestInfo, sendNotification, sendRequest, sessionId, signal, closeSSEStream, server }) => ({
        signal,
        header: name => requestInfo?.headers[name.toLowerCase()],
        close: closeSSEStream,
        progress: async step => {
            if (_meta?.progressToken === undefined) return;
            await sendNotification({ method: 'notifications/progress', params: { progressToken: _meta.progressToken, ...step } });
        },
        log: (level, data) => server.sendLoggingMessage({ level, data, logger: 'interop' }, sessionId),
        ping: () => sendRequest({ method: 'ping' }, EmptyResultSchema),
        elicitWithTimeout: params => sendRequest({ method: 'elicitation/create', params }, z.any(), { timeout: 300 }),
    }),
    asking: ({ server }, handler) => (args, { requestId: relatedRequestId }) => {
        const ask = {
            form: params => server.elicitInput({ mode: 'form', ...params }, { relatedRequestId }),
            url: params => server.elicitInput({ mode: 'url', ...params }, { relatedRequestId }),
            sample: params => server.createMessage(params, { relatedRequestId }),
            roots: () => server.listRoots(undefined, { relatedRequestId }),
        };
        return handler(async requests => {
            const answers = Object.entries(requests).map(async ([key, { kind, ...params }]) => [key, await ask[kind](params)]);
            return Object.fromEntries(await Promise.all(answers));
        }, args);
    },
};

const newServer = () => {
    const server = new McpServer({ name: 'interop-v1-server', version: '1.0.0' }, { capabilities });
    addAll(server, { ...sdk, call: context => sdk.call({ ...context, server: server.server }) }, send);
    return server;
};

switch (transport) {
    case 'stdio':
        await newServer().connect(new StdioServerTransport());
        break;
    case 'http':
        listen(port, sessions(newServer, StreamableHTTPServerTransport), undefined, issuer && authorized);
        break;
    case 'sse':
        listen(port, pair(), '/sse');
        break;
    default:
        exitWithUsage(usage);
}

// authorized returns the handler of a server, at its URL, that requires tokens of the issuer.
async function authorized(url) {
    const newAuthorized = () => {
        const server = newServer();
        addAuthorized(server, ({ authInfo }) => authInfo);
        return server;
    };
    const oauthMetadata = await metadataOf(issuer);
    const authorize = requiredScopes =>
        requireBearerAuth({
            verifier: newVerifier(oauthMetadata, message => new InvalidTokenError(message)),
            requiredScopes,
            resourceMetadataUrl: getOAuthProtectedResourceMetadataUrl(url),
            expectedResource: url,
        });
    const [all, secret] = [authorize(scopes), authorize([...scopes, extraScope])];
    const app = createMcpExpressApp();
    app.use(mcpAuthMetadataRouter({ oauthMetadata, resourceServerUrl: url, scopesSupported: scopes }));
    app.use((request, response, next) => (request.body?.params?.name === 'secret' ? secret : all)(request, response, next));
    const serve = sessions(newAuthorized, StreamableHTTPServerTransport);
    app.all(url.pathname, (request, response) => serve(request, response, request.body));
    return app;
}

// pair serves the HTTP+SSE transport of 2024-11-05: a GET opens the stream, a POST has a message.
function pair() {
    const streams = new Map();
    return async (request, response) => {
        if (request.method === 'GET') {
            const stream = new SSEServerTransport('/messages', response);
            streams.set(stream.sessionId, stream);
            response.on('close', () => streams.delete(stream.sessionId));
            await newServer().connect(stream);
            return;
        }
        const id = new URL(request.url, 'http://127.0.0.1').searchParams.get('sessionId');
        const stream = streams.get(id);
        if (!stream) return void response.writeHead(404).end();
        await stream.handlePostMessage(request, response);
    };
}
