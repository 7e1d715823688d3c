// The first TypeScript SDK, which speaks the handshake revisions: `node v1.mjs PACKAGES PLAN`.
//
// Source: @modelcontextprotocol/sdk, the version pinned in package.json.

import { createRequire } from 'node:module';
import { join } from 'node:path';

import { carryOut } from './behaviours.mjs';

const [packages, plan] = process.argv.slice(2);
const require = createRequire(join(packages, 'package.json'));
const { Client } = require('@modelcontextprotocol/sdk/client/index.js');
const { StdioClientTransport } = require('@modelcontextprotocol/sdk/client/stdio.js');
const { SSEClientTransport } = require('@modelcontextprotocol/sdk/client/sse.js');
const { StreamableHTTPClientTransport } = require('@modelcontextprotocol/sdk/client/streamableHttp.js');
const types = require('@modelcontextprotocol/sdk/types.js');

const SCHEMAS = {
    'elicitation/create': types.ElicitRequestSchema,
    'sampling/createMessage': types.CreateMessageRequestSchema,
    'roots/list': types.ListRootsRequestSchema,
    'notifications/message': types.LoggingMessageNotificationSchema,
    'notifications/resources/updated': types.ResourceUpdatedNotificationSchema,
    'notifications/tools/list_changed': types.ToolListChangedNotificationSchema,
    'notifications/prompts/list_changed': types.PromptListChangedNotificationSchema,
    'notifications/resources/list_changed': types.ResourceListChangedNotificationSchema,
};

await carryOut(
    {
        makeClient: (info, capabilities) => new Client(info, { capabilities }),
        async connect(client, transport, revision) {
            // It offers the newest revision it knows; an older one of its kind knew an older one.
            const send = transport.send.bind(transport);
            transport.send = (message, options) => {
                if (message.method === 'initialize') message.params.protocolVersion = revision;
                return send(message, options);
            };
            let negotiated;
            const tell = transport.setProtocolVersion?.bind(transport);
            transport.setProtocolVersion = version => {
                negotiated = version;
                tell?.(version);
            };
            await client.connect(transport);
            return negotiated;
        },
        stdio: parameters => new StdioClientTransport(parameters),
        sse: url => new SSEClientTransport(url),
        http: (url, options) => new StreamableHTTPClientTransport(url, options),
        handle: (client, method, handler) =>
            client.setRequestHandler(SCHEMAS[method], async request => handler(request)),
        hear: (client, method, handler) => client.setNotificationHandler(SCHEMAS[method], handler),
        callTool: (client, params, options) => client.callTool(params, undefined, options),
    },
    JSON.parse(plan),
);
