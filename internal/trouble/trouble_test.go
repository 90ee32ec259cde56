package trouble_test

import (
	"bytes"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/trouble"
)

// An outage of two and a half minutes, with an attempt each second, is four lines.
func TestLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		noTime := func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}
		l := trouble.New(slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{ReplaceAttr: noTime})), "a beat failed", "beats work again")
		l.Note(nil)
		for range 150 {
			l.Note(errors.New("no connection"))
			time.Sleep(time.Second)
		}
		l.Note(nil)
		l.Note(nil)
		l.Note(errors.New("a new one"))
		l.Forget()
		l.Note(nil)
		const want = `level=WARN msg="a beat failed" error="no connection"
level=WARN msg="a beat failed" error="no connection" since=1m0s
level=WARN msg="a beat failed" error="no connection" since=2m0s
level=WARN msg="beats work again" after=2m30s
level=WARN msg="a beat failed" error="a new one"
`
		if b.String() != want {
			t.Errorf("logged\n%swant\n%s", b.String(), want)
		}
	})
}
