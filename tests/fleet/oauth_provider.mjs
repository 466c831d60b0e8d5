// A certified OpenID provider (oidc-provider) and an MCP server that takes its tokens, in one process, for tests.
// Started with the address of the package and a JSON object of wishes; prints its address once it listens.
// What it counts is at /seen; what it does next can be set at /wish.
import http from "node:http";

const { default: Provider } = await import(process.argv[2]);
const wishes = { port: 0, accessS: 3600, scopes: "mcp:read", register: true, ...JSON.parse(process.argv[3] ?? "{}") };
const seen = { tokens: 0, refreshes: 0, reuse: 0, revoked: 0, calls: 0, refused: 0, bearers: [], registered: 0 };
const server = http.createServer();
await new Promise((done) => server.listen(wishes.port, "127.0.0.1", done));
const issuer = `http://127.0.0.1:${server.address().port}`;
const resource = `${issuer}/mcp`;

const provider = new Provider(issuer, {
  clients: [
    {
      client_id: "by-hand",
      client_secret: "by-hand-secret-0123456789",
      redirect_uris: ["http://127.0.0.1:9/oauth/callback"],
      application_type: "native",
      grant_types: ["authorization_code", "refresh_token", "client_credentials"],
    },
  ],
  scopes: ["openid", "offline_access", "mcp:read", "mcp:write"],
  claims: { openid: ["sub"], email: ["email"] },
  cookies: { keys: ["only-a-test"] },
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, email: `${id}@example.test` }) }),
  features: {
    registration: { enabled: wishes.register },
    revocation: { enabled: true },
    clientCredentials: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => resource,
      useGrantedResource: () => true,
      getResourceServerInfo: () => ({
        scope: "openid offline_access mcp:read mcp:write",
        audience: resource,
        accessTokenFormat: "opaque",
        accessTokenTTL: wishes.accessS,
      }),
    },
  },
  issueRefreshToken: () => true,
  rotateRefreshToken: true,
  ttl: { Interaction: 600, Grant: 86400, Session: 86400, RefreshToken: 86400 },
});
provider.on("grant.success", (ctx) => {
  seen.tokens += 1;
  if (ctx.oidc.params.grant_type === "refresh_token") seen.refreshes += 1;
});
provider.on("grant.error", (ctx, error) => {
  if (/already used/.test(error.error_detail ?? "")) seen.reuse += 1;
});
provider.on("refresh_token.destroyed", () => (seen.revoked += 1));
provider.on("access_token.destroyed", () => (seen.revoked += 1));
provider.on("registration_create.success", () => (seen.registered += 1));
const oidc = provider.callback();

const json = (res, status, body, headers = {}) => {
  res.writeHead(status, { "content-type": "application/json", ...headers });
  res.end(JSON.stringify(body));
};

const read = async (req) => {
  const parts = [];
  for await (const part of req) parts.push(part);
  return Buffer.concat(parts).toString();
};

const refuse = (res, status, more) => {
  seen.refused += 1;
  const metadata = `${issuer}/.well-known/oauth-protected-resource/mcp`;
  const body = { jsonrpc: "2.0", id: null, error: { code: -32001, message: "not signed in" } };
  json(res, status, body, { "www-authenticate": `Bearer resource_metadata="${metadata}"${more}` });
};

const tools = [
  { name: "whoami", description: "Who is signed in.", inputSchema: { type: "object" } },
  { name: "write", description: "Needs the scope mcp:write.", inputSchema: { type: "object" } },
  {
    name: "wait",
    description: "Takes a while.",
    inputSchema: { type: "object", properties: { seconds: { type: "number" } } },
  },
];

async function mcp(req, res) {
  const bearer = (req.headers.authorization ?? "").replace(/^Bearer /, "");
  const token = bearer && (await provider.AccessToken.find(bearer)) || (bearer && (await provider.ClientCredentials.find(bearer)));
  if (!token || token.isExpired) return refuse(res, 401, bearer ? `, error="invalid_token"` : `, scope="${wishes.scopes}"`);
  if (req.method !== "POST") return json(res, 405, {});
  const message = JSON.parse(await read(req));
  if (message.id === undefined) return res.writeHead(202).end();
  const answer = (result) => json(res, 200, { jsonrpc: "2.0", id: message.id, result });
  if (message.method === "initialize") {
    const info = { name: "protected", version: "1" };
    return answer({ protocolVersion: "2025-11-25", capabilities: { tools: {} }, serverInfo: info });
  }
  if (message.method === "tools/list") return answer({ tools });
  if (message.method !== "tools/call")
    return json(res, 200, { jsonrpc: "2.0", id: message.id, error: { code: -32601, message: "unknown method" } });
  if (message.params.name === "write" && !(token.scope ?? "").split(" ").includes("mcp:write"))
    return refuse(res, 403, `, error="insufficient_scope", scope="mcp:write"`);
  seen.calls += 1;
  if (message.params.name === "wait") await new Promise((done) => setTimeout(done, message.params.arguments.seconds * 1000));
  const text = `${token.accountId ?? token.clientId} ${token.scope ?? ""}`;
  return answer({ content: [{ type: "text", text: wishes.leak ? `${text} ${bearer}` : text }] });
}

server.on("request", async (req, res) => {
  const path = req.url.split("?")[0];
  if (path === "/mcp") return mcp(req, res);
  if (path === "/seen") return json(res, 200, seen);
  if (path === "/wish") return json(res, 200, Object.assign(wishes, JSON.parse(await read(req))));
  if (path === "/.well-known/oauth-protected-resource/mcp")
    return json(res, 200, { resource, authorization_servers: [issuer], scopes_supported: ["mcp:read"] });
  if (wishes.tokenStatus && path === "/token") return json(res, wishes.tokenStatus, {});
  return oidc(req, res);
});
process.stdout.write(`${issuer}\n`);
