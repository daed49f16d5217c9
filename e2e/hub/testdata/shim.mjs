// Serves a stdio server on a socket: shim.mjs PORT|PATH COMMAND ARGS…
import fs from "node:fs";
import net from "node:net";
import { spawn } from "node:child_process";

const [at, command, ...args] = process.argv.slice(2);
const port = /^\d+$/.test(at) && Number(at);
const server = net.createServer((socket) => {
  const child = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
  for (const s of [socket, child.stdin, child.stdout]) s.on("error", () => {});
  socket.pipe(child.stdin);
  child.stdout.pipe(socket);
  socket.on("close", () => child.kill());
  child.on("exit", () => socket.destroy());
});
server.listen(port ? { port, host: "127.0.0.1" } : at, () => port || fs.chmodSync(at, 0o666));
