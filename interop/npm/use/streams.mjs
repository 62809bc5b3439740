// What a client peer does when streams end before its calls do.

import { attempt } from './subjects.mjs';

// Where a server does not say when to come back, come back soon.
export const reconnectionOptions = {
    initialReconnectionDelay: 50,
    maxReconnectionDelay: 1000,
    reconnectionDelayGrowFactor: 1.5,
    maxRetries: 5,
};

// resume calls tools whose connection is cut, by a request to scissors, and whose stream the server closes; both are resumed by the SDK. Then one
// client begins a call and is gone, and another one of the same session gets the result by the last event's id.
export async function resume({ scissors, newClient, newTransport, callTool }) {
    const [client, transport] = [newClient(), newTransport()];
    await client.connect(transport, { timeout: 30_000 });
    const steps = [];
    const onprogress = ({ progress }) => steps.push(progress);
    const sever = step => {
        onprogress(step);
        if (step.progress === 1) fetch(scissors);
    };
    const seen = {
        cut: await attempt(() => callTool(client, 'cut', { onprogress: sever })),
        polled: await attempt(() => callTool(client, 'polled', { onprogress })),
        steps,
    };
    let token;
    const begun = new Promise(resolve => {
        const options = { onresumptiontoken: id => (token = id), onprogress: resolve };
        callTool(client, 'held', options).catch(error => (seen.begun = error.message));
    });
    await begun;
    const { sessionId } = transport;
    await client.close(); // which does not end the session

    const [successor, second] = [newClient(), newTransport({ sessionId })];
    await successor.connect(second);
    second.setProtocolVersion('2025-11-25');
    try {
        await callTool(successor, 'release');
        seen.resumed = await attempt(() => callTool(successor, 'held', { resumptionToken: token }));
        return seen;
    } finally {
        await second.terminateSession();
        await successor.close();
    }
}
