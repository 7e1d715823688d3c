// A certified authorization server as it comes: panva's oidc-provider, with the pages that it has for development.
//
// Run by the tests of this folder: `node oidc_provider.mjs PACKAGES GIVEN`. PACKAGES is the folder with node_modules;
// GIVEN is JSON: `clients`, as they are registered by hand.
// The one rule: it is only configured. Tokens for a resource are JWTs, bound to a key where the client has one; those of
// the clients in `opaque` are no JWTs, and have to be asked about.

import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const [packages, given] = process.argv.slice(2);
const { clients, opaque } = JSON.parse(given);
const require = createRequire(join(packages, 'package.json'));
const { default: Provider } = await import(pathToFileURL(require.resolve('oidc-provider')));

const key = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ format: 'jwk' });

const server = createServer();
await new Promise((listens) => server.listen(0, '127.0.0.1', listens));
const issuer = `http://127.0.0.1:${server.address().port}`;

const provider = new Provider(issuer, {
    clients,
    clientDefaults: { id_token_signed_response_alg: 'ES256' },
    jwks: { keys: [{ ...key, use: 'sig', alg: 'ES256' }] },
    cookies: { keys: [randomBytes(32).toString('hex')] },
    scopes: ['openid', 'offline_access', 'read', 'write'],
    pkce: { required: () => true },
    rotateRefreshToken: true,
    clientAuthMethods: ['none', 'client_secret_basic', 'client_secret_post', 'private_key_jwt'],
    findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
    // What a native client gets without asking again for offline access is the policy's of who runs it.
    issueRefreshToken: (_, client) => client.grantTypeAllowed('refresh_token'),
    ttl: { AccessToken: 600, ClientCredentials: 600, RefreshToken: 3600, Session: 3600, Interaction: 600, Grant: 3600 },
    features: {
        devInteractions: { enabled: true },
        clientCredentials: { enabled: true },
        introspection: { enabled: true, allowedPolicy: () => true },
        revocation: { enabled: true, allowedPolicy: (_, client, token) => token.clientId === client.clientId },
        registration: { enabled: true },
        dPoP: { enabled: true, nonceSecret: randomBytes(32), requireNonce: () => true },
        resourceIndicators: {
            enabled: true,
            useGrantedResource: () => true,
            getResourceServerInfo: (_, resource, client) => ({
                scope: 'read write',
                audience: resource,
                accessTokenFormat: opaque.includes(client.clientId) ? 'opaque' : 'jwt',
                jwt: { sign: { alg: 'ES256' } },
            }),
        },
    },
});

provider.on('server_error', (_, error) => console.error('server_error', error));
server.on('request', provider.callback());
process.on('SIGTERM', () => process.exit(0));
console.error(`serving ${issuer}/`);
