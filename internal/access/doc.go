// Package access decides who may use a server, and what of it.
//
// A [Gate] lets a request in: it turns the header Authorization into a [Principal], which
// travels in the context of the request. What needs a role asks [Principal.Holds]; package api
// does so for each row of its table of operations. An [Engine] is the engine as the principal
// of a context sees it: to a token of some workspaces, what is in others does not exist. It
// has every method of link.Engine written out, so that a new one does not compile until
// somebody has decided what a token may see of it.
//
// A context without a principal has no role and sees nothing.
package access
