// A server written with the official TypeScript SDK, as its documentation tells: what our client is tried on.
//
// Run by the tests as its own process: `node typescript_sdk_server.mjs PACKAGES stdio` or `… http`. Offers the same,
// under the same names, as python_sdk_server.py, in every revision that the SDK speaks.
//
// Source: @modelcontextprotocol/server, the version pinned in package.json; the SDK's docs and its conformance server.

import { randomUUID } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';

const [packages, transport] = process.argv.slice(2);
const require = createRequire(join(packages, 'package.json'));
const { createMcpExpressApp } = require('@modelcontextprotocol/express');
const { NodeStreamableHTTPServerTransport, toNodeHandler } = require('@modelcontextprotocol/node');
const {
    acceptedContent,
    classifyInboundRequest,
    completable,
    createMcpHandler,
    createRequestStateCodec,
    fromJsonSchema,
    inputRequired,
    isInitializeRequest,
    McpServer,
    ResourceTemplate,
} = require('@modelcontextprotocol/server');
const { serveStdio } = require('@modelcontextprotocol/server/stdio');
const z = require('zod');

const PIXEL = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==';
const WAVE = 'UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA=';
const LINGER_MS = 60_000;
const LANGUAGES = ['python', 'rust', 'ruby'];
const TOPICS = { monday: ['cats', 'cars'], tuesday: ['dogs'] };

const COFFEE = z.object({ size: z.enum(['small', 'large']), sugar: z.number().int().default(0) });
const CONFIRMATION = z.object({ sure: z.boolean() });

const PROMPTS = [
    {
        name: 'review',
        title: 'Code review',
        description: 'Have code reviewed.',
        arguments: [
            { name: 'code', required: true },
            { name: 'language', required: false },
        ],
    },
    { name: 'plain', description: 'A prompt without arguments.' },
    { name: 'interview', description: 'A prompt that asks first.' },
];

const codec = createRequestStateCodec({ key: crypto.getRandomValues(new Uint8Array(32)) });

const text = value => ({ content: [{ type: 'text', text: value }] });
const prompted = value => ({ messages: [{ role: 'user', content: { type: 'text', text: value } }] });
const modern = ctx => ctx.mcpReq.envelope !== undefined;
const elicitCoffee = message => inputRequired.elicit({ message, requestedSchema: COFFEE });
const sampleOf = (about, more = {}) =>
    inputRequired.createMessage({
        messages: [{ role: 'user', content: { type: 'text', text: about } }],
        maxTokens: 50,
        ...more,
    });

async function progress(ctx, report) {
    const progressToken = ctx.mcpReq._meta?.progressToken;
    if (progressToken !== undefined) {
        await ctx.mcpReq.notify({ method: 'notifications/progress', params: { progressToken, ...report } });
    }
}

// In 2026-07-28 over HTTP there is a new instance for every request, so that what a call changes has to be kept here.
let extended = false;

/**
 * @param notify tells the streams of `subscriptions/listen` of a change, where the instance cannot: 2026-07-28 over HTTP
 */
