// The second TypeScript SDK: `node v2.mjs PACKAGES PLAN`.
//
// Source: @modelcontextprotocol/client, the version pinned in package.json.

import { createRequire } from 'node:module';
import { join } from 'node:path';

import { carryOut } from './behaviours.mjs';

const [packages, plan] = process.argv.slice(2);
const require = createRequire(join(packages, 'package.json'));
const { Client, SSEClientTransport, StreamableHTTPClientTransport } = require('@modelcontextprotocol/client');
const { StdioClientTransport } = require('@modelcontextprotocol/client/stdio');

await carryOut(
    {
        makeClient(info, capabilities, revision, pinned) {
            if (revision === '2026-07-28') {
                const mode = pinned ? { pin: revision } : 'auto';
                return new Client(info, { capabilities, versionNegotiation: { mode } });
            }
            return new Client(info, { capabilities, supportedProtocolVersions: [revision] });
        },
        async connect(client, transport) {
            await client.connect(transport);
            return client.getNegotiatedProtocolVersion();
        },
        stdio: parameters => new StdioClientTransport(parameters),
        sse: url => new SSEClientTransport(url),
        http: (url, options) => new StreamableHTTPClientTransport(url, options),
        handle: (client, method, handler) => client.setRequestHandler(method, async request => handler(request)),
        hear: (client, method, handler) => client.setNotificationHandler(method, handler),
        callTool: (client, params, options) => client.callTool(params, options),
    },
    JSON.parse(plan),
);
