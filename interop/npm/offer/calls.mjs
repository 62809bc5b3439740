// What goes beside calls: cancellation, logging, pings by the server, and a method of an extension.

import { z } from 'zod';
import { text } from './tools.mjs';

// Of the process: a server of 2026-07-28 over HTTP is made anew for each request.
let cancelled = 0;

export function addCalls(server, sdk) {
    server.registerTool('wait', { description: 'Wait to be cancelled', inputSchema: z.object({}) }, async (_, context) => {
        const { progress, signal } = sdk.call(context);
        const ended = new Promise(resolve => signal.addEventListener('abort', resolve, { once: true }));
        await progress({ progress: 1 });
        await ended;
        cancelled++;
        return text('too late');
    });
    server.registerTool('cancelled', { description: 'How many waits were cancelled', inputSchema: z.object({}) }, () =>
        text(String(cancelled)),
    );
    server.registerTool('talk', { description: 'Log at four levels', inputSchema: z.object({}) }, async (_, context) => {
        const { log } = sdk.call(context);
        for (const level of ['debug', 'info', 'warning', 'error']) {
            await log(level, { message: `this is ${level}` });
        }
        return text('talked');
    });
    server.registerTool('ping', { description: 'Ping the client', inputSchema: z.object({}) }, async (_, context) => {
        await sdk.call(context).ping();
        return text('it is there');
    });
    sdk.custom(server, 'com.example/shout', z.object({ text: z.string() }), ({ text }) => ({ shouted: text.toUpperCase() }));
}
