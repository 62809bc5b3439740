// The handlers of input requests in the client peers.

// setHandlers sets the handlers and returns an object that records requests without an answer.
export function setHandlers(sdk) {
    const asked = { opened: [], completed: [], cancelled: false };
    const accept = content => ({ action: 'accept', content });
    sdk.onRequest('elicitation/create', async ({ mode, message, url, elicitationId }, signal) => {
        if (mode === 'url') {
            asked.opened.push({ url, elicitationId });
            return { action: 'accept' };
        }
        switch (message) {
            case 'Who are you?':
                return accept({ name: 'Grace' }); // the SDK fills in the defaults
            case 'The first word?':
                return accept({ word: 'alpha' });
            case 'After alpha?':
                return accept({ word: 'beta' });
            case 'Decline':
                return { action: 'decline' };
            case 'Cancel':
                return { action: 'cancel' };
            case 'Wait':
                await new Promise(resolve => signal.addEventListener('abort', resolve, { once: true }));
                asked.cancelled = true;
                break;
        }
        throw new Error(`unexpected message ${message}`);
    });
    sdk.onRequest('sampling/createMessage', async ({ messages, tools }) => {
        const answer = { role: 'assistant', model: 'parrot', stopReason: 'endTurn' };
        const [last] = [messages.at(-1).content].flat();
        if (last.type === 'tool_result') return { ...answer, content: last.content[0] };
        if (!tools) return { ...answer, content: { type: 'text', text: 'hello' } };
        const use = { type: 'tool_use', id: 'use-1', name: tools[0].name, input: { city: 'Oslo' } };
        return { ...answer, stopReason: 'toolUse', content: [use] };
    });
    sdk.onRequest('roots/list', async () => ({
        roots: [
            { uri: 'file:///work', name: 'work' },
            { uri: 'file:///notes', name: 'notes' },
        ],
    }));
    sdk.onNotification('notifications/elicitation/complete', ({ elicitationId }) => asked.completed.push(elicitationId));
    return asked;
}

export const capabilities = {
    elicitation: { form: { applyDefaults: true }, url: {} },
    sampling: { tools: {} },
    roots: { listChanged: true },
    experimental: { 'com.example/shouting': {} },
    extensions: { 'com.example/shouting': {} },
};
