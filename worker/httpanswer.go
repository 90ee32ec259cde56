package worker

import (
	"encoding/json"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/workflow"
)

// An answer is the output of a request.
type answer struct {
	Status  int               `json:"status"`
	Headers map[string]string `json:"headers"`
	Body    json.RawMessage   `json:"body"`
}

// headers returns headers in the form of an output. Cookies are left out, since outputs
// are stored and shown.
func headers(h http.Header) map[string]string {
	m := make(map[string]string, len(h))
	for name, values := range h {
		if name != "Set-Cookie" {
			m[strings.ToLower(name)] = strings.Join(values, ", ")
		}
	}
	return m
}

// bodyMode returns how a body is read: text becomes JSON if the response says so and
// the body is valid JSON.
func bodyMode(mode workflow.OutputMode, response *http.Response, body []byte) workflow.OutputMode {
	if mode != workflow.OutputText && mode != "" {
		return mode
	}
	if isJSON(response.Header.Get("Content-Type")) && json.Valid(body) {
		return workflow.OutputJSON
	}
	return workflow.OutputText
}

func isJSON(contentType string) bool {
	media, _, _ := mime.ParseMediaType(contentType) // an error leaves it empty, or without parameters
	return media == "application/json" || strings.HasSuffix(media, "+json")
}

// isToken reports whether s can be the name of a header.
func isToken(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(c rune) bool {
		return c <= ' ' || c >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, c)
	})
}

func isHeaderValue(value string) bool {
	return !strings.ContainsFunc(value, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f })
}

// maxRetryAfter is the longest wait that a server may ask for (T6).
const maxRetryAfter = time.Hour

// retryAfter reads the header of that name: seconds, or an HTTP date. It returns 0,
// which leaves the wait to the backoff, if it is neither or has passed.
func retryAfter(value string, now time.Time) time.Duration {
	value = strings.TrimSpace(value)
	if value != "" && strings.Trim(value, "0123456789") == "" {
		seconds, err := strconv.ParseInt(value, 10, 64)
		if err != nil || seconds > int64(maxRetryAfter/time.Second) {
			return maxRetryAfter
		}
		return time.Duration(seconds) * time.Second
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), maxRetryAfter)
}

// notSecret are the request headers whose values may be in error texts.
var notSecret = map[string]bool{
	"Accept": true, "Accept-Encoding": true, "Accept-Language": true,
	"Content-Type": true, "Host": true, "User-Agent": true,
}

// minSecret is the least length of a value that is redacted in texts.
const minSecret = 4

// redact removes from a text what the request carried and might be a secret: a server
// may echo a request.
func (r *request) redact(text string) string {
	for name, values := range r.request.Header {
		for _, value := range values {
			if !notSecret[name] {
				text = hide(text, value)
				_, credentials, _ := strings.Cut(value, " ") // Bearer TOKEN
				text = hide(text, credentials)
			}
		}
	}
	u := r.url
	if password, ok := u.User.Password(); ok {
		text = hide(text, password)
	}
	text = hide(text, u.RawQuery)
	for _, values := range u.Query() {
		for _, value := range values {
			text = hide(text, value)
		}
	}
	return text
}

func hide(text, secret string) string {
	if len(secret) < minSecret {
		return text
	}
	return strings.ReplaceAll(text, secret, "***")
}
