// Preloaded (--import) into the conformance suite, which has no option for headers: adds
// MCP_AUTHORIZATION to every request to MCP_ORIGIN, by whichever of three ways it is made.

import http from "node:http";
import { createRequire, syncBuiltinESMExports } from "node:module";

const authorization = process.env.MCP_AUTHORIZATION;
const origin = process.env.MCP_ORIGIN;

const isOurs = (url) => new URL(url).origin === origin;

const { fetch } = globalThis;
globalThis.fetch = (input, init) => {
  const request = new Request(input, init);
  if (isOurs(request.url) && !request.headers.has("authorization")) {
    request.headers.set("authorization", authorization);
  }
  return fetch(request);
};

// A CommonJS module shows importers what its exports hold when it is first imported: now.
const undici = createRequire(import.meta.url)("undici");
const { request } = undici;
undici.request = (url, options = {}) => {
  if (!isOurs(url)) return request(url, options);
  const headers = Array.isArray(options.headers)
    ? [...options.headers, "authorization", authorization]
    : { authorization, ...options.headers };
  return request(url, { ...options, headers });
};

const { request: httpRequest } = http;
http.request = (...args) => {
  const outgoing = httpRequest(...args);
  const [to] = args;
  const isOptions = typeof to === "object" && !(to instanceof URL);
  const url = isOptions ? `http://${to.hostname ?? to.host}:${to.port ?? 80}` : to;
  if (isOurs(url) && !outgoing.hasHeader("authorization")) {
    outgoing.setHeader("authorization", authorization);
  }
  return outgoing;
};
http.get = (...args) => http.request(...args).end();
syncBuiltinESMExports();
