// The calls of every client peer, by subject. Each function returns its observations; the Go tests check them. For a
// failure, attempt returns the error instead of the result.

// record records the messages of a transport before the SDK handles them. The SDKs drop the onprogress callback when they
// parse the result, so progress notifications in the same chunk do not reach it.
export function record(transport) {
    const recorded = { sent: [], progress: [], logs: [], changes: [] };
    const { onmessage } = transport;
    transport.onmessage = (message, extra) => {
        const { method, params } = message;
        if (method === 'notifications/progress') recorded.progress.push(params);
        if (method === 'notifications/message') recorded.logs.push(params);
        if (method?.endsWith('/list_changed') || method?.endsWith('/updated')) recorded.changes.push({ method, uri: params?.uri });
        onmessage(message, extra);
    };
    const send = transport.send.bind(transport);
    transport.send = (message, options) => {
        recorded.sent.push(...[message].flat().map(({ method }) => method).filter(Boolean));
        return send(message, options);
    };
    return recorded;
}

export async function attempt(run) {
    try {
        return await run();
    } catch ({ constructor, code, message, data }) {
        return { error: { type: constructor.name, code, message, data } };
    }
}

// until waits until a condition is true, for at most ten seconds.
async function until(condition) {
    for (let n = 0; n < 1000 && !(await condition()); n++) await new Promise(resolve => setTimeout(resolve, 10));
}

// The methods of sdk have the same signatures in both generations.
export async function useTools({ client, callTool }, recorded) {
    const { tools, pages } = await pagesOf(recorded, 'tools/list', 'tools', cursor => client.listTools(cursor));
    return {
        pages,
        tools: Object.fromEntries(tools.map(({ name, ...tool }) => [name, tool])),
        calls: {
            echo: await attempt(() => callTool('echo', { text: 'héllo' })),
            add: await attempt(() => callTool('add', { a: 2, b: 40 })),
            count: await attempt(() => callTool('count', { to: 5 }, { onprogress: () => {} })),
            fail: await attempt(() => callTool('fail', {})),
            badArguments: await attempt(() => callTool('add', { a: 'two', b: 40 })),
            unknownTool: await attempt(() => callTool('no_such_tool', {})),
            region: await attempt(() => callTool('region', { region: 'eu-north' })),
        },
        progress: recorded.progress.splice(0),
    };
}

// pagesOf gets all pages of a list. Without a cursor, the second generation does that itself.
async function pagesOf(recorded, method, member, list) {
    const before = recorded.sent.length;
    const entries = [];
    let cursor;
    do {
        const page = await list(cursor ? { cursor } : undefined);
        entries.push(...page[member]);
        cursor = page.nextCursor;
    } while (cursor);
    return { [member]: entries, pages: recorded.sent.slice(before).filter(sent => sent === method).length };
}

export async function useData({ client }, recorded) {
    const read = uri => attempt(() => client.readResource({ uri }));
    const complete = (ref, name, value, context) => attempt(() => client.complete({ ref, argument: { name, value }, context }));
    const prompt = { type: 'ref/prompt', name: 'greet' };
    const template = { type: 'ref/resource', uri: 'test://books/{isbn}' };
    return {
        ...(await attempt(() => pagesOf(recorded, 'resources/list', 'resources', cursor => client.listResources(cursor)))),
        templates: (await attempt(() => client.listResourceTemplates())).resourceTemplates,
        read: {
            text: await read('test://text'),
            blob: await read('test://blob'),
            book: await read('test://books/9780'),
            missing: await read('test://missing'),
        },
        prompts: (await attempt(() => client.listPrompts())).prompts,
        greet: await attempt(() => client.getPrompt({ name: 'greet', arguments: { name: 'Ada', mood: 'calm' } })),
        incomplete: await attempt(() => client.getPrompt({ name: 'greet' })),
        completions: {
            mood: await complete(prompt, 'mood', 'c'),
            moodOfAda: await complete(prompt, 'mood', 'cu', { arguments: { name: 'Ada' } }),
            isbn: await complete(template, 'isbn', '97802'),
        },
    };
}

export async function useCache({ client }, recorded) {
    const count = method => recorded.sent.filter(sent => sent === method).length;
    const again = async (method, ask) => {
        await ask();
        const before = count(method);
        await ask();
        return count(method) - before;
    };
    return {
        prompts: await again('prompts/list', () => client.listPrompts()),
        read: await again('resources/read', () => client.readResource({ uri: 'test://watched' })),
    };
}

export async function useCalls({ client, callTool, gateway, logLevel, modern, request }, recorded) {
    const cancel = new AbortController();
    const wait = await attempt(() => callTool('wait', {}, { signal: cancel.signal, onprogress: () => cancel.abort('no more') }));
    await until(async () => (await callTool('cancelled', {})).content[0].text !== '0');
    const cancelled = await callTool('cancelled', {});
    const meta = await logLevel('warning');
    recorded.logs.length = 0;
    await callTool('talk', {}, undefined, meta);
    await until(() => recorded.logs.length >= 2);
    return {
        wait,
        cancelled,
        logs: recorded.logs,
        ping: modern ? undefined : await attempt(() => client.ping()),
        shout: gateway ? undefined : await attempt(() => request('com.example/shout', { text: 'hey' })),
    };
}

// A gateway does not forward changes of roots, and reports a list as changed only if it differs: the servers remove what
// they add at once.
export async function useChanges({ client, callTool, gateway, modern }, recorded) {
    const uri = 'test://watched';
    recorded.changes.length = 0;
    let subscription;
    if (modern) {
        subscription = await client.listen({
            toolsListChanged: true,
            promptsListChanged: true,
            resourcesListChanged: true,
            resourceSubscriptions: [uri],
        });
    } else {
        await client.subscribeResource({ uri });
    }
    const kinds = gateway ? ['resource'] : ['tools', 'prompts', 'resources', 'resource'];
    for (const [n, what] of kinds.entries()) {
        await callTool('change', { what, uri });
        await until(() => recorded.changes.length > n);
    }
    if (modern) await subscription.close();
    else await client.unsubscribeResource({ uri });
    const seen = { honored: subscription?.honoredFilter, closed: await subscription?.closed };
    // After the end of the subscription there are no notifications about the resource.
    await callTool('change', { what: 'resource', uri });
    if (!modern && !gateway) {
        await client.sendRootsListChanged();
        await until(async () => (await callTool('roots_changed', {})).content[0].text !== '0');
        seen.rootsChanged = await callTool('roots_changed', {});
    }
    return { ...seen, changes: recorded.changes };
}

export async function useInputRequests({ callTool, modern }, asked) {
    const ask = (tool, args = {}) => attempt(() => callTool(tool, args));
    const seen = {
        form: await ask('form'),
        declined: await ask('form', { message: 'Decline' }),
        dismissed: await ask('form', { message: 'Cancel' }),
        twice: await ask('twice'),
        think: await ask('think'),
        research: await ask('research'),
        roots: await ask('roots'),
        everything: await ask('everything'),
        pay: await ask('pay'),
    };
    if (modern) return { ...seen, asked };
    // A call that requires URL elicitations is repeated when the server reports their completion.
    seen.payFirst = await ask('pay_first');
    const required = seen.payFirst.error?.data?.elicitations?.map(({ elicitationId }) => elicitationId) ?? [];
    await until(() => required.every(id => asked.completed.includes(id)));
    return { ...seen, required, paid: await ask('pay_first'), timeout: await ask('timeout'), asked };
}
