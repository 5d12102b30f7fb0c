// @medplum/core, R4: signs in by its secret, and once more as an app that its user opens in a browser.
import { MedplumClient } from '@medplum/core';
import { browse, resources, task, walk } from './walk.mjs';

// What its PKCE needs of a browser.
const kept = new Map();
globalThis.sessionStorage = { getItem: (name) => kept.get(name) ?? null, setItem: (name, value) => kept.set(name, value) };

async function challenge(app) {
  globalThis.window = { btoa };
  try {
    return await app.startPkce();
  } finally {
    delete globalThis.window;
  }
}

const connect = () =>
  new MedplumClient({
    baseUrl: task.service,
    fhirUrlPath: 'fhir/R4',
    tokenUrl: `${task.service}/oauth/token`,
    authorizeUrl: `${task.service}/oauth/authorize`,
    cacheTime: 0,
  });
const medplum = connect();
const everyone = async (pages) => {
  const found = [];
  for await (const page of pages) found.push([...page]);
  return found;
};

await walk({
  'client credentials': async ({ client, secret }) => {
    await medplum.startClientLogin(client, secret);
    return { token: medplum.getAccessToken() };
  },
  'authorization code': async ({ client, redirect, scope }) => {
    const app = connect();
    const login = { ...(await challenge(app)), scope };
    const back = new URL(await browse(app.getExternalAuthRedirectUri(`${task.service}/oauth/authorize`, client, redirect, login)));
    await app.processCode(back.searchParams.get('code'), { clientId: client, redirectUri: redirect });
    return { token: app.getAccessToken() };
  },
  create: ({ resource }) => medplum.createResource(resource),
  read: ({ id }) => medplum.readResource('Patient', id),
  update: ({ resource }) => medplum.updateResource(resource),
  vread: ({ id, version }) => medplum.readVersion('Patient', id, version),
  history: async ({ id }) => resources(await medplum.readHistory('Patient', id)),
  search: ({ query }) => medplum.searchResources('Patient', query),
  page: ({ query }) => everyone(medplum.searchResourcePages('Patient', query)),
  _include: async ({ patient, include }) => resources(await medplum.search('Observation', { patient, _include: include })),
  'conditional create': async ({ resource, query }) => {
    const twice = () => medplum.createResourceIfNoneExist(resource, `${new URLSearchParams(query)}`);
    return [await twice(), await twice()];
  },
  'conditional update': async ({ first, second, query }) => [
    await medplum.upsertResource(first, query),
    await medplum.upsertResource(second, query),
  ],
  patch: ({ id, patch }) => medplum.patchResource('Patient', id, patch),
  delete: async ({ id }) => void (await medplum.deleteResource('Patient', id)),
  transaction: ({ bundle }) => medplum.executeBatch(bundle),
  $everything: async ({ id }) => resources(await medplum.readPatientEverything(id)),
  $merge: ({ parameters }) => medplum.post(medplum.fhirUrl('Patient', '$merge'), parameters),
});
