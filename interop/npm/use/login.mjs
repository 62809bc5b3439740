// What a client peer does at a server that wants tokens: it logs in, is asked for more, and renews.

import { attempt } from './subjects.mjs';

// A Provider is what the SDK asks of a program that logs in. The user is at browser, a URL that takes the page of the
// authorization server and answers with the URL to which that has sent them back.
export class Provider {
    redirectUrl = 'http://127.0.0.1/callback';
    clientMetadata = {
        client_name: 'interop',
        redirect_uris: [this.redirectUrl],
        grant_types: ['authorization_code', 'refresh_token'],
        response_types: ['code'],
        token_endpoint_auth_method: 'none',
        application_type: 'native',
    };
    visited = [];
    saved = 0;
    #browser;
    #client;
    #tokens;
    #verifier;

    constructor(browser) {
        this.#browser = browser;
    }

    state = () => 'a state';
    clientInformation = () => this.#client;
    saveClientInformation = client => void (this.#client = client);
    tokens = () => this.#tokens;
    saveTokens(tokens) {
        this.#tokens = tokens;
        this.saved++;
    }
    saveCodeVerifier = verifier => void (this.#verifier = verifier);
    codeVerifier = () => this.#verifier;
    async redirectToAuthorization(page) {
        this.visited.push(page.href);
        const answer = await fetch(`${this.#browser}?${new URLSearchParams({ page: page.href })}`);
        if (!answer.ok) throw new Error(await answer.text());
        this.callback = new URL(await answer.text()).searchParams;
    }

    // dropRefreshToken leaves the access token alone.
    dropRefreshToken() {
        const { refresh_token, ...rest } = this.#tokens;
        this.#tokens = rest;
    }

    // spoil has the server refuse the access token, as if its time were over.
    spoil() {
        this.#tokens = { ...this.#tokens, access_token: 'stale' };
    }
}

// logIn goes through it all. newClient and newTransport make what connects; a client that was refused is done for.
export async function logIn({ provider, newClient, newTransport, finish, beforeStepUp }) {
    const call = async (client, name) => attempt(() => client.callTool({ name, arguments: {} }));
    const refused = newTransport();
    const seen = { refused: await attempt(() => newClient().connect(refused)) };
    await finish(refused, provider.callback);

    const [client, transport] = [newClient(), newTransport()];
    await client.connect(transport, { timeout: 30_000 });
    try {
        seen.whoami = await call(client, 'whoami');
        beforeStepUp?.();
        seen.lacking = await call(client, 'secret'); // which needs a scope more: the user is asked anew
        await finish(transport, provider.callback);
        seen.secret = await call(client, 'secret');
        provider.spoil();
        seen.renewed = await call(client, 'whoami');
        return { ...seen, visited: provider.visited, saved: provider.saved };
    } finally {
        await transport.terminateSession?.();
        await client.close();
    }
}
