// The login of a client peer: it logs in, requests another scope and refreshes the token.

import { attempt } from './subjects.mjs';

// Provider is the OAuth provider that the SDK requires. browser is a URL that does what a browser and its user do: it takes
// the page of the authorization server and returns the URL of the redirect.
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
    opened = [];
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
        this.opened.push(page.href);
        const answer = await fetch(`${this.#browser}?${new URLSearchParams({ page: page.href })}`);
        if (!answer.ok) throw new Error(await answer.text());
        this.callback = new URL(await answer.text()).searchParams;
    }

    // dropRefreshToken keeps the access token.
    dropRefreshToken() {
        const { refresh_token, ...rest } = this.#tokens;
        this.#tokens = rest;
    }

    // invalidate makes the server reject the access token.
    invalidate() {
        this.#tokens = { ...this.#tokens, access_token: 'stale' };
    }
}

// logIn runs all steps. newClient and newTransport return new objects for each connection.
export async function logIn({ provider, newClient, newTransport, finish, beforeStepUp }) {
    const call = async (client, name) => attempt(() => client.callTool({ name, arguments: {} }));
    const rejected = newTransport();
    const seen = { rejected: await attempt(() => newClient().connect(rejected)) };
    await finish(rejected, provider.callback);

    const [client, transport] = [newClient(), newTransport()];
    await client.connect(transport, { timeout: 30_000 });
    try {
        seen.whoami = await call(client, 'whoami');
        beforeStepUp?.();
        seen.insufficient = await call(client, 'secret'); // it requires another scope, so the user logs in again
        await finish(transport, provider.callback);
        seen.secret = await call(client, 'secret');
        provider.invalidate();
        seen.refreshed = await call(client, 'whoami');
        return { ...seen, opened: provider.opened, saved: provider.saved };
    } finally {
        await transport.terminateSession?.();
        await client.close();
    }
}
