// The tools that every server peer offers. Both generations of the SDK register them alike.

import { z } from 'zod';

const text = text => ({ content: [{ type: 'text', text }] });

// addTools registers the tools. progress(context) gives the function that sends one progress notification
// for the call of that context; it is the one thing that differs between the generations.
export function addTools(server, progress) {
    server.registerTool(
        'echo',
        { description: 'Give the text back', inputSchema: z.object({ text: z.string() }) },
        args => text(args.text),
    );
    server.registerTool(
        'add',
        {
            description: 'Add two numbers',
            inputSchema: z.object({ a: z.number(), b: z.number() }),
            outputSchema: z.object({ sum: z.number() }),
        },
        ({ a, b }) => {
            const structuredContent = { sum: a + b };
            return { ...text(JSON.stringify(structuredContent)), structuredContent };
        },
    );
    server.registerTool(
        'count',
        { description: 'Count up, reporting each step', inputSchema: z.object({ to: z.int().min(1).max(1000) }) },
        async ({ to }, context) => {
            const step = progress(context);
            for (let i = 1; i <= to; i++) {
                await step({ progress: i, total: to, message: `${i} of ${to}` });
            }
            return text(`counted to ${to}`);
        },
    );
    server.registerTool('fail', { description: 'Fail, always', inputSchema: z.object({}) }, () => {
        throw new Error('failed on purpose');
    });
    return server;
}
