package webhook

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/keyring"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// TestCheckURL: a URL is refused with the field, the value and what is allowed.
func TestCheckURL(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"https://example.com/pawl?x=1":             "",
		"https://10.1.2.3/":                        "",
		"http://127.0.0.1:8080/x":                  "",
		"http://[::1]:8080/x":                      "",
		"http://LOCALHOST/x":                       "",
		"https://localhost/x":                      "",
		"http://example.com/":                      "http is for the loopback interface only",
		"http://localhost.example.com/":            "http is for the loopback interface only",
		"ftp://example.com/":                       `scheme "ftp": want https`,
		"//example.com/":                           `scheme "": want https`,
		"example.com":                              "want an absolute URL",
		"":                                         "want an absolute URL",
		"https://":                                 "want an absolute URL",
		"https://:443/":                            "want an absolute URL",
		"https://ada:secret@example.com/":          "want none with a user or a password",
		"https://example.com/#x":                   "want none with a fragment",
		"https://example.com:99999/":               "port 99999: want 1 to 65535",
		"https://exa mple.com/":                    "want an absolute URL",
		"https://169.254.169.254/latest/meta-data": "is link-local",
		"https://[fe80::1]/":                       "is link-local",
		"https://[::ffff:169.254.169.254]/":        "is link-local",
		"https://0.0.0.0/":                         "is of no single machine",
		"https://[::]/":                            "is of no single machine",
		"https://224.0.0.1/":                       "is of no single machine",
		"https://100.100.100.200/":                 "has the metadata of a cloud",
		"https://example.com/" + strings.Repeat("x", maxURL): "want at most 2048",
	} {
		_, err := CheckURL(url)
		switch {
		case want == "" && err != nil:
			t.Errorf("%q: %v", url, err)
		case want != "" && (pawl.KindOf(err) != pawl.Invalid || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "url")):
			t.Errorf("%q: %v, want %q", url, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: the error has the password: %v", url, err)
		}
	}
}

// TestRefusedAddresses: what a name leads to is looked at when it is connected to.
func TestRefusedAddresses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		ip           string
		far, oneself bool // allowed for a URL elsewhere, and for one of the loopback interface
	}{
		{"93.184.216.34", true, false}, {"10.0.0.1", true, false}, {"192.168.1.1", true, false}, {"2001:db8::1", true, false}, {"fd00::1", true, false},
		{"127.0.0.1", false, true}, {"127.9.9.9", false, true}, {"::1", false, true}, {"::ffff:127.0.0.1", false, true}, {"64:ff9b::7f00:1", false, true},
		{"169.254.169.254", false, false}, {"::ffff:169.254.169.254", false, false}, {"64:ff9b::a9fe:a9fe", false, false}, {"fe80::1%eth0", false, false},
		{"0.0.0.0", false, false}, {"::", false, false}, {"255.255.255.255", false, false}, {"224.0.0.1", false, false}, {"ff02::1", false, false},
		{"100.100.100.200", false, false}, {"168.63.129.16", false, false}, {"192.0.0.192", false, false}, {"fd00:ec2::254", false, false},
	} {
		ip := netip.MustParseAddr(tt.ip)
		for loopback, want := range map[bool]bool{false: tt.far, true: tt.oneself} {
			if why := refusal(ip, loopback); (why == "") != want {
				t.Errorf("%s, URL of the loopback interface %v: %q, want that it is allowed: %v", ip, loopback, why, want)
			}
			address := net.JoinHostPort(tt.ip, "443")
			if err := guard(loopback)("tcp", address, nil); (err == nil) != want {
				t.Errorf("connecting to %s: %v", address, err)
			}
		}
	}
}

// TestANameThatLeadsHere: the client for names of other machines does not connect to this one,
// whatever the name leads to.
func TestANameThatLeadsHere(t *testing.T) {
	t.Parallel()
	s := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was connected to") }))
	defer s.Close()
	sender := NewSender(Config{})
	defer sender.Close()
	resp, err := sender.remote.Get(s.URL + "/?key=hidden") // as if it were a name
	if err == nil {
		_ = resp.Body.Close()
		t.Fatal("the request was made")
	}
	if text := plainly(err); text != "the address 127.0.0.1 is of the loopback interface" {
		t.Error(text)
	}
}

