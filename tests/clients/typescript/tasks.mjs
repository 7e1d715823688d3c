// The tasks client of the TypeScript SDK: `node tasks.mjs PACKAGES URL`. Writes what each call came to, as JSON.
//
// Its SDK client rejects results of tasks, so the host sends the requests: one POST each, as the package asks for.
//
// Source: @modelcontextprotocol/ext-tasks, the version pinned in package.json.

import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const [packages, url] = process.argv.slice(2);
const require = createRequire(join(packages, 'package.json'));
const { Client, StreamableHTTPClientTransport } = require('@modelcontextprotocol/client');
const entry = join(packages, 'node_modules/@modelcontextprotocol/ext-tasks/dist/client/index.js');
const { createTaskSessionFromClient } = await import(pathToFileURL(entry));

const REVISION = '2026-07-28';
const INFO = { name: 'ext-tasks', version: '1' };
const CAPABILITIES = { elicitation: {}, extensions: { 'io.modelcontextprotocol/tasks': {} } };
let lastId = 1_000_000;

async function send(request, options) {
    const id = ++lastId;
    const name = request.params.taskId ?? request.params.name;
    const response = await fetch(url, {
        method: 'POST',
        headers: {
            'content-type': 'application/json',
            accept: 'application/json, text/event-stream',
            'mcp-protocol-version': REVISION,
            'mcp-method': request.method,
            ...(name === undefined ? {} : { 'mcp-name': name }),
        },
        body: JSON.stringify({ ...request, jsonrpc: '2.0', id }),
        signal: options?.signal,
    });
    const text = await response.text();
    const messages = response.headers.get('content-type').startsWith('text/event-stream')
        ? text.split('\n').filter(line => line.startsWith('data: ')).map(line => JSON.parse(line.slice(6)))
        : [JSON.parse(text)];
    const answer = messages.find(message => message.id === id);
    return answer.error ? { kind: 'error', error: answer.error } : { kind: 'result', result: answer.result };
}

const client = new Client(INFO, { capabilities: CAPABILITIES, versionNegotiation: { mode: { pin: REVISION } } });
await client.connect(new StreamableHTTPClientTransport(new URL(url)));
const questions = [];
const session = createTaskSessionFromClient(client, {
    endpointId: 'mcptrio',
    rawDispatch: send,
    v2RequestFraming: { protocolVersion: REVISION, clientInfo: INFO, clientCapabilities: CAPABILITIES },
    onInputRequest: async request => {
        questions.push(request.params.message);
        const properties = Object.entries(request.params.requestedSchema.properties);
        const content = Object.fromEntries(
            properties.map(([key, schema]) => [key, schema.type === 'boolean' ? true : `someone ${questions.length}`]),
        );
        return { action: 'accept', content };
    },
});

const report = {};
async function call(name, params = {}) {
    const execution = await session.callTool(name, params);
    const { outcome } = await execution.settle();
    report[name] = {
        kind: execution.kind,
        status: outcome.status,
        ...(outcome.result ? { text: outcome.result.content[0].text, isError: outcome.result.isError ?? false } : {}),
        ...(outcome.error ? { message: outcome.error.message } : {}),
    };
}
await call('greet', { name: 'Ada' });
await call('slow_compute', { seconds: 0.5, label: 'x' });
await call('failing_job');
await call('protocol_error_job');
await call('confirm_delete', { filename: 'a.txt' });
await call('multi_input');
await call('test_tool_with_task');
const long = await session.callTool('slow_compute', { seconds: 600 });
await long.cancel();
report.cancelled = { status: (await long.settle()).outcome.status };
report.questions = questions.sort();
await session.close();
await client.close();
console.log(JSON.stringify(report));
