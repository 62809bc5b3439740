// The resources and prompts of every server peer, with completion and pagination.

import { z } from 'zod';

const books = ['9780131103627', '9780201633610', '9780262033848'];

export function addData(server, sdk) {
    server.registerResource('text', 'test://text', { mimeType: 'text/plain' }, ({ href }) => ({
        contents: [{ uri: href, mimeType: 'text/plain', text: 'Grüße' }],
    }));
    server.registerResource('blob', 'test://blob', { mimeType: 'application/octet-stream' }, ({ href }) => ({
        contents: [{ uri: href, mimeType: 'application/octet-stream', blob: Buffer.from([0, 1, 254, 255]).toString('base64') }],
    }));
    server.registerResource('watched', 'test://watched', { mimeType: 'text/plain', ...sdk.cached() }, ({ href }) => ({
        contents: [{ uri: href, mimeType: 'text/plain', text: 'constant' }],
    }));
    server.registerResource(
        'books',
        new sdk.ResourceTemplate('test://books/{isbn}', {
            list: undefined,
            complete: { isbn: value => books.filter(isbn => isbn.startsWith(value)) },
        }),
        { mimeType: 'text/plain' },
        ({ href }, { isbn }) => ({ contents: [{ uri: href, mimeType: 'text/plain', text: `book ${isbn}` }] }),
    );
    server.registerPrompt(
        'greet',
        {
            description: 'Greet a person',
            argsSchema: {
                name: z.string(),
                mood: sdk.completable(z.string(), (value, context) => {
                    const moods = ['calm', 'cheerful', 'curious'].filter(mood => mood.startsWith(value));
                    const name = context?.arguments?.name;
                    return name ? moods.map(mood => `${mood} ${name}`) : moods;
                }),
            },
        },
        ({ name, mood }) => ({
            messages: [
                { role: 'user', content: { type: 'text', text: `Greet ${name}, ${mood}.` } },
                { role: 'assistant', content: { type: 'image', mimeType: 'image/png', data: 'iVBORw==' } },
                { role: 'user', content: { type: 'resource', resource: { uri: 'test://text', mimeType: 'text/plain', text: 'Grüße' } } },
            ],
        }),
    );

    // The SDKs do not paginate. A page here has two entries.
    const list = [
        { name: 'text', uri: 'test://text', mimeType: 'text/plain' },
        { name: 'blob', uri: 'test://blob', mimeType: 'application/octet-stream' },
        { name: 'watched', uri: 'test://watched', mimeType: 'text/plain' },
    ];
    sdk.handle(server, 'resources/list', ({ cursor }) => {
        const from = cursor ? Number(Buffer.from(cursor, 'base64').toString()) : 0;
        const resources = list.slice(from, from + 2);
        const nextCursor = from + 2 < list.length ? Buffer.from(String(from + 2)).toString('base64') : undefined;
        return { resources, nextCursor };
    });
}
