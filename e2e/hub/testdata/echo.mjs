// Calls the tool "echo" with one of the TypeScript SDKs: echo.mjs PACKAGE sse|mcp URL, token in TOKEN.
const [pkg, how, base] = process.argv.slice(2);
const client2 = pkg === "@modelcontextprotocol/client";
const load = (path) => import(client2 ? pkg : `${pkg}/client/${path}.js`);
const { Client } = await load("index");
const { SSEClientTransport } = await load("sse");
const { StreamableHTTPClientTransport } = await load("streamableHttp");
const requestInit = { headers: { Authorization: `Bearer ${process.env.TOKEN}` } };
const url = new URL(`${base}/${how}`);
const transport = how === "sse" ? new SSEClientTransport(url, { requestInit }) : new StreamableHTTPClientTransport(url, { requestInit });
const client = new Client({ name: "e2e", version: "1" }, client2 ? { versionNegotiation: { mode: "auto" } } : {});
await client.connect(transport);
const { tools } = await client.listTools();
const { content } = await client.callTool({ name: "echo", arguments: { message: "from " + pkg } });
console.log(JSON.stringify({ tools: tools.length, text: content[0].text }));
await client.close();
