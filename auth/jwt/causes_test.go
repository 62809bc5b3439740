package jwt_test

import (
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

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/auth/jwt"
)

// The error of a fetch of keys keeps the cause of a failed connection and its text.
func TestErrorsKeepTheCauseOfAFailedFetch(t *testing.T) {
	untrusted := httptest.NewUnstartedServer(http.NotFoundHandler())
	untrusted.Config.ErrorLog = log.New(io.Discard, "", 0)
	untrusted.StartTLS()
	defer untrusted.Close()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	i := newIssuer(t)
	for keys, test := range map[string]struct {
		text  string
		found func(error) bool
	}{
		untrusted.URL:                    {"x509: certificate signed by unknown authority", func(err error) bool { return errors.As(err, new(x509.UnknownAuthorityError)) }},
		"http://" + gone.Addr().String(): {"connection refused", func(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }},
		"https://keys.invalid/":          {"lookup keys.invalid", func(err error) bool { return errors.As(err, new(*net.DNSError)) }},
	} {
		v := &jwt.Verifier{Issuers: []string{i.URL}, KeysURL: keys}
		for range 2 { // the second error is that of the first fetch
			if _, err := v.Verify(t.Context(), i.token(i.claims())); !errors.Is(err, auth.ErrUnavailable) || !strings.Contains(err.Error(), test.text) || !test.found(err) {
				t.Errorf("%s: %v, want the cause %q", keys, err, test.text)
			}
		}
	}
}
