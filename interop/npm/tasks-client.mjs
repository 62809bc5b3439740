// A client made with the second generation of the TypeScript SDK and the official client of the tasks extension.

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { createTaskSessionFromClient, resultFromTaskOutcome } from '@modelcontextprotocol/ext-tasks/client';
import { TaskStatusNotificationV2Schema } from '@modelcontextprotocol/ext-tasks/core/v2';
import { readArguments } from './arguments.mjs';
import { report } from './use/observe.mjs';

const { where } = readArguments('tasks-client.mjs http URL');
const url = where[0];
const protocolVersion = '2026-07-28';
const clientInfo = { name: 'interop-tasks-client', version: '1.0.0' };
const clientCapabilities = { elicitation: { form: {} }, extensions: { 'io.modelcontextprotocol/tasks': {} } };
let id = 0;

// post sends a request of 2026-07-28, and returns the messages of the response.
async function post({ method, params }, last) {
    const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream', 'mcp-protocol-version': protocolVersion, 'mcp-method': method };
    const name = params.name ?? params.taskId;
    if (name) headers['mcp-name'] = name;
    const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify({ jsonrpc: '2.0', id: ++id, method, params }) });
    if (response.headers.get('content-type') === 'application/json') return [await response.json()];
    const messages = [];
    let text = '';
    for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
        text += chunk;
        for (let end = text.indexOf('\n'); end >= 0; end = text.indexOf('\n')) {
            if (text.startsWith('data:')) messages.push(JSON.parse(text.slice(5, end)));
            text = text.slice(end + 1);
        }
        if (last?.(messages.at(-1))) break;
    }
    return messages;
}

// rawDispatch sends the requests of the extension, which the SDK does not know.
async function rawDispatch(request) {
    const message = (await post(request)).at(-1);
    return message.error ? { kind: 'error', error: message.error } : { kind: 'result', result: message.result };
}

// watch returns whether the extension's schema accepts the notification that a task has completed.
async function watch(taskId) {
    const _meta = { 'io.modelcontextprotocol/protocolVersion': protocolVersion, 'io.modelcontextprotocol/clientInfo': clientInfo, 'io.modelcontextprotocol/clientCapabilities': clientCapabilities };
    const messages = await post({ method: 'subscriptions/listen', params: { notifications: { taskIds: [taskId] }, _meta } }, m => m?.params?.status === 'completed');
    return TaskStatusNotificationV2Schema.parse(messages.at(-1)).params.result;
}

await report(async () => {
    const client = new Client(clientInfo, { capabilities: clientCapabilities, versionNegotiation: { mode: { pin: protocolVersion } } });
    await client.connect(new StreamableHTTPClientTransport(new URL(url)));
    const questions = [];
    const session = createTaskSessionFromClient(client, {
        endpointId: 'parley',
        rawDispatch,
        v2RequestFraming: { protocolVersion, clientInfo, clientCapabilities },
        onInputRequest: request => {
            questions.push(request.params.message);
            return { action: 'accept', content: { name: 'Ada' } };
        },
    });
    const execution = await session.callTool('job', {});
    const notified = watch(execution.handle.taskId);
    const outcome = await execution.result();
    const result = resultFromTaskOutcome(outcome);
    const seen = { kind: execution.kind, questions, result, notified: await notified };
    await session.close();
    await client.close();
    return seen;
});
