// What every client peer does, and the one JSON object in which it says what it saw.

import { answerQuestions } from './answers.mjs';
import { useCache, useCalls, useChanges, useData, useQuestions, useTools, attempt, wire } from './subjects.mjs';

// observe connects and goes through all subjects. sdk is what differs between the generations of the SDK: see
// v1-client.mjs and v2-client.mjs.
export async function observe(sdk) {
    const { client, transport } = sdk;
    const asked = answerQuestions(sdk);
    await sdk.connect();
    const noted = wire(transport);
    sdk.modern = client.getProtocolEra?.() === 'modern';
    try {
        return {
            ...sdk.negotiated(),
            session: transport.sessionId !== undefined,
            server: client.getServerVersion(),
            capabilities: client.getServerCapabilities(),
            ...(await useTools(sdk, noted)),
            data: await attempt(() => useData(sdk, noted)),
            cache: await attempt(() => useCache(sdk, noted)),
            called: await attempt(() => useCalls(sdk, noted)),
            changed: await attempt(() => useChanges(sdk, noted)),
            answered: await attempt(() => useQuestions(sdk, asked)),
        };
    } finally {
        await transport.terminateSession?.();
        await client.close();
    }
}

// report prints what run observed. A peer that could not observe exits 1 and says why on stderr.
export async function report(run) {
    try {
        console.log(JSON.stringify(await run(), null, 2));
    } catch (error) {
        console.error(error);
        process.exitCode = 1;
    }
}
