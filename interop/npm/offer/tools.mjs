// The tools of every server peer. sdk has the differences between the generations of the SDK; see v1-server.mjs and
// v2-server.mjs.

import { z } from 'zod';

export const text = text => ({ content: [{ type: 'text', text }] });

export function addTools(server, sdk) {
    server.registerTool(
        'echo',
        { description: 'Return the text', inputSchema: z.object({ text: z.string() }) },
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
            const { progress } = sdk.call(context);
            for (let i = 1; i <= to; i++) {
                await progress({ progress: i, total: to, message: `${i} of ${to}` });
            }
            return text(`counted to ${to}`);
        },
    );
    server.registerTool('fail', { description: 'Fail', inputSchema: z.object({}) }, () => {
        throw new Error('failed on purpose');
    });
    server.registerTool(
        'region',
        {
            description: 'Return the header that mirrors the argument',
            inputSchema: z.object({ region: z.string().meta({ 'x-mcp-header': 'Region' }) }),
        },
        (_, context) => text(sdk.call(context).header('Mcp-Param-Region') ?? 'none'),
    );
}
