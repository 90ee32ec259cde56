// Package webhook delivers events to URLs.
//
// A [Sender] makes one signed request, as the Standard Webhooks specification has it, and
// connects to no address that a receiver has no business at (address.go). A [Runner] goes through
// the feed for every active webhook, each in a goroutine of its own with its own place, so that a
// slow receiver delays no other. A webhook sends one event after the other, and goes on to the
// next only when the receiver has taken the last one, or when it is given up.
//
// One process at a time delivers a webhook: the one that holds the name "webhooks", or that with the
// fingerprint of the key that encrypts its secret (secrets.go). A process that has lost the name
// without noticing fails when it saves a place, since another has saved one meanwhile, and then stops.
//
// A place is saved with what was delivered since the feed had it, at most a second late. After
// kill -9 the events of that second are sent again, with the same message ids.
//
// Begin to read at [Runner.Run].
package webhook
