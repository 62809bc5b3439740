// Who may use a server peer that wants tokens: those to whom an issuer has given one for it.

import { createPublicKey, verify } from 'node:crypto';
import { z } from 'zod';
import { text } from './tools.mjs';

// The scopes that every request needs, and the one that the tool secret needs as well.
export const scopes = ['mcp'];
export const more = 'files:write';

const expired = new Set();

// newVerifier verifies the tokens of an issuer by its metadata. refuse makes the error of a token that is none.
export function newVerifier({ issuer, jwks_uri }, refuse) {
    const keys = fetch(jwks_uri).then(answer => answer.json());
    return {
        async verifyAccessToken(token) {
            const [head, body, signature] = token.split('.');
            const decode = part => JSON.parse(Buffer.from(part, 'base64url'));
            try {
                const { kid, alg } = decode(head);
                const jwk = (await keys).keys.find(key => key.kid === kid);
                if (alg !== 'ES256' || !jwk) throw new Error('no such key');
                const key = { key: createPublicKey({ key: jwk, format: 'jwk' }), dsaEncoding: 'ieee-p1363' };
                if (!verify('sha256', Buffer.from(`${head}.${body}`), key, Buffer.from(signature, 'base64url'))) throw new Error('forged');
                const { aud, client_id: clientId, exp: expiresAt, iss, scope, sub } = decode(body);
                if (expired.has(token)) throw new Error('its time is over');
                if (iss !== issuer) throw new Error('not from the issuer');
                return { token, clientId, expiresAt, scopes: scope.split(' '), resource: new URL([aud].flat()[0]), extra: { sub } };
            } catch (error) {
                throw refuse(error.message);
            }
        },
    };
}

// metadataOf asks an issuer what it is.
export async function metadataOf(issuer) {
    const answer = await fetch(`${issuer}/.well-known/oauth-authorization-server`);
    return answer.json();
}

// addGuarded adds the tools of a server that knows its users. secret takes what its registration needs besides.
export function addGuarded(server, who, secret = {}) {
    server.registerTool('whoami', { description: 'Tell who is calling', inputSchema: z.object({}) }, (_, context) => text(who(context).extra.sub));
    server.registerTool('secret', { description: 'Needs a scope more', inputSchema: z.object({}), ...secret }, () => text('told'));
    server.registerTool('expire', { description: 'End the time of the token', inputSchema: z.object({}) }, (_, context) => {
        expired.add(who(context).token);
        return text('expired');
    });
}
