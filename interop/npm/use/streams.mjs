// Calls of a client peer whose stream ends before the call.

import { attempt } from './subjects.mjs';

// The delays if the server does not set one.
export const reconnectionOptions = {
    initialReconnectionDelay: 50,
    maxReconnectionDelay: 1000,
    reconnectionDelayGrowFactor: 1.5,
    maxRetries: 5,
};

// resume calls a tool whose connections are closed by a request to disconnector, and the SDK resumes its stream. Then a client starts a call and ends, and another client of the session gets the result with the id
// of the last event.
export async function resume({ disconnector, newClient, newTransport, callTool }) {
    const [client, transport] = [newClient(), newTransport()];
    await client.connect(transport, { timeout: 30_000 });
    const steps = [];
    const onprogress = ({ progress }) => steps.push(progress);
    const disconnect = step => {
        onprogress(step);
        if (step.progress === 1) fetch(disconnector);
    };
    const seen = {
        disconnected: await attempt(() => callTool(client, 'disconnected', { onprogress: disconnect })),
        steps,
    };
    let token;
    const begun = new Promise(resolve => {
        const options = { onresumptiontoken: id => (token = id), onprogress: resolve };
        callTool(client, 'waiting', options).catch(error => (seen.begun = error.message));
    });
    await begun;
    const { sessionId } = transport;
    await client.close(); // the session continues

    const [successor, second] = [newClient(), newTransport({ sessionId })];
    await successor.connect(second);
    second.setProtocolVersion('2025-11-25');
    try {
        await callTool(successor, 'release');
        seen.resumed = await attempt(() => callTool(successor, 'waiting', { resumptionToken: token }));
        return seen;
    } finally {
        await second.terminateSession();
        await successor.close();
    }
}
