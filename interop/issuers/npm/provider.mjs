// The OpenID provider oidc-provider on a free port of the loopback interface. It prints its issuer. Any user can log in.
// The client web has the secret "secret". Its access tokens are JSON Web Tokens if they are for the resource in argv[3],
// and opaque otherwise. argv[2] is the redirect URI of the client.
import { createServer } from 'node:http';
import Provider from 'oidc-provider';

const [redirect, resource] = process.argv.slice(2);
const server = createServer();
server.listen(0, '127.0.0.1', () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(issuer, {
    clients: [{ client_id: 'web', client_secret: 'secret', redirect_uris: [redirect] }],
    cookies: { keys: ['a key of tests'] },
    pkce: { required: () => false },
    features: {
      devInteractions: { enabled: true },
      introspection: { enabled: true },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: (_, indicator) => ({ scope: 'tools', audience: indicator,
          accessTokenFormat: indicator === resource ? 'jwt' : 'opaque' }),
        useGrantedResource: () => true,
      },
    },
  });
  server.on('request', provider.callback());
  console.log(issuer);
});
