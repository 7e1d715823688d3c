// The same tools on the official TypeScript SDK: `node echo.mjs stdio`, or `http PORT`.
//
// On node:http without a framework, which is the leanest way that the SDK documents: 2026-07-28 through its handler, the
// revisions before with a session each. Over stdio only the echo, as for the others.
// Source: @modelcontextprotocol/server, the version pinned in package.json; the README of @modelcontextprotocol/node.

import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';

import { NodeStreamableHTTPServerTransport, toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import * as z from 'zod';

const MODERN = '2026-07-28';
const MEMO = 'memo://today';
const [way, port] = process.argv.slice(2);
const others = Number(process.env.BENCHMARK_TOOLS ?? 0);

const text = value => ({ content: [{ type: 'text', text: value }] });
const echoed = { description: 'Give the text back.', inputSchema: z.object({ text: z.string() }) };
const counted = {
    description: 'Send as many notifications of progress, then answer.',
    inputSchema: z.object({ count: z.number().int() }),
};

function build() {
    const server = new McpServer({ name: 'echo', version: '1' });
    server.registerTool('echo', echoed, async ({ text: value }) => text(value));
    return server;
}

/** A new one for each request in 2026-07-28, for each session before. */
function buildWithStreams(notify) {
    const capabilities = { resources: { subscribe: true } };
    const server = new McpServer({ name: 'echo', version: '1' }, { capabilities });
    server.registerTool('echo', echoed, async ({ text: value }) => text(value));
    server.registerTool('burst', counted, async ({ count }, ctx) => {
        const progressToken = ctx.mcpReq._meta?.progressToken;
        for (let progress = 1; progress <= count; progress++) {
            await ctx.mcpReq.notify({ method: 'notifications/progress', params: { progressToken, progress } });
        }
        return text('done');
    });
    server.registerTool('touch', { description: 'Tell everybody who listens.' }, async () => {
        notify?.().resourceUpdated(MEMO);
        return text('touched');
    });
    server.registerResource('memo', MEMO, {}, async uri => ({ contents: [{ uri: uri.href, text: 'memo' }] }));
    for (let number = 0; number < others; number++) {
        server.registerTool(`other_${number}`, echoed, async ({ text: value }) => text(value));
    }
    return server;
}

if (way === 'stdio') {
    serveStdio(build);
} else {
    const sessions = new Map();
    const handler = createMcpHandler(() => buildWithStreams(() => handler.notify), {
        legacy: 'reject',
        maxSubscriptions: 20_000,
    });
    const serveModern = toNodeHandler(handler);

    const open = async () => {
        const session = new NodeStreamableHTTPServerTransport({
            sessionIdGenerator: randomUUID,
            onsessioninitialized: id => sessions.set(id, session),
        });
        session.onclose = () => sessions.delete(session.sessionId);
        await buildWithStreams().connect(session);
        return session;
    };
    const serve = async (req, res) => {
        if (req.headers['mcp-protocol-version'] === MODERN) {
            await serveModern(req, res);
            return;
        }
        const session = sessions.get(req.headers['mcp-session-id']) ?? (await open());
        await session.handleRequest(req, res);
    };
    createServer(serve).listen(Number(port), '127.0.0.1', 2048);
}