function build(notify) {
    const subscribed = new Set();
    const server = new McpServer(
        { name: 'typescript-sdk', version: '1.0' },
        {
            instructions: 'Greet first.',
            capabilities: {
                tools: { listChanged: true },
                prompts: { listChanged: true },
                resources: { listChanged: true, subscribe: true },
                logging: {},
            },
            requestState: { verify: codec.verify },
        },
    );

    // Answers

    server.registerTool(
        'add',
        {
            title: 'Addition',
            description: 'Add two numbers.',
            inputSchema: z.object({ a: z.number().int(), b: z.number().int() }),
            outputSchema: z.object({ total: z.number().int() }),
        },
        async ({ a, b }) => ({ ...text(JSON.stringify({ total: a + b })), structuredContent: { total: a + b } }),
    );
    server.registerTool('media', { description: 'Return every kind of content.' }, async () => ({
        content: [
            { type: 'text', text: 'text' },
            { type: 'image', data: PIXEL, mimeType: 'image/png' },
            { type: 'audio', data: WAVE, mimeType: 'audio/wav' },
            { type: 'resource_link', uri: 'memo://today', name: 'today' },
            { type: 'resource', resource: { uri: 'memo://inside', text: 'inside' } },
        ],
    }));
    server.registerTool(
        'locate',
        {
            description: 'Take an argument that is mirrored in a header.',
            inputSchema: fromJsonSchema({
                type: 'object',
                properties: { region: { type: 'string', 'x-mcp-header': 'Region' } },
                required: ['region'],
            }),
        },
        async ({ region }) => text(`in ${region}`),
    );
    server.registerTool(
        'session',
        { description: "Tell the session, which is the server's to choose." },
        async ctx => text(ctx.sessionId ?? 'none'),
    );
    server.registerTool(
        'refuse',
        { description: 'Fail with a message for the model.', inputSchema: z.object({ reason: z.string() }) },
        async ({ reason }) => ({ ...text(reason), isError: true }),
    );
    server.registerTool('crash', { description: 'Fail without meaning to.' }, async () => {
        throw new Error('the password is hunter2');
    });

    // Time

    server.registerTool(
        'count',
        { description: 'Count, and report it.', inputSchema: z.object({ to: z.number().int() }) },
        async ({ to }, ctx) => {
            for (let number = 1; number <= to; number++) {
                await progress(ctx, { progress: number, total: to, message: `${number} of ${to}` });
            }
            return text(String(to));
        },
    );
    server.registerTool(
        'linger',
        {
            description: 'Write into a file what has become of this call, which takes a minute.',
            inputSchema: z.object({ file: z.string() }),
        },
        async ({ file }, ctx) => {
            writeFileSync(file, 'begun\n');
            await progress(ctx, { progress: 1, message: 'begun' });
            const end = await new Promise(resolve => {
                const timer = setTimeout(() => resolve('ended'), LINGER_MS);
                const stop = () => {
                    clearTimeout(timer);
                    resolve('cancelled');
                };
                ctx.mcpReq.signal.aborted ? stop() : ctx.mcpReq.signal.addEventListener('abort', stop);
            });
            writeFileSync(file, `${end}\n`);
            return text(end);
        },
    );
    server.registerTool('chat', { description: 'Log at four levels.' }, async ctx => {
        await ctx.mcpReq.log('debug', 'a debug message');
        await ctx.mcpReq.log('info', 'an info message');
        await ctx.mcpReq.log('warning', { text: 'a warning' }, 'chat');
        await ctx.mcpReq.log('error', 'an error message');
        return text('said');
    });
    server.registerTool('mutter', { description: 'Print to standard output, as a careless author does.' }, async () => {
        console.log('muttered');
        return text('muttered');
    });
    server.registerTool(
        'break_off',
        { description: 'End the response early; the client reconnects for the rest.' },
        async ctx => {
            await progress(ctx, { progress: 1, total: 2 });
            ctx.http?.closeSSE?.();
            await progress(ctx, { progress: 2, total: 2 });
            return text('the rest');
        },
    );

    // Questions

    server.registerTool(
        'order',
        { description: 'Ask the user for a form.', inputSchema: z.object({ message: z.string() }) },
        async ({ message }, ctx) => {
            const answer = ctx.mcpReq.inputResponses?.coffee;
            if (answer === undefined) {
                return inputRequired({ inputRequests: { coffee: elicitCoffee(message) } });
            }
            const coffee = acceptedContent(ctx.mcpReq.inputResponses, 'coffee', COFFEE);
            return text(coffee === undefined ? answer.action : `${coffee.size}, sugar ${coffee.sugar}`);
        },
    );
    server.registerTool('sign_in', { description: 'Have the user open a page.' }, async ctx => {
        const answer = ctx.mcpReq.inputResponses?.['sign-in'];
        if (answer === undefined) {
            const page = { message: 'Please sign in', url: 'https://example.com/sign-in' };
            return inputRequired({ inputRequests: { 'sign-in': inputRequired.elicitUrl(page) } });
        }
        return text(answer.action);
    });
    server.registerTool(
        'think',
        { description: "Ask the client's model.", inputSchema: z.object({ about: z.string() }) },
        async ({ about }, ctx) => {
            const answer = ctx.mcpReq.inputResponses?.thought;
            if (answer === undefined) {
                const thought = sampleOf(about, { systemPrompt: 'Be brief.' });
                return inputRequired({ inputRequests: { thought } });
            }
            return text(`${answer.model}: ${answer.content.text}`);
        },
    );
    server.registerTool('roots', { description: "Ask for the client's roots." }, async ctx => {
        const answer = ctx.mcpReq.inputResponses?.roots;
        if (answer === undefined) {
            return inputRequired({ inputRequests: { roots: inputRequired.listRoots() } });
        }
        return text(answer.roots.map(root => root.uri).join(', '));
    });
    server.registerTool('everything', { description: 'Ask for three things at once.' }, async ctx => {
        const answers = ctx.mcpReq.inputResponses;
        if (answers === undefined) {
            return inputRequired({
                inputRequests: {
                    coffee: elicitCoffee('Which coffee?'),
                    thought: sampleOf('tea?'),
                    roots: inputRequired.listRoots(),
                },
            });
        }
        const coffee = acceptedContent(answers, 'coffee', COFFEE);
        return text(`${coffee.size}, ${answers.thought.model}, ${answers.roots.roots[0].name}`);
    });
    server.registerTool(
        'checkout',
        { description: 'Ask twice, the second question made of the first answer.' },
        async ctx => {
            const answers = ctx.mcpReq.inputResponses;
            const size = ctx.mcpReq.requestState()?.size;
            if (size !== undefined) {
                return text(`${size}, ${acceptedContent(answers, 'confirmation', CONFIRMATION)?.sure}`);
            }
            const coffee = acceptedContent(answers, 'coffee', COFFEE);
            if (coffee === undefined) {
                return inputRequired({ inputRequests: { coffee: elicitCoffee('Which coffee?') } });
            }
            const message = `Really ${coffee.size}?`;
            return inputRequired({
                inputRequests: { confirmation: inputRequired.elicit({ message, requestedSchema: CONFIRMATION }) },
                requestState: await codec.mint({ size: coffee.size }),
            });
        },
    );

    // Resources, prompts, completion

    server.registerResource(
        'today',
        'memo://today',
        { title: 'Today', description: "Today's memo.", mimeType: 'text/markdown' },
        async uri => ({ contents: [{ uri: uri.href, mimeType: 'text/markdown', text: '# Today' }] }),
    );
    server.registerResource('logo', 'memo://logo', { description: 'Bytes.', mimeType: 'image/png' }, async uri => ({
        contents: [{ uri: uri.href, mimeType: 'image/png', blob: 'iVBORw==' }],
    }));
    server.registerResource(
        'memo',
        new ResourceTemplate('memo://{day}/{topic}', {
            list: undefined,
            complete: {
                topic: (value, context) =>
                    (TOPICS[context?.arguments?.day] ?? []).filter(topic => topic.startsWith(value)),
            },
        }),
        { description: 'The memo on a topic.', mimeType: 'text/plain' },
        async (uri, { day, topic }) => ({
            contents: [{ uri: uri.href, mimeType: 'text/plain', text: `${topic} on ${day}` }],
        }),
    );
    server.registerResource(
        'asked',
        new ResourceTemplate('ask://{topic}', { list: undefined }),
        { description: 'A resource that asks first.' },
        async (uri, { topic }, ctx) => {
            const coffee = acceptedContent(ctx.mcpReq.inputResponses, 'coffee', COFFEE);
            if (coffee === undefined) {
                return inputRequired({ inputRequests: { coffee: elicitCoffee('Which coffee?') } });
            }
            return { contents: [{ uri: uri.href, text: `${coffee.size} ${topic}` }] };
        },
    );
    server.registerPrompt(
        'review',
        {
            title: 'Code review',
            description: 'Have code reviewed.',
            argsSchema: z.object({
                code: z.string(),
                language: completable(z.string(), value =>
                    LANGUAGES.filter(language => language.startsWith(value)),
                ).optional(),
            }),
        },
        async ({ code, language = 'python' }) => prompted(`Review this ${language}: ${code}`),
    );
    server.registerPrompt('plain', { description: 'A prompt without arguments.' }, async () => prompted('Just do it.'));
    server.registerPrompt('interview', { description: 'A prompt that asks first.' }, async ctx => {
        const coffee = acceptedContent(ctx.mcpReq.inputResponses, 'coffee', COFFEE);
        if (coffee === undefined) {
            return inputRequired({ inputRequests: { coffee: elicitCoffee('Which coffee?') } });
        }
        return prompted(`Serve a ${coffee.size} coffee.`);
    });
    server.server.setRequestHandler('prompts/list', async request => {
        const prompts = extra === undefined ? PROMPTS : [...PROMPTS, { name: 'extra_prompt' }];
        const start = Number(request.params?.cursor ?? 0);
        const more = prompts.length > start + 2 ? { nextCursor: String(start + 2) } : {};
        return { prompts: prompts.slice(start, start + 2), ...more };
    });

    // Changes

    let extra;
    const extend = () => {
        extra = [
            server.registerTool('extra_tool', { description: 'Added.' }, async () => text('extra')),
            server.registerPrompt('extra_prompt', { description: 'Added.' }, async () => prompted('extra')),
            server.registerResource('extra', 'memo://extra', {}, async uri => ({
                contents: [{ uri: uri.href, text: 'extra' }],
            })),
        ];
    };
    const shrink = () => {
        extra?.forEach(registered => registered.remove());
        extra = undefined;
    };
    const change = (wanted, how) => {
        if (notify === undefined) {
            how();
            return;
        }
        extended = wanted;
        notify().toolsChanged();
        notify().promptsChanged();
        notify().resourcesChanged();
    };
    if (notify !== undefined && extended) {
        extend();
    }
    server.registerTool('extend', { description: 'Add a tool, a prompt and a resource.' }, async () => {
        change(true, extend);
        return text('extended');
    });
    server.registerTool('shrink', { description: 'Take them away again.' }, async () => {
        change(false, shrink);
        return text('shrunk');
    });
    server.registerTool(
        'touch',
        { description: 'Say that a resource has changed.', inputSchema: z.object({ uri: z.string() }) },
        async ({ uri }, ctx) => {
            if (notify !== undefined) {
                notify().resourceUpdated(uri);
            } else if (modern(ctx) || subscribed.has(uri)) {
                await server.server.sendResourceUpdated({ uri });
            }
            return text(uri);
        },
    );
    server.server.setRequestHandler('resources/subscribe', async request => {
        subscribed.add(request.params.uri);
        return {};
    });
    server.server.setRequestHandler('resources/unsubscribe', async request => {
        subscribed.delete(request.params.uri);
        return {};
    });
    return server;
}

