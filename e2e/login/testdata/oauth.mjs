// oauth.mjs PACKAGE URL: the TypeScript SDK's own OAuth client. It prints the
// authorization URL, reads where the browser landed, and uses the tools.
import { createInterface } from "node:readline";

const [pkg, url] = process.argv.slice(2);
const v1 = pkg.startsWith("sdk-");
const { Client, StreamableHTTPClientTransport } = v1
  ? { ...(await import(`${pkg}/client/index.js`)), ...(await import(`${pkg}/client/streamableHttp.js`)) }
  : await import(pkg);

const redirect = "http://localhost:7777/callback";
const kept = {};
const provider = {
  redirectUrl: redirect,
  clientMetadata: {
    client_name: "TypeScript SDK", redirect_uris: [redirect], token_endpoint_auth_method: "none",
    grant_types: ["authorization_code", "refresh_token"], response_types: ["code"],
  },
  state: () => "state",
  clientInformation: () => kept.client,
  saveClientInformation: (c) => { kept.client = c; },
  tokens: () => kept.tokens,
  saveTokens: (t) => { kept.tokens = t; },
  codeVerifier: () => kept.verifier,
  saveCodeVerifier: (v) => { kept.verifier = v; },
  redirectToAuthorization: (to) => { console.log(String(to)); },
};

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const first = new StreamableHTTPClientTransport(new URL(url), { authProvider: provider });
try {
  await new Client({ name: "e2e", version: "1" }).connect(first);
  throw new Error("connected without a token");
} catch (error) {
  if (!/unauthorized/i.test(String(error.name) + String(error.message))) throw error;
}
const landed = new URL((await lines.next()).value);
if (v1) await first.finishAuth(landed.searchParams.get("code"));
else await first.finishAuth(landed.searchParams);

async function visit() {
  const client = new Client({ name: "e2e", version: "1" });
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { authProvider: provider }));
  const { tools } = await client.listTools();
  await client.close();
  return tools.map((tool) => tool.name).sort();
}

const tools = await visit();
const before = kept.tokens.refresh_token;
kept.tokens = { ...kept.tokens, access_token: "expired" }; // the SDK refreshes after a 401
const again = await visit();
console.log(JSON.stringify({ tools, again, rotated: before !== kept.tokens.refresh_token }));
process.exit(0);
