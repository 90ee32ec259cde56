// Package s3 is a client of object stores that speak the protocol of Amazon S3, made for measuring
// them: a request costs little, its time is known, and nothing is hidden.
//
// A [Store] is what all clients of a bucket share. A [Client] has one connection and is used by one
// goroutine, which writes a request and reads the response itself: no pool, no other goroutine and no
// queue is between an operation and the wire. It speaks HTTP/1.1, over TLS where the endpoint has
// https, and knows no proxies. It follows no redirect and tries nothing again, since either would
// hide what the store did. A connection that the store has closed while nothing was on its way is
// replaced before a request is sent.
//
// Requests are signed with version 4 of Amazon's signatures, for one region. Contents are not part of
// the signature unless the [Config] says so: hashing them would cost more than sending them.
//
// Begin to read at Client.Get, and go on with Client.roundTrip.
package s3
