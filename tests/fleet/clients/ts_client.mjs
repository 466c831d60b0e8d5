// The official TypeScript SDK as a client: 1.x (handshake era) or 2.x (both). The same operations, and the same JSON on
// stdout, as `conversation.py` has them for Python.
//
//     node ts_client.mjs PACKAGES MAJOR legacy|modern --url URL|--stdio '["toolcrib", "stdio"]' '[{"op": "offers", ...}]'
//
// PACKAGES is the folder whose node_modules has the SDK.

import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const [packages, major, mode, way, where, operations] = process.argv.slice(2);
const require = createRequire(`${packages}/package.json`);
const load = async (name) => await import(pathToFileURL(require.resolve(name)));
const ABLE = { elicitation: {}, sampling: {}, roots: {} };
const WAIT_MS = 150_000;

async function sdk() {
  if (major === '1') {
    const base = '@modelcontextprotocol/sdk';
    const schemas = await load(`${base}/types.js`);
    return {
      ...(await load(`${base}/client/index.js`)),
      ...(await load(`${base}/client/stdio.js`)),
      ...(await load(`${base}/client/streamableHttp.js`)),
      updated: schemas.ResourceUpdatedNotificationSchema,
      logged: schemas.LoggingMessageNotificationSchema,
      asked: [schemas.ElicitRequestSchema, schemas.CreateMessageRequestSchema, schemas.ListRootsRequestSchema],
    };
  }
  return {
    ...(await load('@modelcontextprotocol/client')),
    ...(await load('@modelcontextprotocol/client/stdio')),
    updated: 'notifications/resources/updated',
    logged: 'notifications/message',
    asked: ['elicitation/create', 'sampling/createMessage', 'roots/list'],
  };
}

class Queue {
  #items = [];
  #waiting = [];
  put(item) {
    const next = this.#waiting.shift();
    if (next) next(item);
    else this.#items.push(item);
  }
  get() {
    return new Promise((resolve, reject) => {
      if (this.#items.length) return resolve(this.#items.shift());
      setTimeout(() => reject(new Error('nothing was heard')), WAIT_MS).unref();
      this.#waiting.push(resolve);
    });
  }
}

async function outcome(asking) {
  try {
    return { result: await asking };
  } catch (error) {
    return { error: { code: error.code, message: error.message } };
  }
}

const LISTS = {
  resources: ['listResources', 'resources'],
  templates: ['listResourceTemplates', 'resourceTemplates'],
  prompts: ['listPrompts', 'prompts'],
};

class Session {
  constructor(client, isModern) {
    this.client = client;
    this.isModern = isModern;
    this.changed = new Queue();
    this.logged = new Queue();
  }

  hear({ updated, logged, asked }) {
    const answers = [
      { action: 'accept', content: { name: 'Ann' } },
      { role: 'assistant', model: 'journey', content: { type: 'text', text: 'a sample' } },
      { roots: [{ uri: 'file:///journey', name: 'journey' }] },
    ];
    asked.forEach((kind, index) => this.client.setRequestHandler(kind, () => answers[index]));
    this.client.setNotificationHandler(updated, (note) => this.changed.put(note.params.uri));
    this.client.setNotificationHandler(logged, (note) => this.logged.put(note.params));
  }

  async offers({ kind }) {
    const [method, field] = LISTS[kind];
    let offers = [];
    let cursor;
    do {
      const page = await this.client[method](cursor ? { cursor } : {});
      offers = offers.concat(page[field]);
      cursor = page.nextCursor;
    } while (cursor);
    return { offers };
  }

  read({ uri }) {
    return outcome(this.client.readResource({ uri }));
  }

  get({ prompt, arguments: given = {} }) {
    return outcome(this.client.getPrompt({ name: prompt, arguments: given }));
  }

  complete({ ref, argument }) {
    return outcome(this.client.complete({ ref, argument }));
  }

  call({ tool, arguments: given = {}, level }) {
    const meta = level && this.isModern ? { _meta: { 'io.modelcontextprotocol/logLevel': level } } : {};
    return outcome(this.client.callTool({ name: tool, arguments: given, ...meta }));
  }

  async watch(operation) {
    const { uri } = operation;
    const stream = this.isModern ? await this.client.listen({ resourceSubscriptions: [uri] }) : undefined;
    if (!stream) await this.client.subscribeResource({ uri });
    await this.call(operation);
    const told = await this.changed.get();
    await this.call(operation);
    await (stream ? stream.close() : this.client.unsubscribeResource({ uri }));
    return { told };
  }

  async log(operation) {
    if (!this.isModern) await this.client.setLoggingLevel(operation.level);
    await this.call(operation);
    const message = await this.logged.get();
    await this.call(operation);
    return { message };
  }
}

const kit = await sdk();
const isModern = mode === 'modern';
const negotiation = major === '2' ? { versionNegotiation: { mode: isModern ? { pin: '2026-07-28' } : 'legacy' } } : {};
const client = new kit.Client({ name: 'journey', version: '1' }, { capabilities: ABLE, ...negotiation });
const session = new Session(client, isModern);
session.hear(kit);
const [command, ...args] = way === '--stdio' ? JSON.parse(where) : [];
const transport = command
  ? new kit.StdioClientTransport({ command, args, env: process.env, stderr: 'ignore' })
  : new kit.StreamableHTTPClientTransport(new URL(where));
await client.connect(transport);
const outcomes = [];
for (const operation of JSON.parse(operations)) outcomes.push(await session[operation.op](operation));
const about = { server: client.getServerVersion?.()?.name, instructions: client.getInstructions?.() };
process.stdout.write(JSON.stringify({ ...about, outcomes }));
await client.close();
process.exit(0);
