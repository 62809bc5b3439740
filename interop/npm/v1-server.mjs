// A server made with the first generation of the TypeScript SDK (revisions up to 2025-11-25).

import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { SSEServerTransport } from '@modelcontextprotocol/sdk/server/sse.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { readArguments, refuse } from './arguments.mjs';
import { listen, sessions } from './listen.mjs';
import { addTools } from './tools.mjs';

const usage = 'v1-server.mjs http PORT | sse PORT | stdio';
const { transport, where: [port = 0] } = readArguments(usage);

const progress = ({ _meta, sendNotification }) => async step => {
    if (_meta?.progressToken === undefined) return;
    await sendNotification({ method: 'notifications/progress', params: { progressToken: _meta.progressToken, ...step } });
};
const newServer = () => addTools(new McpServer({ name: 'interop-v1-server', version: '1.0.0' }), progress);

switch (transport) {
    case 'stdio':
        await newServer().connect(new StdioServerTransport());
        break;
    case 'http':
        listen(port, sessions(newServer, StreamableHTTPServerTransport));
        break;
    case 'sse':
        listen(port, pair(), '/sse');
        break;
    default:
        refuse(usage);
}

// pair serves the HTTP+SSE transport of 2024-11-05: GET opens the stream, POST brings the messages.
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
