// A client made with the second generation of the TypeScript SDK (all revisions).

import { Client, SSEClientTransport, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { readArguments, refuse } from './arguments.mjs';
import { observe, report } from './use/observe.mjs';

const usage = 'v2-client.mjs [--era legacy|modern|auto] [--revision REVISION] http URL | sse URL | stdio COMMAND [ARGUMENT…]';
const { era = 'auto', revision, transport: kind, where } = readArguments(usage);

// legacy begins with initialize, modern speaks 2026-07-28 or fails, auto asks the server.
const modes = { legacy: 'legacy', modern: { pin: revision ?? '2026-07-28' }, auto: 'auto' };
const transports = {
    http: url => new StreamableHTTPClientTransport(new URL(url)),
    sse: url => new SSEClientTransport(new URL(url)),
    stdio: (command, ...args) => new StdioClientTransport({ command, args, env: process.env, stderr: 'inherit' }),
};
if (!modes[era] || !transports[kind] || where.length === 0) refuse(usage);

await report(async () => {
    const client = new Client(
        { name: 'interop-v2-client', version: '1.0.0' },
        { versionNegotiation: { mode: modes[era] }, supportedProtocolVersions: revision ? [revision] : undefined },
    );
    const transport = transports[kind](...where);
    await client.connect(transport, { timeout: 30_000 });
    try {
        const seen = await observe(client, transport, (params, options) => client.callTool(params, options));
        return {
            sdk: 'v2',
            era: client.getProtocolEra(),
            revision: client.getNegotiatedProtocolVersion(),
            session: transport.sessionId !== undefined,
            ...seen,
        };
    } finally {
        await transport.terminateSession?.();
        await client.close();
    }
});
