package httpurl

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/internal/must"
)

// Rule R6: errors contain no URLs with secrets.
func TestRedactRemovesSecretsOfURLs(t *testing.T) {
	cause := &net.DNSError{Err: "no such host", Name: "example.invalid"}
	for _, c := range []struct {
		err  error
		want string
	}{
		{&url.Error{Op: "Get", URL: "http://canary@example.com/?canary", Err: cause}, cause.Error()},
		{fmt.Errorf("dial: %w", &url.Error{Op: "Get", URL: "http://canary@example.com/?canary", Err: cause}),
			cause.Error()},
		{&url.Error{Op: "Get", URL: "x",
			Err: fmt.Errorf(`invalid proxy address "http://canary:canary@proxy:port/canary@x?canary": %w`, cause)},
			`invalid proxy address "http://x": ` + cause.Error()},
		{&url.Error{Op: "Get", URL: "x",
			Err: fmt.Errorf(`failed to parse Location header "http://%%zz/?token=canary": parse `+
				`"http://%%zz/?token=canary": %w`, cause)},
			`failed to parse Location header "http://%zz/": parse "http://%zz/": ` + cause.Error()},
		{fmt.Errorf("see https://example.com/help#canary and https://canary@example.com: %w", cause),
			"see https://example.com/help and https://example.com"},
		{fmt.Errorf(`Location %q: %w`, `http://a.example/? canary "canary`, cause),
			`Location "http://a.example/": ` + cause.Error()},
		{cause, cause.Error()},
	} {
		got := Redact(c.err)
		must.CheckThat(t, !strings.Contains(got.Error(), "canary") && strings.HasPrefix(got.Error(), c.want),
			"%v: %v, want %s", c.err, got, c.want)
		found := new(net.DNSError)
		must.CheckThat(t, errors.As(got, &found), "%v: the cause is not in %v", c.err, got)
	}
	must.CheckEqual(t, Redact(io.EOF), io.EOF)
	must.Check(t, Redact(nil))
}
