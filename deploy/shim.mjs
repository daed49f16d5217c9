// Serves a stdio MCP server on a socket, one process per connection, for mcp.json's
// types unix and tcp (docs/mcp-json.md):
//
//	node shim.mjs PATH|[HOST:]PORT COMMAND ARGS…
import fs from "node:fs";
import net from "node:net";
import { spawn } from "node:child_process";

const [at, command, ...args] = process.argv.slice(2);
const [, host, port] = /^(?:(.+):)?(\d+)$/.exec(at) ?? [];
const server = net.createServer((socket) => {
  const child = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
  for (const s of [socket, child.stdin, child.stdout]) s.on("error", () => {});
  child.on("error", (why) => { console.error(`${command}: ${why.message}`); socket.destroy(); });
  socket.pipe(child.stdin);
  child.stdout.pipe(socket);
  socket.on("close", () => child.kill());
  child.on("exit", () => socket.destroy());
});
process.on("SIGTERM", () => process.exit(0)); // as a container's first process it has no default
if (port) {
  server.listen({ port: Number(port), host: host ?? "127.0.0.1" });
} else {
  if (fs.lstatSync(at, { throwIfNoEntry: false })?.isSocket()) fs.unlinkSync(at); // of the run before
  // The hub is another user; who may come to it at all is decided by its folder.
  server.listen(at, () => fs.chmodSync(at, 0o666));
}
