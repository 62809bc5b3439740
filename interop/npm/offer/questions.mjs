// What servers ask their clients. ask(requests) takes several questions by key, each { kind, …parameters }, and
// returns the answers by key: on a session it waits; in 2026-07-28 the handler is run again.

import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import { text } from './tools.mjs';

// Everything that a form may ask for, and a default for all of it.
export const survey = {
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

let bill; // that has to be paid first
let paid = false;

export function addQuestions(server, sdk) {
    const tool = (name, description, handler) =>
        server.registerTool(name, { description, inputSchema: z.object({ message: z.string().optional() }) }, sdk.asking(server, handler));

    tool('survey', 'Show a form of everything', async (ask, { message }) => {
        const { survey: answer } = await ask({ survey: { kind: 'form', message: message ?? 'Who are you?', requestedSchema: survey } });
        return text(answer.action === 'accept' ? JSON.stringify(answer.content) : answer.action);
    });
    tool('twice', 'Ask one thing after the other', async ask => {
        const { first } = await ask({ first: { kind: 'form', message: 'The first word?', requestedSchema: word } });
        const { second } = await ask({ second: { kind: 'form', message: `After ${first.content.word}?`, requestedSchema: word } });
        return text(`${first.content.word} ${second.content.word}`);
    });
    tool('pay', 'Send the user to a page', async ask => {
        const { pay } = await ask({ pay: { kind: 'url', message: 'Pay here', url: 'https://pay.example/1', elicitationId: randomUUID() } });
        return text(pay.action);
    });
    tool('think', "Have the client's model answer", async ask => {
        const { said } = await ask({ said: { kind: 'sample', maxTokens: 100, systemPrompt: 'Be brief.', messages: [user({ type: 'text', text: 'Say hello' })] } });
        return text(`${said.model}: ${said.content.text}`);
    });
    tool('research', "Have the client's model use a tool", async ask => {
        const question = user({ type: 'text', text: 'How is the weather in Oslo?' });
        const sample = messages => ({ kind: 'sample', maxTokens: 100, messages, tools: [weather], toolChoice: { mode: 'auto' } });
        const { use } = await ask({ use: sample([question]) });
        const [call] = [use.content].flat();
        if (call?.type !== 'tool_use') return text(`no use of a tool: ${JSON.stringify(use)}`);
        const result = user([{ type: 'tool_result', toolUseId: call.id, content: [{ type: 'text', text: `${call.input.city}: rain` }] }]);
        const { said } = await ask({ said: sample([question, { role: 'assistant', content: [call] }, result]) });
        return text([said.content].flat()[0].text);
    });
    tool('roots', 'List the roots of the client', async ask => {
        const { where } = await ask({ where: { kind: 'roots' } });
        return text(where.roots.map(({ uri, name }) => `${name} ${uri}`).join('\n'));
    });
    tool('everything', 'Ask three things at once', async ask => {
        const { name, said, where } = await ask({
            name: { kind: 'form', message: 'The first word?', requestedSchema: word },
            said: { kind: 'sample', maxTokens: 100, messages: [user({ type: 'text', text: 'Say hello' })] },
            where: { kind: 'roots' },
        });
        return text(`${name.content.word}, ${said.content.text}, ${where.roots.length} roots`);
    });
    server.registerTool('impatient', { description: 'Ask, and give up', inputSchema: z.object({}) }, async (_, context) => {
        try {
            await sdk.call(context).giveUp({ mode: 'form', message: 'Take your time', requestedSchema: word });
            return text('answered');
        } catch (error) {
            return text(`gave up: ${error.message}`);
        }
    });
    // 2025-11-25 only: the call is refused until the user has been at the page, and the client told that they have.
    server.registerTool('pay_first', { description: 'Refuse until the user has paid', inputSchema: z.object({}) }, () => {
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
