// Calls whose stream ends before the call, and the store of events for clients that reconnect.

import { z } from 'zod';
import { text } from './tools.mjs';

let release;
let released = new Promise(resolve => (release = resolve));

export function addStreams(server, sdk) {
    server.registerTool('waiting', { description: 'Report, wait for release, report', inputSchema: z.object({}) }, async (_, context) => {
        const { progress } = sdk.call(context);
        await progress({ progress: 1, total: 2 });
        await released;
        await progress({ progress: 2, total: 2 });
        return text('complete');
    });
    server.registerTool('release', { description: 'End the call of waiting', inputSchema: z.object({}) }, () => {
        release();
        released = new Promise(resolve => (release = resolve));
        return text('released');
    });
    server.registerTool('polled', { description: 'Close the stream and continue', inputSchema: z.object({}) }, async (_, context) => {
        const { close, progress } = sdk.call(context);
        if (!close) return text('cannot close this stream');
        await progress({ progress: 1, total: 2 });
        close();
        await new Promise(resolve => setTimeout(resolve, 50));
        await progress({ progress: 2, total: 2 });
        return text('complete');
    });
}

// EventStore stores the events of streams in order. The id of an event is STREAM:NUMBER.
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
            // The first event of a stream has an id but no message.
            if (events[n].jsonrpc) await send(`${stream}:${n + 1}`, events[n]);
        }
        return stream;
    }
}