// TestHTTPS: the certificate of a receiver is verified.
func TestHTTPS(t *testing.T) {
	t.Parallel()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }))
	defer s.Close()
	w := &pawl.Webhook{WebhookTarget: pawl.WebhookTarget{URL: s.URL}}
	strict := NewSender(Config{})
	defer strict.Close()
	if r := strict.Send(t.Context(), w, &Secrets{}, Message{ID: "m"}); r.Delivered || !strings.Contains(r.Error, "certificate") {
		t.Errorf("with the certificates of the system: %+v", r)
	}
	roots := s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	known := NewSender(Config{Roots: roots})
	defer known.Close()
	if r := known.Send(t.Context(), w, &Secrets{}, Message{ID: "m"}); !r.Delivered || r.Status != http.StatusAccepted {
		t.Errorf("with its certificate: %+v", r)
	}
}

// TestLargeAnswers: a receiver that never ends its answer costs the time of an attempt.
func TestLargeAnswers(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 1<<10)); err != nil {
				return
			}
		}
	}))
	defer s.Close()
	sender := NewSender(Config{Timeout: 5 * time.Second})
	defer sender.Close()
	if r := sender.Send(t.Context(), &pawl.Webhook{WebhookTarget: pawl.WebhookTarget{URL: s.URL}}, &Secrets{}, Message{ID: "m"}); !r.Delivered || r.Duration > 4*time.Second {
		t.Errorf("%+v", r)
	}
}

