// A server made with the second generation of the TypeScript SDK (all revisions).

import { randomBytes } from 'node:crypto';
import { NodeStreamableHTTPServerTransport, toNodeHandler, toWebRequest } from '@modelcontextprotocol/node';
import {
    completable,
    createMcpHandler,
    createRequestStateCodec,
    getOAuthProtectedResourceMetadataUrl,
    inputRequired,
    inputResponse,
    isLegacyRequest,
    McpServer,
    OAuthError,
    OAuthErrorCode,
    oauthMetadataResponse,
    requireBearerAuth,
    requireScopes,
    ResourceTemplate,
    UrlElicitationRequiredError,
} from '@modelcontextprotocol/server';
import { serveStdio, StdioServerTransport } from '@modelcontextprotocol/server/stdio';
import { z } from 'zod';
import { readArguments, exitWithUsage } from './arguments.mjs';
import { listen, sessions } from './listen.mjs';
import { addAll, capabilities } from './offer/all.mjs';
import { send } from './offer/changes.mjs';
import { addAuthorized, metadataOf, extraScope, newVerifier, scopes } from './offer/authorization.mjs';

const usage = 'v2-server.mjs [--issuer URL] [--era legacy|modern|both] [--revision REVISION] http PORT | stdio';
const { era = 'both', issuer, revision, transport, where: [port = 0] } = readArguments(usage);
if (!['legacy', 'modern', 'both'].includes(era)) exitWithUsage(usage);

// requestState has the answers of earlier rounds, signed.
const states = createRequestStateCodec({ key: randomBytes(32) });

// Unanswered is the error of ask if answers are missing: the handler runs again in the next round.
class Unanswered extends Error {
    constructor(requests) {
        super('unanswered');
        this.requests = requests;
    }
}

const build = {
    form: params => inputRequired.elicit({ mode: 'form', ...params }),
    url: ({ elicitationId, ...params }) => inputRequired.elicitUrl(params),
    sample: params => inputRequired.createMessage(params),
    roots: () => inputRequired.listRoots(),
};

const read = (responses, key) => {
    const { kind, ...view } = inputResponse(responses, key);
    if (kind === 'missing') return undefined;
    return kind === 'sampling' ? view.result : view;
};

const minute = { ttlMs: 60_000, cacheScope: 'public' };

const sdk = {
    ResourceTemplate,
    UrlElicitationRequiredError,
    completable,
    cached: () => ({ cacheHint: minute }),
    handle: ({ server }, method, handler) => server.setRequestHandler(method, ({ params = {} }) => handler(params)),
    notified: ({ server }, method, handler) => server.setNotificationHandler(method, handler),
    custom: ({ server }, method, params, handler) => server.setRequestHandler(method, { params }, handler),
    call: ({ http, mcpReq }) => ({
        signal: mcpReq.signal,
        header: name => http?.req?.headers.get(name) ?? undefined,
        close: http?.closeSSE,
        progress: async step => {
            const progressToken = mcpReq._meta?.progressToken;
            if (progressToken === undefined) return;
            await mcpReq.notify({ method: 'notifications/progress', params: { progressToken, ...step } });
        },
        log: (level, data) => mcpReq.log(level, data, 'interop'),
        ping: () => mcpReq.send({ method: 'ping' }),
        elicitWithTimeout: params => mcpReq.send({ method: 'elicitation/create', params }, { timeout: 300 }),
    }),
    // In a session the SDK sends the requests itself, and also runs the handler again.
    asking: (_, handler) => async (args, { mcpReq }) => {
        const known = { ...mcpReq.requestState() };
        for (const key of Object.keys(mcpReq.inputResponses ?? {})) known[key] = read(mcpReq.inputResponses, key);
        try {
            return await handler(async requests => {
                const open = Object.entries(requests).filter(([key]) => known[key] === undefined);
                if (open.length > 0) throw new Unanswered(open);
                return known;
            }, args);
        } catch (error) {
            if (!(error instanceof Unanswered)) throw error;
            const inputRequests = error.requests.map(([key, { kind, ...params }]) => [key, build[kind](params)]);
            return inputRequired({ inputRequests: Object.fromEntries(inputRequests), requestState: await states.mint(known) });
        }
    },
};

let notify; // of the handler that serves 2026-07-28 over HTTP, where each request has its own server
const publish = {
    tools: () => notify.toolsChanged(),
    prompts: () => notify.promptsChanged(),
    resources: () => notify.resourcesChanged(),
    resource: uri => notify.resourceUpdated(uri),
};

const newServer = ({ era } = { era: 'legacy' }) => {
    const server = new McpServer(
        { name: 'interop-v2-server', version: '1.0.0' },
        {
            capabilities,
            supportedProtocolVersions: revision ? [revision] : undefined,
            cacheHints: { 'tools/list': minute, 'prompts/list': minute },
            requestState: { verify: states.verify },
        },
    );
    const modern = era === 'modern';
    const announce = modern && transport === 'http' ? (_, what, uri) => publish[what](uri) : send;
    addAll(server, { ...sdk, listens: () => modern }, announce);
    return server;
};

switch (transport) {
    case 'stdio':
        // A server that is connected directly supports only the legacy era.
        if (era === 'legacy') await newServer().connect(new StdioServerTransport());
        else serveStdio(newServer, { legacy: era === 'both' ? 'serve' : 'reject' });
        break;
    case 'http':
        listen(port, http(), undefined, issuer && authorized);
        break;
    default:
        exitWithUsage(usage);
}

// http selects the handler by era, so that legacy requests get sessions: the fallback of the SDK has none.
function http() {
    const legacy = sessions(newServer, NodeStreamableHTTPServerTransport);
    const handler = createMcpHandler(newServer, { legacy: 'reject' });
    notify = handler.notify;
    const modern = toNodeHandler(handler);
    if (era === 'legacy') return legacy;
    if (era === 'modern') return modern;
    return async (request, response) => {
        const probe = await toWebRequest(request);
        const serve = (await isLegacyRequest(probe)) ? legacy : modern;
        await serve(request, response, probe.body ? await probe.json() : undefined);
    };
}

// authorized returns the handler of a server of 2026-07-28, at its URL, that requires tokens of the issuer. The SDK sends
// the challenge for the scope of the tool secret.
async function authorized(url) {
    const handler = createMcpHandler(
        context => {
            const server = newServer(context);
            addAuthorized(server, ({ http }) => http.authInfo, { scopeChallenge: requireScopes(...scopes, extraScope) });
            return server;
        },
        { legacy: 'reject' },
    );
    const oauthMetadata = await metadataOf(issuer);
    const authorize = requireBearerAuth({
        verifier: newVerifier(oauthMetadata, message => new OAuthError(OAuthErrorCode.InvalidToken, message)),
        requiredScopes: scopes,
        resourceMetadataUrl: getOAuthProtectedResourceMetadataUrl(url),
        expectedResource: url,
    });
    const metadata = { oauthMetadata, resourceServerUrl: url, scopesSupported: scopes };
    return toNodeHandler({
        fetch: async request => {
            const response = oauthMetadataResponse(request, metadata);
            if (response) return response;
            const authInfo = await authorize(request);
            return authInfo instanceof Response ? authInfo : handler.fetch(request, { authInfo });
        },
    });
}
