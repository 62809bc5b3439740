// Tools with input requests. ask(requests) takes input requests by key, each { kind, …parameters }, and returns the answers
// by key. In a session it waits; in 2026-07-28 the handler runs again.

import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import { text } from './tools.mjs';

// A form with every type of field, each with a default.
export const formSchema = {
    type: 'object',
    properties: {
        name: { type: 'string', minLength: 1, default: 'Ada' },
        age: { type: 'integer', minimum: 0, default: 36 },
        score: { type: 'number', default: 9.5 },
        member: { type: 'boolean', default: true },
        colour: { type: 'string', enum: ['red', 'green'], default: 'green' },
        size: { type: 'string', oneOf: [{ const: 's', title: 'Small' }, { const: 'l', title: 'Large' }], default: 'l' },
        days: { type: 'array', items: { type: 'string', enum: ['mon', 'tue', 'wed'] }, default: ['mon', 'wed'] },
    },
    required: ['name', 'colour'],
};

const word = { type: 'object', properties: { word: { type: 'string' } }, required: ['word'] };
const weather = {
    name: 'weather',
    description: 'Tell the weather',
    inputSchema: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
};
const user = content => ({ role: 'user', content });

let bill; // the id of the required URL elicitation
let paid = false;

export function addInputRequests(server, sdk) {
    const tool = (name, description, handler) =>
        server.registerTool(name, { description, inputSchema: z.object({ message: z.string().optional() }) }, sdk.asking(server, handler));

    tool('form', 'Ask with a form', async (ask, { message }) => {
        const { form: answer } = await ask({ form: { kind: 'form', message: message ?? 'Who are you?', requestedSchema: formSchema } });
        return text(answer.action === 'accept' ? JSON.stringify(answer.content) : answer.action);
    });
    tool('twice', 'Ask twice', async ask => {
        const { first } = await ask({ first: { kind: 'form', message: 'The first word?', requestedSchema: word } });
        const { second } = await ask({ second: { kind: 'form', message: `After ${first.content.word}?`, requestedSchema: word } });
        return text(`${first.content.word} ${second.content.word}`);
    });
    tool('pay', 'Elicit with a URL', async ask => {
        const { pay } = await ask({ pay: { kind: 'url', message: 'Pay here', url: 'https://pay.example/1', elicitationId: randomUUID() } });
        return text(pay.action);
    });
    tool('think', 'Ask the model of the client', async ask => {
        const { answer } = await ask({ answer: { kind: 'sample', maxTokens: 100, systemPrompt: 'Be brief.', messages: [user({ type: 'text', text: 'Say hello' })] } });
        return text(`${answer.model}: ${answer.content.text}`);
    });
    tool('research', 'Ask the model of the client to use a tool', async ask => {
        const question = user({ type: 'text', text: 'How is the weather in Oslo?' });
        const sample = messages => ({ kind: 'sample', maxTokens: 100, messages, tools: [weather], toolChoice: { mode: 'auto' } });
        const { use } = await ask({ use: sample([question]) });
        const [call] = [use.content].flat();
        if (call?.type !== 'tool_use') return text(`no tool use: ${JSON.stringify(use)}`);
        const result = user([{ type: 'tool_result', toolUseId: call.id, content: [{ type: 'text', text: `${call.input.city}: rain` }] }]);
        const { answer } = await ask({ answer: sample([question, { role: 'assistant', content: [call] }, result]) });
        return text([answer.content].flat()[0].text);
    });
    tool('roots', 'List the roots of the client', async ask => {
        const { where } = await ask({ where: { kind: 'roots' } });
        return text(where.roots.map(({ uri, name }) => `${name} ${uri}`).join('\n'));
    });
    tool('everything', 'Make three input requests at once', async ask => {
        const { name, answer, where } = await ask({
            name: { kind: 'form', message: 'The first word?', requestedSchema: word },
            answer: { kind: 'sample', maxTokens: 100, messages: [user({ type: 'text', text: 'Say hello' })] },
            where: { kind: 'roots' },
        });
        return text(`${name.content.word}, ${answer.content.text}, ${where.roots.length} roots`);
    });
    server.registerTool('timeout', { description: 'Ask with a short time-out', inputSchema: z.object({}) }, async (_, context) => {
        try {
            await sdk.call(context).elicitWithTimeout({ mode: 'form', message: 'Wait', requestedSchema: word });
            return text('answered');
        } catch (error) {
            return text(`cancelled: ${error.message}`);
        }
    });
    // 2025-11-25 only: the call is rejected until the URL elicitation is complete, and the client is notified of that.
    server.registerTool('pay_first', { description: 'Require a URL elicitation', inputSchema: z.object({}) }, () => {
        if (paid) return text('thank you');
        if (!bill) {
            bill = randomUUID();
            setTimeout(() => {
                paid = true;
                server.server.createElicitationCompletionNotifier(bill)().catch(console.error);
            }, 200);
        }
        throw new sdk.UrlElicitationRequiredError([{ mode: 'url', elicitationId: bill, url: 'https://pay.example/2', message: 'Pay first' }]);
    });
}
