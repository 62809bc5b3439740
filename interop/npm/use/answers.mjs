// The user and the model of the client peers, who say what the tests expect.

// answerQuestions sets the handlers, and returns what was asked that leaves no trace in an answer.
export function answerQuestions(sdk) {
    const asked = { visited: [], completed: [], gaveUp: false };
    const accept = content => ({ action: 'accept', content });
    sdk.answer('elicitation/create', async ({ mode, message, url, elicitationId }, signal) => {
        if (mode === 'url') {
            asked.visited.push({ url, elicitationId });
            return { action: 'accept' };
        }
        switch (message) {
            case 'Who are you?':
                return accept({ name: 'Grace' }); // the SDK fills in the rest, as the form has it
            case 'The first word?':
                return accept({ word: 'alpha' });
            case 'After alpha?':
                return accept({ word: 'beta' });
            case 'Say no':
                return { action: 'decline' };
            case 'Go away':
                return { action: 'cancel' };
            case 'Take your time':
                await new Promise(resolve => signal.addEventListener('abort', resolve, { once: true }));
                asked.gaveUp = true;
                break;
        }
        throw new Error(`nobody expects ${message}`);
    });
    sdk.answer('sampling/createMessage', async ({ messages, tools }) => {
        const said = { role: 'assistant', model: 'parrot', stopReason: 'endTurn' };
        const [last] = [messages.at(-1).content].flat();
        if (last.type === 'tool_result') return { ...said, content: last.content[0] };
        if (!tools) return { ...said, content: { type: 'text', text: 'hello' } };
        const use = { type: 'tool_use', id: 'use-1', name: tools[0].name, input: { city: 'Oslo' } };
        return { ...said, stopReason: 'toolUse', content: [use] };
    });
    sdk.answer('roots/list', async () => ({
        roots: [
            { uri: 'file:///work', name: 'work' },
            { uri: 'file:///notes', name: 'notes' },
        ],
    }));
    sdk.hear('notifications/elicitation/complete', ({ elicitationId }) => asked.completed.push(elicitationId));
    return asked;
}

export const capabilities = {
    elicitation: { form: { applyDefaults: true }, url: {} },
    sampling: { tools: {} },
    roots: { listChanged: true },
    experimental: { 'com.example/shouting': {} },
    extensions: { 'com.example/shouting': {} },
};
