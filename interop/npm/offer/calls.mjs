// Cancellation, logging, pings by the server, and the method of an extension.

import { z } from 'zod';
import { text } from './tools.mjs';

// It belongs to the process, because each request of 2026-07-28 over HTTP has its own server.
let cancelled = 0;

export function addCalls(server, sdk) {
    server.registerTool('wait', { description: 'Wait to be cancelled', inputSchema: z.object({}) }, async (_, context) => {
        const { progress, signal } = sdk.call(context);
        const ended = new Promise(resolve => signal.addEventListener('abort', resolve, { once: true }));
        await progress({ progress: 1 });
        await ended;
        cancelled++;
        return text('cancelled');
    });
    server.registerTool('cancelled', { description: 'The number of cancelled calls of wait', inputSchema: z.object({}) }, () =>
        text(String(cancelled)),
    );
    server.registerTool('talk', { description: 'Log at four levels', inputSchema: z.object({}) }, async (_, context) => {
        const { log } = sdk.call(context);
        for (const level of ['debug', 'info', 'warning', 'error']) {
            await log(level, { message: `this is ${level}` });
        }
        return text('logged');
    });
    server.registerTool('ping', { description: 'Ping the client', inputSchema: z.object({}) }, async (_, context) => {
        await sdk.call(context).ping();
        return text('pong');
    });
    sdk.custom(server, 'com.example/shout', z.object({ text: z.string() }), ({ text }) => ({ shouted: text.toUpperCase() }));
}
