// fhir-kit-client, R4 and STU3: has no sign-in, so the token is asked for at the address that it found.
import { Client } from 'fhir-kit-client';
import { resources, task, walk } from './walk.mjs';

const client = new Client({ baseUrl: task.base });
const resourceType = 'Patient';

async function signIn(tokenUrl) {
  const fields = { grant_type: 'client_credentials', client_id: task.client, client_secret: task.secret };
  const answer = await fetch(tokenUrl, { method: 'POST', body: new URLSearchParams(fields) });
  client.bearerToken = (await answer.json()).access_token;
}

async function pages(searchParams) {
  const found = [];
  for (let page = await client.search({ resourceType, searchParams }); page; page = await client.nextPage({ bundle: page })) {
    found.push(resources(page));
  }
  return found;
}

await walk({
  discovery: async () => {
    const { authorizeUrl, tokenUrl } = await client.smartAuthMetadata();
    await signIn(tokenUrl);
    return { authorize: authorizeUrl, token: tokenUrl };
  },
  create: ({ resource }) => client.create({ resourceType, body: resource }),
  read: ({ id }) => client.read({ resourceType, id }),
  update: ({ id, resource }) => client.update({ resourceType, id, body: resource }),
  vread: ({ id, version }) => client.vread({ resourceType, id, version }),
  history: async ({ id }) => resources(await client.history({ resourceType, id })),
  search: async ({ query }) => resources(await client.search({ resourceType, searchParams: query })),
  page: ({ query }) => pages(query),
  _include: async ({ patient, include }) => {
    const searchParams = { patient, _include: include };
    return resources(await client.search({ resourceType: 'Observation', searchParams }));
  },
  'conditional create': async ({ resource, query }) => {
    const twice = () => client.create({ resourceType, body: resource, options: { headers: { 'If-None-Exist': `${new URLSearchParams(query)}` } } });
    return [await twice(), await twice()];
  },
  'conditional update': async ({ first, second, query }) => {
    const put = (body) => client.update({ resourceType, searchParams: query, body });
    return [await put(first), await put(second)];
  },
  patch: ({ id, patch }) => client.patch({ resourceType, id, jsonPatch: patch }),
  delete: async ({ id }) => void (await client.delete({ resourceType, id })),
  transaction: ({ bundle }) => client.transaction({ body: bundle }),
  $everything: async ({ id }) => resources(await client.operation({ resourceType, id, name: '$everything', method: 'GET' })),
  $merge: ({ parameters }) => client.operation({ resourceType, name: '$merge', input: parameters }),
});
