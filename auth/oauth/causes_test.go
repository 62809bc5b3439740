package oauth_test

import (
	"context"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"

	"github.com/parley-mcp/parley/auth/oauth"
)

// The error of a login keeps the cause of a failed connection and its text.
func TestErrorsKeepTheCauseOfAFailedConnection(t *testing.T) {
	untrusted := httptest.NewUnstartedServer(http.NotFoundHandler())
	untrusted.Config.ErrorLog = log.New(io.Discard, "", 0)
	untrusted.StartTLS()
	defer untrusted.Close()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	for issuer, test := range map[string]struct {
		text  string
		found func(error) bool
	}{
		untrusted.URL:                    {"x509: certificate signed by unknown authority", func(err error) bool { return errors.As(err, new(x509.UnknownAuthorityError)) }},
		"http://" + gone.Addr().String(): {"connection refused", func(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }},
		"https://issuer.invalid":         {"lookup issuer.invalid", func(err error) bool { return errors.As(err, new(*net.DNSError)) }},
	} {
		w := newEnvironment(t)
		w.onResource = func(metadata map[string]any) { metadata["authorization_servers"] = []string{issuer} }
		c := &oauth.Client{Interaction: w.user()}
		if err := c.Login(context.Background(), w.url()); err == nil || !strings.Contains(err.Error(), test.text) || !test.found(err) {
			t.Errorf("%s: %v, want the cause %q", issuer, err, test.text)
		}
		if _, err := w.dial(c, ""); err == nil || !strings.Contains(err.Error(), test.text) || !test.found(err) {
			t.Errorf("dial with %s: %v, want the cause %q", issuer, err, test.text)
		}
	}
}
