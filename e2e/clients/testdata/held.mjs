// Makes calls that wait for the owner, with one of the TypeScript SDK clients.
// Arguments: the package's folder in node_modules, sse or mcp, the base URL, and
// the cases, each run at once with the others, "deny" before them, so that fewer wait.
// Prints {case: {text, isError, progress, seconds}} as JSON; the token is in $TOKEN.
// The case "pending" repeats its call once, "again" until it has an answer.
const [pkg, how, base, ...cases] = process.argv.slice(2);
const v2 = pkg === "@modelcontextprotocol/client";
const load = (path) => import(v2 ? pkg : `${pkg}/client/${path}.js`);
const { Client } = await load("index");
const headers = { Authorization: `Bearer ${process.env.TOKEN}` };
const at = base.includes("/mcp-hub/") ? "-" + base.split("/").pop() : ""; // notes, a server, or hub, all of them
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
await client.listTools();

const run = async (name) => {
  const seen = { progress: 0 };
  const more = name.startsWith("progress")
    ? { onprogress: () => seen.progress++, resetTimeoutOnProgress: true, timeout: 60000 }
    : {};
  const args = { command: `echo ${name}-${pkg.replace(/\W/g, "")}-${how}${at}` };
  const params = {
    "": { name: "run_command", arguments: args },
    "-notes": { name: "save", arguments: args },
    "-hub": { name: "call_tool", arguments: { server: "notes", tool: "save", arguments: args } },
  }[at];
  const began = Date.now();
  const call = () => (v2 ? client.callTool(params, more) : client.callTool(params, undefined, more));
  try {
    let result = await call();
    seen.first = result.content[0].text;
    const repeats = { pending: 1, again: 5 }[name] ?? 0;
    for (let n = 0; n < repeats && result.isError; n++) result = await call();
    return { ...seen, seconds: (Date.now() - began) / 1000, text: result.content[0].text, isError: !!result.isError };
  } catch (error) {
    return { ...seen, seconds: (Date.now() - began) / 1000, text: String(error), isError: true };
  }
};
const results = {};
const into = async (name) => { results[name] = await run(name); };
await into("deny");
await Promise.all(cases.filter((name) => name !== "deny").map(into));
console.log(JSON.stringify(results));
await client.close();
process.exit(0);
