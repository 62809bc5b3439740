// What every client peer does to a server, and the one JSON object in which it says what it saw.

// observe lists the tools and calls those that the interop tests agree on. client is connected over transport;
// callTool(params, options) is the one call whose signature differs between the generations of the SDK.
export async function observe(client, transport, callTool) {
    // A protocol error is an observation like any other.
    const call = async (name, args, options) => {
        try {
            return await callTool({ name, arguments: args }, options);
        } catch ({ constructor, code, message, data }) {
            return { error: { type: constructor.name, code, message, data } };
        }
    };

    // Progress is read from the wire: both generations forget an onprogress callback as soon as the result
    // has been parsed, and so lose notifications that came in the same chunk.
    const progress = [];
    const { onmessage } = transport;
    transport.onmessage = (message, extra) => {
        if (message.method === 'notifications/progress') progress.push(message.params);
        onmessage(message, extra);
    };
    let onprogress = 0;

    const { tools } = await client.listTools();
    const calls = {
        echo: await call('echo', { text: 'héllo' }),
        add: await call('add', { a: 2, b: 40 }),
        count: await call('count', { to: 5 }, { onprogress: () => onprogress++ }),
        fail: await call('fail', {}),
        badArguments: await call('add', { a: 'two', b: 40 }),
        unknownTool: await call('no_such_tool', {}),
    };
    return {
        server: client.getServerVersion(),
        capabilities: client.getServerCapabilities(),
        tools: Object.fromEntries(tools.map(({ name, ...tool }) => [name, tool])),
        calls,
        progress,
        onprogress,
    };
}

// report prints what run observed. A peer that could not observe exits 1 and says why on stderr.
export async function report(run) {
    try {
        console.log(JSON.stringify(await run(), null, 2));
    } catch (error) {
        console.error(error);
        process.exitCode = 1;
    }
}
