// A certified OpenID provider (oidc-provider) and an MCP server that takes its tokens, in one process, for tests.
// Started with the address of the package and a JSON object of wishes; prints its address once it listens.
// What it counts is at /seen; what it does next can be set at /wish.
import http from "node:http";
import { createRequire } from "node:module";

const { default: Provider } = await import(process.argv[2]);
const jose = await import(createRequire(process.argv[2]).resolve("jose"));
const wishes = { port: 0, accessS: 3600, scopes: "mcp:read", register: true, ...JSON.parse(process.argv[3] ?? "{}") };
const seen = { tokens: 0, refreshes: 0, refreshing: 0, reuse: 0, unrefreshed: 0, revoked: 0, calls: 0, refused: 0 };
Object.assign(seen, { registered: 0, exchanged: [], asked: {}, unsigned: [], given: [] });
const server = http.createServer();
await new Promise((done) => server.listen(wishes.port, "127.0.0.1", done));
const issuer = `http://127.0.0.1:${server.address().port}`;
const resource = `${issuer}/mcp`;

const EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange";
const JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const ID_JAG = "urn:ietf:params:oauth:token-type:id-jag";
const resourceServer = () => ({
  scope: "openid offline_access mcp:read mcp:write",
  audience: resource,
  accessTokenFormat: "opaque",
  accessTokenTTL: wishes.accessS,
});
const keys = wishes.signs ? await jose.generateKeyPair("RS256", { extractable: true }) : null;

const provider = new Provider(issuer, {
  ...(keys && { jwks: { keys: [{ ...(await jose.exportJWK(keys.privateKey)), alg: "RS256", use: "sig", kid: "one" }] } }),
  clients: [
    {
      client_id: "by-hand",
      client_secret: "by-hand-secret-0123456789",
      redirect_uris: ["http://127.0.0.1:9/oauth/callback"],
      application_type: "native",
      grant_types: ["authorization_code", "refresh_token", "client_credentials", EXCHANGE, JWT_BEARER],
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
      getResourceServerInfo: resourceServer,
    },
  },
  issueRefreshToken: () => true,
  rotateRefreshToken: true,
  ttl: { Interaction: 600, Grant: 86400, Session: 86400, RefreshToken: 86400 },
});
provider.on("grant.success", (ctx) => {
  seen.tokens += 1;
  for (const kind of ["access_token", "refresh_token", "id_token"]) if (ctx.body[kind]) seen.given.push(ctx.body[kind]);
  if (ctx.oidc.params.grant_type === "refresh_token") seen.refreshes += 1;
});
provider.on("grant.error", (ctx, error) => {
  if (/already used/.test(error.error_detail ?? "")) seen.reuse += 1;
  if (ctx.oidc.params?.grant_type === "refresh_token") seen.unrefreshed += 1;
});
provider.on("refresh_token.destroyed", () => (seen.revoked += 1));
provider.on("access_token.destroyed", () => (seen.revoked += 1));
provider.on("registration_create.success", () => (seen.registered += 1));
const oidc = provider.callback();

// Grants of its own: a token for one that another issuer signed (RFC 8693), an assertion of who somebody is for another
// authorization server, and a token for such an assertion (RFC 7523).

const sign = (claims, type) =>
  new jose.SignJWT({ ...claims, jti: crypto.randomUUID() })
    .setProtectedHeader({ alg: "RS256", kid: "one", typ: type })
    .setIssuer(issuer)
    .setIssuedAt()
    .setExpirationTime("5m")
    .sign(keys.privateKey);

const verify = async (token, checks = {}) => {
  const trusted = wishes.idp ?? issuer;
  const known = jose.createRemoteJWKSet(new URL(`${trusted}/jwks`));
  return (await jose.jwtVerify(token, known, { issuer: trusted, ...checks })).payload;
};

const refuseGrant = (ctx, description) => {
  ctx.status = 400;
  ctx.body = { error: "invalid_grant", error_description: description };
};

async function giveToken(ctx, accountId, gty) {
  const { client, params } = ctx.oidc;
  const grant = new provider.Grant({ accountId, clientId: client.clientId });
  const scope = params.scope || wishes.scopes;
  grant.addResourceScope(resource, scope);
  const token = new provider.AccessToken({ accountId, client, grantId: await grant.save(), scope, gty });
  token.resourceServer = new provider.ResourceServer(resource, resourceServer());
  const access_token = await token.save();
  ctx.body = { access_token, token_type: "Bearer", expires_in: wishes.accessS, scope };
}

async function exchange(ctx) {
  const { params, client } = ctx.oidc;
  seen.exchanged.push({ ...params, subject_token: "", assertion: undefined });
  let subject;
  try {
    subject = await verify(params.subject_token);
  } catch (error) {
    return refuseGrant(ctx, `the subject token is not good: ${error.code}`);
  }
  if (params.requested_token_type !== ID_JAG) return giveToken(ctx, subject.sub, "exchange");
  const claims = { sub: subject.sub, aud: params.audience, resource: params.resource, client_id: client.clientId };
  const access_token = await sign({ ...claims, scope: params.scope }, "oauth-id-jag+jwt");
  ctx.body = { access_token, issued_token_type: ID_JAG, token_type: "N_A", expires_in: 300 };
}

async function forAssertion(ctx) {
  const { params, client } = ctx.oidc;
  try {
    const said = await verify(params.assertion, { audience: issuer, typ: "oauth-id-jag+jwt" });
    if (said.client_id !== client.clientId) return refuseGrant(ctx, "the assertion is for another client");
    if (said.resource !== resource) return refuseGrant(ctx, "the assertion is for another resource");
    await giveToken(ctx, said.sub, "assertion");
  } catch (error) {
    refuseGrant(ctx, `the assertion is not good: ${error.code}`);
  }
}

