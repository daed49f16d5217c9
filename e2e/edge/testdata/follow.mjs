// follow.mjs WHAT URL: what Node's fetch and the TypeScript SDK do with what a
// server tells them to follow. TOKEN is the client's token.
import { SSEClientTransport } from 'sdk-1-32/client/sse.js'

const [what, url] = process.argv.slice(2)
const headers = { Authorization: `Bearer ${process.env.TOKEN}`, 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream' }
const ping = { jsonrpc: '2.0', id: 1, method: 'ping' }

if (what === 'redirect') {
  const answer = await fetch(url, { method: 'POST', headers, body: JSON.stringify(ping) })
  console.log(answer.status, new URL(answer.url).pathname)
} else {
  // The server sends its later events first and answers nothing; then a message
  // is posted to whatever the transport takes for its endpoint.
  const transport = new SSEClientTransport(new URL(url), { requestInit: { headers }, eventSourceInit: { fetch: (u, init) => fetch(u, { ...init, headers: { ...init.headers, ...headers } }) } })
  let seen
  const message = new Promise(resolve => { seen = resolve })
  transport.onmessage = seen
  transport.onerror = seen
  transport.onclose = seen
  try {
    await Promise.race([transport.start(), new Promise((_, reject) => setTimeout(() => reject(new Error('no endpoint')), 5000))])
    await message
    await transport.send(ping)
    console.log('posted')
  } catch (err) {
    console.log('failed', err.message)
  }
  process.exit(0)
}
