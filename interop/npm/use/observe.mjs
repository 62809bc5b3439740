// The steps of every client peer, and the JSON object that it prints.

import { setHandlers } from './handlers.mjs';
import { useCache, useCalls, useChanges, useData, useInputRequests, useTools, attempt, record } from './subjects.mjs';

// observe connects and uses all features. sdk has the differences between the generations of the SDK; see v1-client.mjs and
// v2-client.mjs.
export async function observe(sdk) {
    const { client, transport } = sdk;
    const asked = setHandlers(sdk);
    await sdk.connect();
    const recorded = record(transport);
    sdk.modern = client.getProtocolEra?.() === 'modern';
    try {
        return {
            ...sdk.negotiated(),
            session: transport.sessionId !== undefined,
            server: client.getServerVersion(),
            capabilities: client.getServerCapabilities(),
            ...(await useTools(sdk, recorded)),
            data: await attempt(() => useData(sdk, recorded)),
            cache: await attempt(() => useCache(sdk, recorded)),
            called: await attempt(() => useCalls(sdk, recorded)),
            changed: await attempt(() => useChanges(sdk, recorded)),
            answered: await attempt(() => useInputRequests(sdk, asked)),
        };
    } finally {
        await transport.terminateSession?.();
        await client.close();
    }
}

// report prints the result of run. After an error the peer prints it to standard error and exits with status 1.
export async function report(run) {
    try {
        console.log(JSON.stringify(await run(), null, 2));
    } catch (error) {
        console.error(error);
        process.exitCode = 1;
    }
}