// TestSignature: the example of the Standard Webhooks specification.
func TestSignature(t *testing.T) {
	t.Parallel()
	key, err := base64.StdEncoding.DecodeString("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	// Keys of this program are longer; HMAC fills up a key with zeros.
	var secret [32]byte
	copy(secret[:], key)
	got := signature(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`))
	if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if text := SecretText(secret); !strings.HasPrefix(text, "whsec_") || len(text) != 6+44 {
		t.Errorf("secret %s", text)
	}
}

// TestFormerSecret: it signs until its time is over.
func TestFormerSecret(t *testing.T) {
	t.Parallel()
	now := time.Now()
	w := &Secrets{secret: [32]byte{1}, former: [32]byte{2}, until: now.Add(time.Second).UnixMicro()}
	both := strings.Fields(w.signatures("m", now, nil))
	later := strings.Fields(w.signatures("m", now.Add(time.Second), nil))
	if len(both) != 2 || both[0] != signature(w.secret, "m", now, nil) || both[1] != signature(w.former, "m", now, nil) || len(later) != 1 {
		t.Errorf("%v, later %v", both, later)
	}
}

// TestBackoff: it doubles from half of the first time to the most.
func TestBackoff(t *testing.T) {
	t.Parallel()
	r := NewRunner(Config{})
	for _, jitter := range []float64{0, 0.999999} {
		r.Jitter = func() float64 { return jitter }
		for failures, most := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 10: 512 * time.Second, 11: 10 * time.Minute, 5000: 10 * time.Minute} {
			if got := r.backoff(failures); got < most/2 || got > most || jitter == 0 && got != most/2 {
				t.Errorf("after %d failures %v, want %v at most", failures, got, most)
			}
		}
	}
}

// TestSendEnds: an attempt ends with its context.
func TestSendEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	}))
	defer s.Close()
	sender := NewSender(Config{Timeout: time.Hour})
	defer sender.Close()
	if r := sender.Send(ctx, &pawl.Webhook{WebhookTarget: pawl.WebhookTarget{URL: s.URL}}, &Secrets{}, Message{ID: "m"}); r.Delivered {
		t.Errorf("%+v", r)
	}
}

// saves takes what a line saves.
type saves struct{ Source }

func (saves) SaveWebhook(context.Context, rowkey.Webhook, *store.WebhookPlace, []store.Delivery) error {
	return nil
}

// TestDisableIsOfAVersion: a webhook is given up as it was when its message was sent, so that one
// that has another URL by now is not disabled.
func TestDisableIsOfAVersion(t *testing.T) {
	t.Parallel()
	r := NewRunner(Config{})
	r.Source, r.Log = saves{}, slog.New(slog.DiscardHandler)
	var version int64
	r.Move = func(_ context.Context, _ pawl.ID, v int64, _ machine.Event, _ string) (int64, error) {
		version = v
		return 0, pawl.Errorf(pawl.Conflict, "it has changed")
	}
	l := &line{r: r, w: &pawl.Webhook{Record: pawl.Record{Seq: 7}}}
	if err := l.failed(t.Context(), &Result{Status: http.StatusGone}); !errors.Is(err, errDisabled) || version != 7 {
		t.Errorf("moved version %d, %v", version, err)
	}
}

// TestDisableAfterAGap: a gap raises the version of a webhook, so that it is given up as it is then;
// unless somebody else has changed it meanwhile.
func TestDisableAfterAGap(t *testing.T) {
	t.Parallel()
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	defer receiver.Close()
	for changes, want := range map[int64]int64{0: 9, 1: 7} {
		r := NewRunner(Config{})
		r.Source, r.Log, r.Sender = saves{}, slog.New(slog.DiscardHandler), NewSender(Config{})
		defer r.Sender.Close()
		stored, disabled := 7+changes, int64(0)
		r.Move = func(_ context.Context, _ pawl.ID, v int64, event machine.Event, _ string) (int64, error) {
			if event == lifecycle.WebhookDisable {
				disabled = v
			}
			stored++
			return stored, nil
		}
		l := &line{r: r, w: &pawl.Webhook{Record: pawl.Record{Seq: 7}, WebhookTarget: pawl.WebhookTarget{URL: receiver.URL}}, sent: map[string]int64{}, saved: time.Now()}
		for range 2 {
			if err := l.gap(t.Context(), store.GapOld); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.failed(t.Context(), &Result{Status: http.StatusGone}); !errors.Is(err, errDisabled) || disabled != want {
			t.Errorf("after %d other changes and 2 gaps: version %d is disabled, want %d; %v", changes, disabled, want, err)
		}
	}
}

// TestALineThatEnds: a message that is under way when its line ends, as by a pause, may still be taken:
// then it counts, and is not sent again. A receiver that hangs holds the line up for linger.
func TestALineThatEnds(t *testing.T) {
	t.Parallel()
	for _, takes := range []bool{true, false} {
		ctx, end := context.WithCancel(t.Context())
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if end(); takes {
				w.WriteHeader(http.StatusNoContent)
				return
			}
			<-r.Context().Done()
		}))
		defer s.Close()
		sender := NewSender(Config{Timeout: time.Hour})
		defer sender.Close()
		l := &line{r: &Runner{Sender: sender}, w: &pawl.Webhook{WebhookTarget: pawl.WebhookTarget{URL: s.URL}}}
		began := time.Now()
		if r := l.send(ctx, Message{ID: "m"}); r.Delivered != takes {
			t.Errorf("takes it %t: %+v", takes, r)
		}
		if took := time.Since(began); !takes && took < linger {
			t.Errorf("a receiver that hangs had %v", took)
		}
	}
}

// TestEncryptEndsLinesAtOnce: receivers that hang hold the encryption of many secrets up once, and not
// one after the other.
func TestEncryptEndsLinesAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ring, err := keyring.Parse(strings.Repeat("ab", keyring.KeySize))
		if err != nil {
			t.Fatal(err)
		}
		r := NewRunner(Config{Ring: ring})
		n := 0
		r.Encrypt = func(_ context.Context, id pawl.ID, _ int64, to Encrypted, _ string) error {
			if keyring.KeyOf(to.Secret) == ring.First() {
				n++
			}
			return nil
		}
		var all []*pawl.Webhook
		for i := range 20 {
			w := &pawl.Webhook{ID: pawl.ID{11: byte(i + 1)}, Secret: bytes.Repeat([]byte{byte(i + 1)}, keyring.SecretSize), Former: keyring.None(), Record: pawl.Record{State: lifecycle.WebhookActive}}
			ctx, end := context.WithCancel(t.Context())
			l := &line{w: w, end: end, done: make(chan struct{})}
			go func() {
				defer close(l.done)
				<-ctx.Done()
				time.Sleep(linger)
			}()
			all, r.lines[w.Key()] = append(all, w), l
		}
		began := time.Now()
		if changed, err := r.encrypt(t.Context(), all); err != nil || !changed || n != len(all) || len(r.lines) != 0 {
			t.Errorf("%d of %d are encrypted, %d lines are left, %v", n, len(all), len(r.lines), err)
		}
		if took := time.Since(began); took != linger {
			t.Errorf("it took %v, want %v", took, linger)
		}
	})
}