const about = ["subject_token", "subject_token_type", "requested_token_type", "audience", "scope", "resource"];
provider.registerGrantType(EXCHANGE, exchange, about);
provider.registerGrantType(JWT_BEARER, forAssertion, ["assertion", "scope", "resource"]);

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
  if (wishes.refusal) return res.writeHead(status, { "content-type": wishes.refusal.type }).end(wishes.refusal.body);
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
const echo = {
  name: "echo",
  description: "Says the same.",
  inputSchema: { type: "object", properties: { message: { type: "string" } } },
};
const touch = { name: "touch", description: "Changes the diary.", inputSchema: { type: "object" } };
const diary = { uri: "diary://today", name: "diary", mimeType: "text/plain" };
const streams = new Set();

// What there is beside tools; only where that is wished for.
const more = {
  "resources/list": () => ({ resources: [diary] }),
  "resources/templates/list": () => ({ resourceTemplates: [{ uriTemplate: "diary://{day}", name: "day" }] }),
  "resources/read": (params, who) => ({ contents: [{ uri: params.uri, mimeType: "text/plain", text: `of ${who}` }] }),
  "resources/subscribe": () => ({}),
  "resources/unsubscribe": () => ({}),
  "prompts/list": () => ({ prompts: [{ name: "greet", arguments: [{ name: "word", required: false }] }] }),
  "prompts/get": (_, who) => ({ messages: [{ role: "user", content: { type: "text", text: `for ${who}` } }] }),
  "completion/complete": (_, who) => ({ completion: { values: [who], hasMore: false } }),
};

function notify(method, params) {
  for (const stream of streams) stream.write(`data: ${JSON.stringify({ jsonrpc: "2.0", method, params })}\n\n`);
}

async function mcp(req, res) {
  const bearer = (req.headers.authorization ?? "").replace(/^Bearer /, "");
  const known = provider.AccessToken.find(bearer).then((found) => found ?? provider.ClientCredentials.find(bearer));
  const token = bearer ? await known : undefined;
  const body = req.method === "POST" ? JSON.parse(await read(req)) : { method: req.method };
  seen.asked[body.method] = (seen.asked[body.method] ?? 0) + 1;
  if (wishes.forbids && token) return refuse(res, 403, "");
  if (!token || token.isExpired) {
    seen.unsigned.push(body.method);
    return refuse(res, 401, bearer ? `, error="invalid_token"` : `, scope="${wishes.scopes}"`);
  }
  if (req.method === "GET" && wishes.full) {
    res.writeHead(200, { "content-type": "text/event-stream" }).flushHeaders();
    streams.add(res);
    return req.on("close", () => streams.delete(res));
  }
  if (req.method !== "POST") return json(res, 405, {});
  const { id, method, params } = body;
  if (id === undefined) return res.writeHead(202).end();
  const who = token.accountId ?? token.clientId;
  const answer = (result) => json(res, 200, { jsonrpc: "2.0", id, result });
  if (method === "initialize") {
    const serverInfo = { name: "protected", version: "1" };
    const beside = { resources: { subscribe: true, listChanged: true }, prompts: {}, completions: {} };
    const capabilities = { tools: {}, ...(wishes.full && beside) };
    return answer({ protocolVersion: "2025-11-25", capabilities, serverInfo });
  }
  if (method === "tools/list") return answer({ tools: wishes.full ? [...tools, echo, touch] : tools });
  if (wishes.full && more[method]) return answer(more[method](params, who));
  if (method !== "tools/call")
    return json(res, 200, { jsonrpc: "2.0", id, error: { code: -32601, message: "unknown method" } });
  if (params.name === "write" && !(token.scope ?? "").split(" ").includes("mcp:write"))
    return refuse(res, 403, `, error="insufficient_scope", scope="mcp:write"`);
  seen.calls += 1;
  if (params.name === "wait") await new Promise((done) => setTimeout(done, params.arguments.seconds * 1000));
  if (params.name === "touch") notify("notifications/resources/updated", { uri: diary.uri });
  const text = params.name === "echo" ? params.arguments.message : `${who} ${token.scope ?? ""}`;
  return answer({ content: [{ type: "text", text: wishes.leak ? `${text} ${bearer}` : text }] });
}

server.on("request", async (req, res) => {
  const path = req.url.split("?")[0];
  if (path === "/mcp") return mcp(req, res);
  if (path === "/seen") return json(res, 200, seen);
  if (path === "/wish") return json(res, 200, Object.assign(wishes, JSON.parse(await read(req))));
  if (wishes.issuer && path === "/.well-known/oauth-authorization-server")
    return json(res, 200, { issuer: wishes.issuer, token_endpoint: `${issuer}/token` });
  if (path === "/.well-known/oauth-protected-resource/mcp")
    return json(res, 200, { resource, authorization_servers: [issuer], scopes_supported: ["mcp:read"] });
  if (path === "/mint") return json(res, 200, { token: await sign(JSON.parse(await read(req)), "JWT") });
  if (wishes.tokenStatus && path === "/token") return json(res, wishes.tokenStatus, wishes.tokenAnswer ?? {});
  if (wishes.revokeStatus && path === "/token/revocation") return json(res, wishes.revokeStatus, wishes.tokenAnswer ?? {});
  if (wishes.tokenDelayS && path === "/token") {
    seen.refreshing += 1;
    await new Promise((done) => setTimeout(done, wishes.tokenDelayS * 1000));
    seen.refreshing -= 1;
  }
  return oidc(req, res);
});
process.stdout.write(`${issuer}\n`);
