// The authorization of a server peer that requires tokens of an issuer.

import { createPublicKey, verify } from 'node:crypto';
import { z } from 'zod';
import { text } from './tools.mjs';

// The scopes that every request requires, and the additional scope of the tool secret.
export const scopes = ['mcp'];
export const extraScope = 'files:write';

const expired = new Set();

// newVerifier returns a verifier of the tokens of an issuer. invalidToken(message) returns the error for an invalid token.
export function newVerifier({ issuer, jwks_uri }, invalidToken) {
    const keys = fetch(jwks_uri).then(answer => answer.json());
    return {
        async verifyAccessToken(token) {
            const [head, body, signature] = token.split('.');
            const decode = part => JSON.parse(Buffer.from(part, 'base64url'));
            try {
                const { kid, alg } = decode(head);
                const jwk = (await keys).keys.find(key => key.kid === kid);
                if (alg !== 'ES256' || !jwk) throw new Error('unknown key');
                const key = { key: createPublicKey({ key: jwk, format: 'jwk' }), dsaEncoding: 'ieee-p1363' };
                if (!verify('sha256', Buffer.from(`${head}.${body}`), key, Buffer.from(signature, 'base64url'))) throw new Error('invalid signature');
                const { aud, client_id: clientId, exp: expiresAt, iss, scope, sub } = decode(body);
                if (expired.has(token)) throw new Error('token has expired');
                if (iss !== issuer) throw new Error('unknown issuer');
                return { token, clientId, expiresAt, scopes: scope.split(' '), resource: new URL([aud].flat()[0]), extra: { sub } };
            } catch (error) {
                throw invalidToken(error.message);
            }
        },
    };
}

// metadataOf fetches the metadata of an issuer.
export async function metadataOf(issuer) {
    const answer = await fetch(`${issuer}/.well-known/oauth-authorization-server`);
    return answer.json();
}

// addAuthorized adds tools that use the token of the caller. secret is additional configuration of the tool secret.
export function addAuthorized(server, authInfo, secret = {}) {
    server.registerTool('whoami', { description: 'Return the user', inputSchema: z.object({}) }, (_, context) => text(authInfo(context).extra.sub));
    server.registerTool('secret', { description: 'Requires an additional scope', inputSchema: z.object({}), ...secret }, () => text('secret text'));
    server.registerTool('expire', { description: 'Expire the token', inputSchema: z.object({}) }, (_, context) => {
        expired.add(authInfo(context).token);
        return text('expired');
    });
}
