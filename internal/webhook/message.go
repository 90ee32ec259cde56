package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/feed"
)

// A Message is what is sent. Its ID is the same for each attempt.
type Message struct {
	ID   string
	Type string
	Body []byte
}

// The types of messages that are no events.
const (
	TypeGap  = "gap"
	TypeTest = "test"
)

// body encodes the body of a message, as the specification recommends it.
func body(kind string, at time.Time, data any) []byte {
	b, err := json.Marshal(struct {
		Type      string         `json:"type"`
		Timestamp pawl.Timestamp `json:"timestamp"`
		Data      any            `json:"data"`
	}{kind, pawl.Timestamp(at.UnixMicro()), data})
	if err != nil {
		panic(err) // it has only text and numbers
	}
	return b
}

// messageOf returns the message about an event. Its id is that of the entity with the number of
// its move, so that it is the same whoever sends it, and whenever.
func messageOf(e *feed.Event) Message {
	kind := e.Machine + "." + string(e.Event.Event)
	return Message{ID: fmt.Sprintf("%s_%d", e.Entity, e.Sequence), Type: kind, Body: body(kind, e.At.Time(), json.RawMessage(e.JSON()))}
}

// gapOf returns the message that events are missing.
func gapOf(w *pawl.Webhook, moved int64, reason string, at time.Time) Message {
	return Message{ID: fmt.Sprintf("gap_%s_%d", w.ID.Public(pawl.WebhookPrefix), moved), Type: TypeGap, Body: body(TypeGap, at, map[string]string{"reason": reason})}
}

// Test returns a message without an event.
func Test(w *pawl.Webhook, id pawl.ID, at time.Time) Message {
	return Message{ID: "test_" + id.Public(""), Type: TypeTest, Body: body(TypeTest, at, map[string]string{"webhook": w.Name})}
}

// SecretPrefix begins the text of a secret; the rest is base64.
const SecretPrefix = "whsec_"

// SecretText returns the text of a secret.
func SecretText(secret [32]byte) string {
	return SecretPrefix + base64.StdEncoding.EncodeToString(secret[:])
}

// signatures returns the header with the signatures of a message: that of the secret, and that
// of the former one while it counts.
func (s *Secrets) signatures(id string, at time.Time, body []byte) string {
	all := signature(s.secret, id, at, body)
	if at.UnixMicro() < s.until {
		all += " " + signature(s.former, id, at, body)
	}
	return all
}

func signature(secret [32]byte, id string, at time.Time, body []byte) string {
	h := hmac.New(sha256.New, secret[:])
	fmt.Fprintf(h, "%s.%s.", id, strconv.FormatInt(at.Unix(), 10))
	h.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(h.Sum(nil))
}
