// The HTTP side of the server peers: it listens on the loopback interface and prints its URL when it is ready.

import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { EventStore } from './offer/streams.mjs';

// listen serves handle(request, response) on 127.0.0.1. Port 0 is a free port. make(url), if given, returns a handler that
// needs its URL.
export function listen(port, handle, path = '/mcp', make) {
    const server = createServer((request, response) => {
        Promise.resolve(handle(request, response)).catch(error => {
            console.error(error);
            if (!response.headersSent) response.writeHead(500);
            response.end();
        });
    });
    server.listen(Number(port), '127.0.0.1', async () => {
        const url = new URL(path, `http://127.0.0.1:${server.address().port}`);
        handle = (await make?.(url)) ?? handle;
        console.log(url.href);
    });
}

// sessions returns a handler with one server and one transport for each Mcp-Session-Id. A request without a known id gets a
// new transport, which rejects every request except initialize. The events of streams are stored for clients that reconnect.
// body is the parsed body, if it was read.
export function sessions(newServer, Transport) {
    const open = new Map();
    return async (request, response, body) => {
        let transport = open.get(request.headers['mcp-session-id']);
        if (!transport) {
            transport = new Transport({
                sessionIdGenerator: randomUUID,
                eventStore: new EventStore(),
                retryInterval: 50,
                onsessioninitialized: id => open.set(id, transport),
                onsessionclosed: id => open.delete(id),
            });
            await newServer().connect(transport);
        }
        await transport.handleRequest(request, response, body);
    };
}
