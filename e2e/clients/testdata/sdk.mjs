// Lists and calls the three tools with one of the TypeScript SDK clients.
// Arguments: the package's folder in node_modules, sse or mcp, the base URL.
// Prints {tools, protocol, text} as JSON; the token is in $TOKEN.
const [pkg, how, base] = process.argv.slice(2);
const v2 = pkg === "@modelcontextprotocol/client";
const load = (path) => import(v2 ? pkg : `${pkg}/client/${path}.js`);
const { Client } = await load("index");
const headers = { Authorization: `Bearer ${process.env.TOKEN}` };
const url = new URL(`${base}/${how}`);

let transport;
if (how === "sse") {
  const { SSEClientTransport } = await load("sse");
  transport = new SSEClientTransport(url, { requestInit: { headers } });
} else {
  const { StreamableHTTPClientTransport } = await load("streamableHttp");
  transport = new StreamableHTTPClientTransport(url, { requestInit: { headers } });
}

const options = v2 && how === "mcp" ? { versionNegotiation: { mode: "auto" } } : {};
const client = new Client({ name: "sallyport-e2e", version: "1" }, options);
await client.connect(transport);
const { tools } = await client.listTools();
const call = (name, args) => client.callTool({ name, arguments: args });
const file = `from-${process.pid}.txt`;
const wrote = await call("write_file", { path: file, content: "written by a real client\n" });
const ran = await call("run_command", { command: `cat ${file}` });
const read = await call("read_file", { path: file });
const protocol = client.getNegotiatedProtocolVersion?.() ?? transport.protocolVersion ?? "";
console.log(JSON.stringify({
  tools: tools.map((t) => t.name).sort(),
  protocol,
  bytes: wrote.structuredContent?.bytes_written,
  stdout: ran.structuredContent?.stdout,
  content: read.structuredContent?.content,
}));
await client.close();
process.exit(0);
