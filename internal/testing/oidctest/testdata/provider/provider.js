// A real OpenID provider for tests. It takes any name with any password, prints its
// address when it is ready, and ends with its standard input.
//
//   node provider.js '{"clients": […], "idTokenClaims": true, "key": {…}}'
//
// clients are metadata as in OpenID Connect registration. Claims are in the id token, or
// only at the userinfo endpoint. The name decides on them: "name:group,group" has those
// groups, "name" alone has no such claim. key is a private JWK to sign with: Node.js 20
// hangs at times when it exports one that it made.

import { randomBytes } from 'node:crypto';
import { createServer } from 'node:http';
import Provider from 'oidc-provider';

const { clients, idTokenClaims, key } = JSON.parse(process.argv[2]);

function findAccount(_, accountId) {
  const [name, groups] = accountId.split(':');
  const claims = { sub: accountId, preferred_username: name };
  if (groups !== undefined) claims.groups = groups.split(',');
  return { accountId, claims: () => claims };
}

// Consent is given, since the tests begin after it.
async function loadExistingGrant(ctx) {
  const grant = new ctx.oidc.provider.Grant({ clientId: ctx.oidc.client.clientId, accountId: ctx.oidc.session.accountId });
  grant.addOIDCScope('openid profile groups');
  await grant.save();
  return grant;
}

const page = (title, form) => `<!doctype html><html lang="en"><title>${title}</title><link rel="icon" href="data:,"><h1>${title}</h1>${form}`;

const loginPage = page('Provider', `<form method="post">
  <label>Name <input name="login" autofocus></label>
  <label>Password <input name="password" type="password"></label>
  <button>Log in</button>
</form>`);

async function logIn(request, response) {
  await provider.interactionDetails(request, response);
  if (request.method !== 'POST') return response.setHeader('Content-Type', 'text/html').end(loginPage);
  const fields = new URLSearchParams(Buffer.concat(await request.toArray()).toString());
  return provider.interactionFinished(request, response, { login: { accountId: fields.get('login') } });
}

function logoutSource(ctx, form) {
  ctx.body = page('Log out?', `${form}<button form="op.logoutForm" name="logout" value="yes">Yes</button>`);
}

let provider;
const server = createServer((request, response) => {
  if (request.url.startsWith('/interaction/')) logIn(request, response).catch((error) => response.writeHead(500).end(String(error)));
  else provider.callback()(request, response);
});
server.listen(0, 'localhost', () => {
  const issuer = `http://localhost:${server.address().port}`;
  provider = new Provider(issuer, {
    clients,
    claims: { openid: ['sub'], profile: ['preferred_username'], groups: ['groups'] },
    scopes: ['openid', 'profile', 'groups'],
    clientDefaults: { id_token_signed_response_alg: 'ES256' },
    conformIdTokenClaims: !idTokenClaims,
    cookies: { keys: [randomBytes(16).toString('hex')] },
    features: { devInteractions: { enabled: false }, rpInitiatedLogout: { enabled: true, logoutSource } },
    interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
    findAccount,
    jwks: { keys: [key] },
    loadExistingGrant,
    pkce: { required: () => true },
  });
  console.log(issuer);
});

process.stdin.on('end', () => process.exit()).resume();
