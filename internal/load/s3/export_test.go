package s3

import "crypto/tls"

// Create begins an upload in parts.
var Create = (*Client).create

// Tickets makes a store's clients take the tickets of servers of Go, which send them to those only that keep them.
func Tickets(s *Store) { s.tls.ClientSessionCache = tls.NewLRUClientSessionCache(1) }

// Readable reports whether something has arrived.
var Readable = (*Client).readable

// StoreOf returns the store of a client.
func StoreOf(c *Client) *Store { return c.store }

// SignerOf returns what signs the requests of a client.
func SignerOf(c *Client) any { return c.signer }

// Same reports whether credentials are the same.
func Same(a, b Credentials) bool { return a.open() == b.open() }

// DialTo has a client connect to an address, whatever the name of the host of its store.
func DialTo(c *Client, address string) { c.store.address = address }
