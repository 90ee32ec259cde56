// Package oidc signs people in to a server with an OpenID Connect provider: the authorization
// code flow with PKCE, state and nonce (OpenID Connect Core 1.0, section 3.1; RFC 7636).
//
// A [Login] serves two paths. /login sends the browser to the provider, and keeps what the way
// back needs in a cookie for 10 minutes, so that any server of the database can complete it.
// /login/callback takes the code that the browser brings back, verifies the ID token, and opens a
// session of the person with the roles that a claim of the token stands for. Somebody without
// such a role is not let in.
package oidc
