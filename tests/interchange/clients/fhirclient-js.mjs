// fhirclient.js (SMART's client for JavaScript), R4 and STU3: its server side, signed in by code with PKCE.
import smart from 'fhirclient';
import { browse, resources, task, walk } from './walk.mjs';

const kept = {};
const storage = { get: async (key) => kept[key], set: async (key, value) => (kept[key] = value), unset: async (key) => delete kept[key] };
const json = { 'content-type': 'application/fhir+json' };
const state = () => kept[kept.SMART_KEY];
let client;

/** Stand where a web server stands: a request for a URL, and the address that its answer redirects to. */
function at(url) {
  const { host, pathname, search } = new URL(url);
  const answer = { writeHead: (_, { location }) => (answer.location = location), end: () => {} };
  const request = { url: pathname + search, headers: { host }, socket: {} };
  return { api: smart(request, answer, storage), answer };
}

const send = (method, url, body, headers = {}) =>
  client.request({ url, method, body: JSON.stringify(body), headers: { ...json, ...headers } });
const found = async (query) => resources(await client.request(query));

await walk({
  discovery: async () => {
    const { client: clientId, redirect: redirectUri, scope } = task.given['authorization code'];
    const { api, answer } = at(redirectUri);
    await api.authorize({ iss: task.base, clientId, redirectUri, scope, pkceMode: 'required' });
    kept.url = answer.location;
    return { authorize: state().authorizeUri, token: state().tokenUri };
  },
  'authorization code': async () => {
    client = await at(await browse(kept.url)).api.ready();
    return { token: client.state.tokenResponse.access_token };
  },
  create: ({ resource }) => client.create(resource),
  read: ({ id }) => client.request(`Patient/${id}`),
  update: ({ resource }) => client.update(resource),
  vread: ({ id, version }) => client.request(`Patient/${id}/_history/${version}`),
  history: ({ id }) => found(`Patient/${id}/_history`),
  search: ({ query }) => found(`Patient?${new URLSearchParams(query)}`),
  page: async ({ query }) => {
    const all = [];
    for await (const page of client.pages(`Patient?${new URLSearchParams(query)}`)) all.push(resources(page));
    return all;
  },
  _include: ({ patient, include }) => found(`Observation?${new URLSearchParams({ patient, _include: include })}`),
  'conditional create': async ({ resource, query }) => {
    const twice = () => client.create(resource, { headers: { 'If-None-Exist': `${new URLSearchParams(query)}` } });
    return [await twice(), await twice()];
  },
  'conditional update': async ({ first, second, query }) => {
    const put = (resource) => send('PUT', `Patient?${new URLSearchParams(query)}`, resource);
    return [await put(first), await put(second)];
  },
  patch: ({ id, patch }) => client.patch(`Patient/${id}`, patch),
  delete: async ({ id }) => void (await client.delete(`Patient/${id}`)),
  transaction: ({ bundle }) => send('POST', task.base, bundle),
  $everything: ({ id }) => found(`Patient/${id}/$everything`),
  $merge: ({ parameters }) => send('POST', 'Patient/$merge', parameters),
});
