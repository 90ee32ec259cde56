// Package audit is the trail: an entry for every transition of every entity, chained by
// SHA-256, replayed and verified (K5, K6). It does no I/O; stores keep the entries, and the
// record of an entity keeps the hash of its last one.
//
// # The canonical form
//
// The hash of an entry is the SHA-256 of the 32 bytes of the hash of the entry before it in
// the trail of the same entity (32 zero bytes for the first), followed by the entry's
// canonical form. The canonical form is ten fields without separators, in this order:
//
//	entity, sequence, from, to, event, reason, actor, request id, metadata, at
//
// Each field is the number of its bytes in decimal, a colon, and its bytes. The bytes of a
// text are its UTF-8. Those of sequence and at are the number in decimal ASCII, with a minus
// sign when negative, no plus sign and no leading zero; at is in microseconds since the Unix
// epoch. Those of metadata are the bytes of the JSON object as it is stored, none when there
// is no metadata. From is empty in the creation. An empty field is therefore "0:", and two
// different entries never have the same form.
//
// The creation of a job is, as one line without line breaks,
//
//	34:j_019373a1c4007abc81230000002000011:10:9:SUBMITTED6:submit7:nightly8:operator0:9:{"try":1}16:1763719200123456
//
// and its hash, since it is the first of its trail, is the SHA-256 of 32 zero bytes and this
// line. The example of [Entry.Seal] shows the result.
//
// That is version 1. An entry of version 2 begins with the version, "1:2", followed by the ten
// fields and then, in the same form: how many trails were counted out of it and their digest,
// if the row ends a job or the node of a fan-out (two empty fields if not); the number by
// which the trail had been counted out before this row made it longer, 0 if it had not; the
// number of its seals; and the field and the sum of each. Digests and sums are the 32 bytes.
// Each entry has its version, and one trail may have both: old rows are verified as they were
// sealed.
//
// # Payload
//
// Inputs, outputs, errors and the data of signals are not in the trail, but sealed by it. A
// [Seal] is the SHA-256 of 16 random bytes and of the payload as it is stored. Payload and
// random bytes are kept beside the entry, or in the record. An edited output therefore does
// not match its seal, and a secret can be deleted, with its random bytes, without breaking the
// chain. A field of a record that is {} counts as empty and needs no seal.
//
// # The tree
//
// A job counts its steps out as they end, and a fan-out its instances: each is folded into a
// digest, as [Branch] says, and the row that ends the job or the fan-out seals the digest and
// the count ([Tree]). The number of a step in that order is kept with its record, and exports
// have it ("folded") with the last row of that moment. A step that is resolved after it had
// failed and been counted out is counted out again: its row has its earlier number, and the
// higher one counts. The job's own trail thus shows that a step is missing with all its rows.
//
// # What an entry may hold
//
// Entity, From, To and Event come from the program itself: valid UTF-8 without NUL. Reason,
// Actor and RequestID come from elsewhere: [Entry.Seal] replaces invalid UTF-8 and NUL in them
// by U+FFFD, so that every database can store them. Metadata is empty or one compact JSON
// object: no white space outside of strings. Its bytes are hashed unchanged, so a store has to
// return exactly the bytes that it was given (a column type that orders keys or drops
// duplicates does not work). [CanonicalMetadata] brings any JSON object into a form that
// json.Marshal also leaves unchanged.
//
// # The exported form
//
// An exported trail is JSON Lines: one entry per line, an object with exactly the keys entity,
// sequence, from (null for the creation), to, event, reason, actor, request_id, metadata (an
// object, or null when empty), at (RFC 3339 in UTC, with exactly six digits of a second and Z)
// and hash (64 lower-case hexadecimal digits). An entry of version 2 also has the key version
// and, unless they are empty: seals (a list of {field, sum}), tree ({n, acc}), again, and
// folded, which is not hashed. Lines of one entity are in the order of their sequence; lines
// of different entities may be mixed.
//
// To check a hash from a line, take the texts after unescaping, at as microseconds, and the
// text of the metadata as it is in the line, without white space outside of its strings but
// with its escapes unchanged. [WriteLines] writes such lines, [VerifyLines] checks them
// without a database. A file from which old entries were dropped has other lines, too: see
// [Cut].
package audit
