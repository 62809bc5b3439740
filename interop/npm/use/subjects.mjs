// What every client peer does to a server, by subject. Each function returns what it saw, and judges nothing. What
// fails is seen like anything else: attempt gives the error in place of the result.

// wire notes what is sent and received, before the SDK makes anything of it: an onprogress callback, for one, is
// forgotten in both generations as soon as the result has been parsed, with the notifications of the same chunk.
export function wire(transport) {
    const noted = { sent: [], progress: [], logs: [], changes: [] };
    const { onmessage } = transport;
    transport.onmessage = (message, extra) => {
        const { method, params } = message;
        if (method === 'notifications/progress') noted.progress.push(params);
        if (method === 'notifications/message') noted.logs.push(params);
        if (method?.endsWith('/list_changed') || method?.endsWith('/updated')) noted.changes.push({ method, uri: params?.uri });
        onmessage(message, extra);
    };
    const send = transport.send.bind(transport);
    transport.send = (message, options) => {
        noted.sent.push(...[message].flat().map(({ method }) => method).filter(Boolean));
        return send(message, options);
    };
    return noted;
}

export async function attempt(run) {
    try {
        return await run();
    } catch ({ constructor, code, message, data }) {
        return { error: { type: constructor.name, code, message, data } };
    }
}

// until waits for what comes beside a call, and for no longer than ten seconds.
async function until(there) {
    for (let n = 0; n < 1000 && !(await there()); n++) await new Promise(resolve => setTimeout(resolve, 10));
}

// callTool(name, args, options) of sdk is the same in both generations; so is the rest of it.
export async function useTools({ client, callTool }, noted) {
    const { tools, pages } = await pagesOf(noted, 'tools/list', 'tools', cursor => client.listTools(cursor));
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
        progress: noted.progress.splice(0),
    };
}

// pagesOf goes through a list. The second generation does so by itself if it is given no cursor.
async function pagesOf(noted, method, member, list) {
    const before = noted.sent.length;
    const entries = [];
    let cursor;
    do {
        const page = await list(cursor ? { cursor } : undefined);
        entries.push(...page[member]);
        cursor = page.nextCursor;
    } while (cursor);
    return { [member]: entries, pages: noted.sent.slice(before).filter(sent => sent === method).length };
}

export async function useData({ client }, noted) {
    const read = uri => attempt(() => client.readResource({ uri }));
    const complete = (ref, name, value, context) => attempt(() => client.complete({ ref, argument: { name, value }, context }));
    const prompt = { type: 'ref/prompt', name: 'greet' };
    const template = { type: 'ref/resource', uri: 'test://books/{isbn}' };
    return {
        ...(await attempt(() => pagesOf(noted, 'resources/list', 'resources', cursor => client.listResources(cursor)))),
        templates: (await attempt(() => client.listResourceTemplates())).resourceTemplates,
        read: {
            text: await read('test://text'),
            blob: await read('test://blob'),
            book: await read('test://books/9780'),
            nothing: await read('test://nothing'),
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

export async function useCache({ client }, noted) {
    const count = method => noted.sent.filter(sent => sent === method).length;
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

export async function useCalls({ client, callTool, logLevel, modern, request }, noted) {
    const giveUp = new AbortController();
    const wait = await attempt(() => callTool('wait', {}, { signal: giveUp.signal, onprogress: () => giveUp.abort('no more') }));
    await until(async () => (await callTool('cancelled', {})).content[0].text !== '0');
    const cancelled = await callTool('cancelled', {});
    const meta = await logLevel('warning');
    noted.logs.length = 0;
    await callTool('talk', {}, undefined, meta);
    await until(() => noted.logs.length >= 2);
    return {
        wait,
        cancelled,
        logs: noted.logs,
        ping: modern ? undefined : await attempt(() => client.ping()),
        shout: await attempt(() => request('com.example/shout', { text: 'hey' })),
    };
}

export async function useChanges({ client, callTool, modern }, noted) {
    const uri = 'test://watched';
    noted.changes.length = 0;
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
    for (const [n, what] of ['tools', 'prompts', 'resources', 'resource'].entries()) {
        await callTool('change', { what, uri });
        await until(() => noted.changes.length > n);
    }
    if (modern) await subscription.close();
    else await client.unsubscribeResource({ uri });
    const seen = { honored: subscription?.honoredFilter, closed: await subscription?.closed };
    // After the end of it nothing is told of the resource.
    await callTool('change', { what: 'resource', uri });
    if (!modern) {
        await client.sendRootsListChanged();
        await until(async () => (await callTool('roots_changed', {})).content[0].text !== '0');
        seen.rootsChanged = await callTool('roots_changed', {});
    }
    return { ...seen, changes: noted.changes };
}

export async function useQuestions({ callTool, modern }, asked) {
    const ask = (tool, args = {}) => attempt(() => callTool(tool, args));
    const seen = {
        survey: await ask('survey'),
        no: await ask('survey', { message: 'Say no' }),
        away: await ask('survey', { message: 'Go away' }),
        twice: await ask('twice'),
        think: await ask('think'),
        research: await ask('research'),
        roots: await ask('roots'),
        everything: await ask('everything'),
        pay: await ask('pay'),
    };
    if (modern) return { ...seen, asked };
    // A call that is refused with URLs to visit is made again when the server says that the user has been there.
    seen.payFirst = await ask('pay_first');
    const required = seen.payFirst.error?.data?.elicitations?.map(({ elicitationId }) => elicitationId) ?? [];
    await until(() => required.every(id => asked.completed.includes(id)));
    return { ...seen, required, paid: await ask('pay_first'), impatient: await ask('impatient'), asked };
}
