// The official SDK of Node.js, 1.x, as a client of HTTP+SSE: node sse_client.mjs SDK URL TOOL ARGUMENTS
const [sdk, url, tool, given] = process.argv.slice(2);
const { Client } = await import(`${sdk}/client/index.js`);
const { SSEClientTransport } = await import(`${sdk}/client/sse.js`);

const client = new Client({ name: "node", version: "1" });
const notices = [];
await client.connect(new SSEClientTransport(new URL(url)));
const listed = await client.listTools();
const onprogress = (progress) => notices.push(progress.progress);
const result = await client.callTool({ name: tool, arguments: JSON.parse(given) }, undefined, { onprogress });
console.log(JSON.stringify({ tools: listed.tools.map((each) => each.name), result, notices }));
await client.close();
