// Calls whose stream ends before they do, and the memory that lets a client come back for the rest.

import { z } from 'zod';
import { text } from './tools.mjs';

let release;
let released = new Promise(resolve => (release = resolve));

export function addStreams(server, sdk) {
    server.registerTool('held', { description: 'Report, wait for release, report', inputSchema: z.object({}) }, async (_, context) => {
        const { progress } = sdk.call(context);
        await progress({ progress: 1, total: 2 });
        await released;
        await progress({ progress: 2, total: 2 });
        return text('nothing was lost');
    });
    server.registerTool('release', { description: 'End the wait of held', inputSchema: z.object({}) }, () => {
        release();
        released = new Promise(resolve => (release = resolve));
        return text('released');
    });
    server.registerTool('polled', { description: 'Close the stream, and go on', inputSchema: z.object({}) }, async (_, context) => {
        const { close, progress } = sdk.call(context);
        if (!close) return text('this stream cannot be closed');
        await progress({ progress: 1, total: 2 });
        close();
        await new Promise(resolve => setTimeout(resolve, 50));
        await progress({ progress: 2, total: 2 });
        return text('nothing was lost');
    });
}

// An EventStore keeps what was sent on streams, in the order in which it was. Event ids are STREAM:NUMBER.
export class EventStore {
    #streams = new Map();

    async storeEvent(stream, message) {
        const events = this.#streams.get(stream) ?? [];
        this.#streams.set(stream, events);
        events.push(message);
        return `${stream}:${events.length}`;
    }

    async getStreamIdForEventId(id) {
        return id.slice(0, id.lastIndexOf(':'));
    }

    async replayEventsAfter(id, { send }) {
        const stream = await this.getStreamIdForEventId(id);
        const events = this.#streams.get(stream) ?? [];
        for (let n = Number(id.slice(id.lastIndexOf(':') + 1)); n < events.length; n++) {
            // The event that only gives a stream its first id holds no message.
            if (events[n].jsonrpc) await send(`${stream}:${n + 1}`, events[n]);
        }
        return stream;
    }
}
