// A server made with the second generation of the TypeScript SDK (all revisions).

import { NodeStreamableHTTPServerTransport, toNodeHandler, toWebRequest } from '@modelcontextprotocol/node';
import { createMcpHandler, isLegacyRequest, McpServer } from '@modelcontextprotocol/server';
import { serveStdio, StdioServerTransport } from '@modelcontextprotocol/server/stdio';
import { readArguments, refuse } from './arguments.mjs';
import { listen, sessions } from './listen.mjs';
import { addTools } from './tools.mjs';

const usage = 'v2-server.mjs [--era legacy|modern|both] [--revision REVISION] http PORT | stdio';
const { era = 'both', revision, transport, where: [port = 0] } = readArguments(usage);
if (!['legacy', 'modern', 'both'].includes(era)) refuse(usage);

const progress = ({ mcpReq }) => async step => {
    const progressToken = mcpReq._meta?.progressToken;
    if (progressToken === undefined) return;
    await mcpReq.notify({ method: 'notifications/progress', params: { progressToken, ...step } });
};
const newServer = () => addTools(
    new McpServer(
        { name: 'interop-v2-server', version: '1.0.0' },
        { supportedProtocolVersions: revision ? [revision] : undefined },
    ),
    progress,
);

switch (transport) {
    case 'stdio':
        // A server connected by hand knows nothing newer than initialize.
        if (era === 'legacy') await newServer().connect(new StdioServerTransport());
        else serveStdio(newServer, { legacy: era === 'both' ? 'serve' : 'reject' });
        break;
    case 'http':
        listen(port, http());
        break;
    default:
        refuse(usage);
}

// http routes by era, so that legacy requests get sessions: the SDK's own fallback has none.
function http() {
    const legacy = sessions(newServer, NodeStreamableHTTPServerTransport);
    const modern = toNodeHandler(createMcpHandler(newServer, { legacy: 'reject' }));
    if (era === 'legacy') return legacy;
    if (era === 'modern') return modern;
    return async (request, response) => {
        const probe = await toWebRequest(request);
        const serve = (await isLegacyRequest(probe)) ? legacy : modern;
        await serve(request, response, probe.body ? await probe.json() : undefined);
    };
}
