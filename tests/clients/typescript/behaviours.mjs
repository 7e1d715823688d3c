// Drives a server with an official TypeScript SDK's client and says what it saw.
//
// Used by v1.mjs and v2.mjs, each of which says how its SDK spells things; run by test_typescript_sdk.py with a plan, see
// running.py. What should have been seen is in behaviours.py.
// The one rule: only what the SDKs offer their users, so that what works here works for them.

import { randomUUID } from 'node:crypto';

const WAIT_TIMEOUT = 60_000; // milliseconds for one behaviour

// It is the end of its input that ends a server, not the signal that the SDKs send two seconds later: a busy machine
// needs more.
const after = globalThis.setTimeout;
globalThis.setTimeout = (work, milliseconds, ...rest) =>
    after(work, milliseconds === 2000 ? WAIT_TIMEOUT : milliseconds, ...rest);

const CAPABILITIES = {
    elicitation: { form: {}, url: {} },
    roots: { listChanged: true },
    sampling: {},
};

/** What came without being asked for, what the server asked, and what the client could not make sense of. */
class Heard {
    #waiting = [];

    constructor() {
        this.clear();
    }

    clear() {
        this.faults = [];
        this.logs = [];
        this.notifications = [];
        this.asked = [];
    }

    tell() {
        for (const look of this.#waiting.splice(0)) look();
    }

    async until(claim) {
        while (!claim()) await new Promise(resolve => this.#waiting.push(resolve));
    }

    count(method) {
        return this.notifications.filter(notification => notification.method === method).length;
    }
}

function answer(params, heard) {
    if (params.mode === 'url') {
        heard.asked.push({ url: params.url, id: params.elicitationId ?? null });
        return { action: 'accept' };
    }
    const fields = Object.keys(params.requestedSchema.properties).sort();
    heard.asked.push({ message: params.message, fields });
    if (params.message === 'decline' || params.message === 'cancel') return { action: params.message };
    if (params.message.startsWith('Really')) return { action: 'accept', content: { value: true } };
    return { action: 'accept', content: { size: 'large', sugar: 2 } };
}

function say(params, heard) {
    const [{ content }] = params.messages;
    const text = (Array.isArray(content) ? content[0] : content).text;
    heard.asked.push({ text, max_tokens: params.maxTokens, system_prompt: params.systemPrompt });
    return { role: 'assistant', content: { type: 'text', text: `${text}!` }, model: 'a-model', stopReason: 'endTurn' };
}

/** A connected client. */
class Peer {
    constructor(sdk, target, revision) {
        this.sdk = sdk;
        this.target = target;
        this.revision = revision;
        this.heard = new Heard();
    }

    get modern() {
        return this.revision === '2026-07-28';
    }

    transport(options = {}) {
        if (this.target.sse !== undefined) return this.sdk.sse(new URL(this.target.sse));
        if (this.target.url !== undefined) return this.sdk.http(new URL(this.target.url), options);
        const [command, ...args] = this.target.command;
        return this.sdk.stdio({ command, args, stderr: 'inherit' });
    }

    async connect({ transport = this.transport(), pinned = false } = {}) {
        const { sdk, heard } = this;
        this.client = sdk.makeClient({ name: 'typescript-sdk', version: '0' }, CAPABILITIES, this.revision, pinned);
        sdk.handle(this.client, 'elicitation/create', request => answer(request.params, heard));
        sdk.handle(this.client, 'sampling/createMessage', request => say(request.params, heard));
        sdk.handle(this.client, 'roots/list', () => ({ roots: [{ uri: 'file:///srv/data', name: 'data' }] }));
        for (const method of [
            'notifications/message',
            'notifications/resources/updated',
            'notifications/tools/list_changed',
            'notifications/prompts/list_changed',
            'notifications/resources/list_changed',
        ]) {
            sdk.hear(this.client, method, notification => {
                heard.notifications.push(notification);
                if (method === 'notifications/message') {
                    const { level, data, logger = null } = notification.params;
                    heard.logs.push({ level, data, logger });
                }
                heard.tell();
            });
        }
        this.client.onerror = error => heard.faults.push(error);
        this.transportInUse = transport;
        this.negotiated = await sdk.connect(this.client, transport, this.revision);
        return this;
    }

    /** Another client on the same server. */
    another(options) {
        return new Peer(this.sdk, this.target, this.revision).connect(options);
    }

    /** The text a tool returned, or the code of the error. */
    async text(name, args = {}, options = undefined) {
        try {
            return textOf(await this.sdk.callTool(this.client, { name, arguments: args }, options));
        } catch (error) {
            return `error ${error.code}`;
        }
    }

    async close() {
        await this.client.close();
    }
}

function textOf(result) {
    const [{ text }] = result.content;
    return result.isError ? `error: ${text}` : text;
}

async function failureOf(call) {
    try {
        return JSON.stringify(await call);
    } catch (error) {
        return error.code;
    }
}

async function walk(list, member, name) {
    const names = [];
    let cursor;
    do {
        const page = await list(cursor === undefined ? undefined : { cursor });
        names.push(...page[member].map(item => item[name]));
        cursor = page.nextCursor;
    } while (cursor !== undefined);
    return names;
}

async function lists({ client }) {
    return {
        tools: await walk(params => client.listTools(params), 'tools', 'name'),
        resources: await walk(params => client.listResources(params), 'resources', 'uri'),
        templates: await walk(params => client.listResourceTemplates(params), 'resourceTemplates', 'uriTemplate'),
        prompts: await walk(params => client.listPrompts(params), 'prompts', 'name'),
    };
}

async function extras(peer) {
    return Object.values(await lists(peer))
        .flat()
        .filter(name => name.includes('extra'));
}

/** fetch, and what it was asked and answered. */
function notingFetch(note) {
    return async (url, init) => {
        const response = await fetch(url, init);
        note({ method: init?.method ?? 'GET', headers: new Headers(init?.headers), response });
        return response;
    };
}

const behaviours = {
    async negotiated({ client, negotiated }) {
        return {
            revision: negotiated,
            server: client.getServerVersion()?.name ?? null,
            instructions: client.getInstructions() ?? null,
            capabilities: Object.keys(client.getServerCapabilities()).sort(),
        };
    },

    lists,

    async described({ client }) {
        const { tools } = await client.listTools();
        const tool = tools.find(({ name }) => name === 'greet');
        return {
            title: tool.title ?? null,
            description: tool.description,
            required: tool.inputSchema.required,
            argument: tool.inputSchema.properties.name,
            read_only: tool.annotations?.readOnlyHint ?? null,
            icon: tool.icons?.[0].src ?? null,
        };
    },

    // Tools

    called: peer => peer.text('greet', { name: 'Zoë 🌊' }),

    async structured({ sdk, client }) {
        const result = await sdk.callTool(client, { name: 'area', arguments: { width: 2, height: 1.5 } });
        return { text: JSON.parse(textOf(result)), structured: result.structuredContent ?? null };
    },

    async contents({ sdk, client }) {
        return (await sdk.callTool(client, { name: 'media' })).content.map(({ type }) => type);
    },

    /** A tool with a mirrored argument, called by a client that has not listed it. */
    async mirrored(peer) {
        const fresh = await peer.another({ pinned: true });
        try {
            return [await fresh.text('locate', { region: 'Zürich' }), await fresh.text('locate', { region: 'Oslo' })];
        } finally {
            await fresh.close();
        }
    },

    async failed(peer) {
        const { client } = peer;
        return {
            refused: await peer.text('refuse', { reason: 'not today' }),
            crashed: (await peer.text('crash')).replace(/see id [0-9a-f]{8}/, 'see id …'),
            'wrong type': await peer.text('area', { width: 'wide', height: 1 }),
            'unknown tool': await peer.text('no_such_tool'),
            'unknown prompt': await failureOf(client.getPrompt({ name: 'no_such_prompt' })),
            'bad cursor': await failureOf(client.listTools({ cursor: 'no such cursor' })),
        };
    },

    missing: ({ client }) => failureOf(client.readResource({ uri: 'note://nowhere' })),

    async concurrent(peer) {
        const [name, parties] = [`meeting ${randomUUID()}`, 20];
        const calls = Array.from({ length: parties }, () => peer.text('meet', { name, parties }));
        const places = (await Promise.all(calls)).map(Number).sort((one, other) => one - other);
        return places.every((place, index) => place === index + 1);
    },

    // Time

    async progressed(peer) {
        const reports = [];
        const name = `count ${randomUUID()}`;
        const onprogress = ({ progress, total, message = null }) => {
            reports.push([progress, total, message]);
            // Not before: the SDKs forget a call's progress that comes in one read with its answer.
            if (reports.length === 3) peer.text('let_go', { name });
        };
        const counted = await peer.text('count', { name, to: 3 }, { onprogress });
        return [reports, counted];
    },

    async cancelled(peer) {
        const name = `hold ${randomUUID()}`;
        const controller = new AbortController();
        const options = { signal: controller.signal, onprogress: () => controller.abort('enough') };
        let stopped = false;
        try {
            await peer.sdk.callTool(peer.client, { name: 'hold', arguments: { name } }, options);
        } catch {
            stopped = controller.signal.aborted;
        }
        const seen = await peer.text('watch_cancelled', { name });
        return [stopped, seen.replace(name, ''), await peer.text('greet', { name: 'after' })];
    },

    // Questions

    async asked(peer) {
        const answers = [];
        for (const message of ['Which coffee?', 'decline', 'cancel']) answers.push(await peer.text('order', { message }));
        return { answers, asked: peer.heard.asked };
    },

    async opened(peer) {
        return { answer: await peer.text('sign_in'), asked: peer.heard.asked };
    },

    async sampled(peer) {
        return { answer: await peer.text('think', { about: 'tea' }), asked: peer.heard.asked };
    },

    rooted: peer => peer.text('roots'),
    asked_together: peer => peer.text('everything'),
    asked_twice: peer => peer.text('checkout', { name: `checkout ${randomUUID()}` }),

    async asked_elsewhere({ client }) {
        try {
            const prompt = await client.getPrompt({ name: 'interview' });
            const read = await client.readResource({ uri: 'note://asked' });
            return [prompt.messages[0].content.text, read.contents[0].text];
        } catch (error) {
            return `error ${error.code}`;
        }
    },

    // Resources, prompts, completion, log

    async read({ client }) {
        const found = [];
        for (const uri of ['note://logo', 'note://pair', 'note://monday/a%20b']) {
            found.push((await client.readResource({ uri })).contents);
        }
        return found;
    },

    /** Whether the second read did not reach the server. */
    async cached({ client }) {
        const uri = 'note://today';
        const [one, other] = [await client.readResource({ uri }), await client.readResource({ uri })];
        return one.contents[0].text === other.contents[0].text;
    },

    async prompted({ client }) {
        const results = [
            await client.getPrompt({ name: 'review', arguments: { code: '1 + 1', language: 'rust' } }),
            await client.getPrompt({ name: 'plain' }),
        ];
        return results.flatMap(({ messages }) => messages.map(({ role, content }) => [role, content.text]));
    },

    async completed({ client }) {
        const language = { type: 'ref/prompt', name: 'review' };
        const topic = { type: 'ref/resource', uri: 'note://{day}/{topic}' };
        const complete = async params => (await client.complete(params)).completion.values;
        return [
            await complete({ ref: language, argument: { name: 'language', value: 'r' } }),
            await complete({ ref: topic, argument: { name: 'topic', value: 'ca' } }),
            await complete({
                ref: topic,
                argument: { name: 'topic', value: '' },
                context: { arguments: { day: 'tuesday' } },
            }),
        ];
    },

    async logged(peer) {
        const { sdk, client, heard } = peer;
        const call = { name: 'chat' };
        if (peer.modern) call._meta = { 'io.modelcontextprotocol/logLevel': 'warning' };
        else await client.setLoggingLevel('warning');
        await sdk.callTool(client, call);
        await heard.until(() => heard.logs.some(({ level }) => level === 'error'));
        await peer.text('greet', { name: 'after' }); // what came before its answer has been heard
        return heard.logs.sort((one, other) => one.level.localeCompare(other.level));
    },

    // Changes

    async updated(peer) {
        const { client, heard } = peer;
        const [uri, other] = ['note://monday/cats', 'note://monday/cars'];
        const updates = () => heard.count('notifications/resources/updated');
        const stream = peer.modern ? await client.listen({ resourceSubscriptions: [uri] }) : undefined;
        if (stream === undefined) await client.subscribeResource({ uri });
        await peer.text('touch', { uri: other });
        await peer.text('touch', { uri });
        await heard.until(updates);
        if (stream === undefined) await client.unsubscribeResource({ uri });
        else await stream.close();
        await peer.text('touch', { uri });
        await peer.text('greet', { name: 'after' });
        const [first] = heard.notifications.filter(({ method }) => method === 'notifications/resources/updated');
        return [updates() === 1, first.params.uri];
    },

    async list_changed(peer) {
        const { client, heard } = peer;
        const kinds = ['prompts', 'resources', 'tools'];
        const changed = kind => heard.count(`notifications/${kind}/list_changed`) > 0;
        const filter = { toolsListChanged: true, promptsListChanged: true, resourcesListChanged: true };
        const stream = peer.modern ? await client.listen(filter) : undefined;
        const seen = [];
        for (const change of ['extend', 'shrink']) {
            heard.clear();
            await peer.text(change);
            await heard.until(() => kinds.every(changed));
            seen.push(kinds.filter(changed), await extras(peer));
        }
        await stream?.close();
        return seen;
    },

    pinged: ({ client }) => client.ping(),

    // HTTP

    /** The server ends the response early; the client comes back by itself. */
    async released(peer) {
        const resumed = [];
        const noting = notingFetch(({ method, headers }) => {
            if (headers.has('last-event-id')) resumed.push(method === 'GET');
        });
        const own = await peer.another({ transport: peer.transport({ fetch: noting }) });
        try {
            return [await own.text('break_off'), resumed];
        } finally {
            await own.close();
        }
    },

    /** The client loses its connection in the middle of a call, and comes back for the answer on another one. */
    async resumed(peer) {
        const name = `hold ${randomUUID()}`;
        const call = { name: 'hold', arguments: { name } };
        const lost = await peer.another();
        const { sessionId } = lost.transportInUse;
        const token = await new Promise((resolve, reject) => {
            let last;
            const options = {
                onresumptiontoken: token => (last = token),
                // The event's id is told before the event.
                onprogress: () => resolve(last),
            };
            peer.sdk.callTool(lost.client, call, options).then(reject, () => {}); // rejected by close()
        });
        await lost.close();
        await peer.text('let_go', { name });

        const found = new Peer(peer.sdk, peer.target, peer.revision);
        const transport = found.transport({ sessionId });
        transport.setProtocolVersion(peer.revision);
        await found.connect({ transport });
        try {
            const result = await peer.sdk.callTool(found.client, call, { resumptionToken: token });
            return textOf(result).replace(name, '');
        } finally {
            await found.transportInUse.terminateSession();
            await found.close();
        }
    },

    /** The client deletes its session; nobody can use it after that. */
    async ended(peer) {
        const statuses = [];
        const noteDelete = notingFetch(({ method, response }) => {
            if (method === 'DELETE') statuses.push(response.status);
        });
        const own = await peer.another({ transport: peer.transport({ fetch: noteDelete }) });
        const { sessionId } = own.transportInUse;
        await own.transportInUse.terminateSession();
        await own.close();

        const notePost = notingFetch(({ method, response }) => {
            if (method === 'POST') statuses.push(response.status);
        });
        const late = new Peer(peer.sdk, peer.target, peer.revision);
        const transport = late.transport({ sessionId, fetch: notePost });
        transport.setProtocolVersion(peer.revision);
        await late.connect({ transport });
        await failureOf(late.client.ping());
        await late.close();
        return statuses;
    },
};

async function within(milliseconds, promise) {
    let timer;
    const late = new Promise((_, reject) => {
        timer = setTimeout(() => reject(new Error(`not done in ${milliseconds} ms`)), milliseconds);
    });
    try {
        return await Promise.race([promise, late]);
    } finally {
        clearTimeout(timer);
    }
}

/** What each behaviour saw, by name: `{saw}` or `{failed}`. All on one connection. */
async function look(sdk, { target, revision, behaviours: names }) {
    const report = {};
    const peer = await within(WAIT_TIMEOUT, new Peer(sdk, target, revision).connect());
    for (const name of names) {
        peer.heard.clear();
        try {
            report[name] = { saw: await within(WAIT_TIMEOUT, behaviours[name](peer)) };
            for (const fault of peer.heard.faults) throw fault;
        } catch (error) {
            report[name] = { failed: error.stack ?? String(error) };
        }
    }
    if (target.url !== undefined && !peer.modern) await peer.transportInUse.terminateSession();
    await within(WAIT_TIMEOUT, peer.close());
    return report;
}

/** The runs of a plan: one revision after the other, at the same time those that do not share a server. */
export async function carryOut(sdk, plan) {
    const reports = Object.fromEntries(plan.map(({ name }) => [name, null]));
    const together = ({ revision, target }) => `${revision} ${target.sse !== undefined}`;
    for (const key of new Set(plan.map(together))) {
        const runs = plan.filter(run => together(run) === key);
        await Promise.all(runs.map(async run => (reports[run.name] = await look(sdk, run))));
    }
    console.log(JSON.stringify(reports));
}
