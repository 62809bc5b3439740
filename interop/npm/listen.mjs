// The HTTP side of the server peers: loopback only, and the URL on stdout once it answers.

import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { EventStore } from './offer/streams.mjs';

// listen serves handle(request, response) on 127.0.0.1. Port 0 picks a free one. A handler that has to know where it is
// served is made by make(url).
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

// sessions gives a handler that keeps one server and one transport per Mcp-Session-Id. A request without a known
// id goes to a fresh transport, which refuses whatever is not initialize. What is sent on a stream is kept for clients that come
// back. body is the parsed body, if somebody read it.
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
