// Asks a gateway with the official clients for Node: node node_clients.mjs URL. The packages are found through the
// folder of JANUS_NODE_CLIENTS. Prints one JSON object with what they returned.
import { createRequire } from 'node:module';

const require = createRequire(process.env.JANUS_NODE_CLIENTS + '/');
const Anthropic = require('@anthropic-ai/sdk').default;
const OpenAI = require('openai').default;

const url = process.argv[2];
const openai = new OpenAI({ baseURL: url + '/v1', apiKey: 'none', maxRetries: 0 });
const anthropic = new Anthropic({ baseURL: url, apiKey: 'none', maxRetries: 0 });
const call = '<tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call>';
const schema = { type: 'object', properties: { a: { type: 'integer' } } };

const asked = (content) => ({ model: 'tiny', max_tokens: 200, temperature: 0, messages: [{ role: 'user', content }] });
const tools = { tools: [{ name: 'add', input_schema: schema }] };
const functions = { tools: [{ type: 'function', name: 'add', parameters: schema, strict: false }] };
const input = (content) => ({ model: 'tiny', temperature: 0, input: content });
const failure = async (promise) => {
  try {
    await promise;
  } catch (error) {
    return { status: error.status, name: error.constructor.name, type: error.code ?? error.type };
  }
  return null;
};

const chat = [];
for await (const chunk of await openai.chat.completions.create({ ...asked('Good.'), stream: true })) {
  chat.push(chunk.choices[0]?.delta?.content ?? '');
}
const events = [];
for await (const event of await openai.responses.create({ ...input('So: ' + call), ...functions, stream: true })) {
  events.push(event);
}
const message = anthropic.messages.stream({ ...asked('So: ' + call), ...tools });

console.log(JSON.stringify({
  chat: chat.join(''),
  message: await anthropic.messages.create(asked('Good.')),
  streamed: await message.finalMessage(),
  count: (await anthropic.messages.countTokens({ model: 'tiny', messages: asked('Good.').messages })).input_tokens,
  refused: await failure(anthropic.messages.create({ ...asked('Good.'), model: 'other' })),
  response: (await openai.responses.create(input('Good.'))).output_text,
  helped: (await openai.responses.stream(input('Good.')).finalResponse()).output_text,
  last: events.at(-1),
  forgotten: await failure(openai.responses.create({ ...input('Good.'), previous_response_id: 'resp_1' })),
}));