// Serving

/** What was sent, so that a client can come back for it. Grows for as long as the test runs. */
class Events {
    sent = [];

    async storeEvent(streamId, message) {
        this.sent.push({ streamId, message });
        return String(this.sent.length);
    }

    async replayEventsAfter(lastEventId, { send }) {
        const position = Number(lastEventId);
        const { streamId } = this.sent[position - 1];
        for (let index = position; index < this.sent.length; index++) {
            const { streamId: stream, message } = this.sent[index];
            if (stream === streamId && Object.keys(message).length > 0) {
                await send(String(index + 1), message);
            }
        }
        return streamId;
    }
}

/** 2026-07-28 and, at the same URL, sessions with events for the revisions before it. */
function withSessions() {
    const sessions = new Map();
    const handler = createMcpHandler(() => build(() => handler.notify), { legacy: 'reject' });
    const serveModern = toNodeHandler(handler);

    const open = async () => {
        const server = build();
        const session = new NodeStreamableHTTPServerTransport({
            sessionIdGenerator: randomUUID,
            eventStore: new Events(),
            retryInterval: 50,
            onsessioninitialized: id => sessions.set(id, session),
        });
        session.onclose = () => sessions.delete(session.sessionId);
        await server.connect(session);
        return session;
    };
    return async (req, res) => {
        const inbound = classifyInboundRequest({
            httpMethod: req.method,
            protocolVersionHeader: req.headers['mcp-protocol-version'],
            mcpMethodHeader: req.headers['mcp-method'],
            body: req.body,
        });
        if (inbound.kind !== 'legacy') {
            await serveModern(req, res, req.body);
            return;
        }
        const id = req.headers['mcp-session-id'];
        const session = sessions.get(id) ?? (isInitializeRequest(req.body) ? await open() : undefined);
        if (session === undefined) {
            const error = { code: -32001, message: 'Session not found' };
            res.status(id === undefined ? 400 : 404).json({ jsonrpc: '2.0', error, id: null });
            return;
        }
        await session.handleRequest(req, res, req.body);
    };
}

/** As `createMcpHandler` serves it: the revisions before 2026-07-28 without sessions. */
function withoutSessions(options) {
    const handler = createMcpHandler(() => build(() => handler.notify), options);
    const serve = toNodeHandler(handler);
    return (req, res) => serve(req, res, req.body);
}

if (transport === 'stdio') {
    serveStdio(() => build());
} else {
    const app = createMcpExpressApp();
    app.all('/mcp', withSessions());
    app.all('/stateless/mcp', withoutSessions({}));
    app.all('/json/mcp', withoutSessions({ responseMode: 'json' }));
    const listener = app.listen(0, '127.0.0.1', () => {
        console.error(`serving http://127.0.0.1:${listener.address().port}/mcp`);
    });
}
