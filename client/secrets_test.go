package client_test

import (
	"bytes"
	"context"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
)

// canary is a part of the user information and of the query of a URL, which are secrets.
const canary = "c4nary"

// withSecrets returns the URL of a server with secrets in it.
func withSecrets(server string) string {
	scheme, rest, _ := strings.Cut(server, "://")
	return scheme + "://" + canary + "user:" + canary + "password@" + rest + "/mcp?token=" + canary + "token"
}

// Rule R6: no error, log message or name of a server contains the user information or the query of
// its URL.
func TestErrorsHaveNoSecretsOfTheURL(t *testing.T) {
	silent := log.New(io.Discard, "", 0)
	serve := func(tls bool, h http.HandlerFunc) string {
		s := httptest.NewUnstartedServer(h)
		s.Config.ErrorLog = silent
		if tls {
			s.StartTLS()
		} else {
			s.Start()
		}
		t.Cleanup(s.Close)
		return s.URL
	}
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { http.Error(w, "no", code) }
	}
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	noise, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { noise.Close() })
	go func() {
		for {
			conn, err := noise.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte("220 mail.example ESMTP\r\n\r\n"))
			conn.Close()
		}
	}()
	blocked := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the end of the connection is only noticed after the body
		<-r.Context().Done()
	}
	for name, url := range map[string]string{
		"connection refused": withSecrets("http://" + gone.Addr().String()),
		"not HTTP":           withSecrets("http://" + noise.Addr().String()),
		"not TLS":            withSecrets("https://" + noise.Addr().String()),
		"unknown authority":  withSecrets(serve(true, status(500))),
		"HTTP, not HTTPS":    withSecrets(strings.Replace(serve(true, status(500)), "https", "http", 1)),
		"time-out":           withSecrets(serve(false, blocked)),
		"status 401":         withSecrets(serve(false, status(401))),
		"status 404":         withSecrets(serve(false, status(404))),
		"status 500":         withSecrets(serve(false, status(500))),
		"redirect": withSecrets(serve(false, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/elsewhere?"+r.URL.RawQuery, http.StatusTemporaryRedirect)
		})),
		"malformed redirect": withSecrets(serve(false, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "http://%zz/?"+r.URL.RawQuery)
			w.WriteHeader(http.StatusTemporaryRedirect)
		})),
		"foreign endpoint": withSecrets(serve(false, func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet {
				w.WriteHeader(http.StatusMethodNotAllowed)
				return
			}
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "event: endpoint\ndata: http://"+canary+"@127.0.0.1:1/message?"+r.URL.RawQuery+"\n\n")
		})),
		"malformed host": withSecrets("http://exam ple"),
		"malformed port": withSecrets("http://127.0.0.1:port"),
		"no such scheme": withSecrets("gopher://127.0.0.1"),
		"control":        withSecrets("http://127.0.0.1:1") + "\x7f",
	} {
		for _, r := range []mcp.Revision{"", mcp.V20241105, mcp.V20251125, mcp.V20260728} {
			t.Run(name+"/"+string(r), func(t *testing.T) {
				var logged bytes.Buffer
				d := client.Dialer{
					Revision: r, Logger: slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug})),
					Timeouts: client.Timeouts{Initialize: 50 * time.Millisecond},
				}
				to := client.URL(url)
				c, err := d.Dial(context.Background(), to)
				if err == nil {
					c.Close()
					t.Fatal("the dial succeeded")
				}
				for what, text := range map[string]string{"error": err.Error(), "log": logged.String(), "name": to.String()} {
					if strings.Contains(text, canary) {
						t.Errorf("the %s contains a secret: %s", what, text)
					}
				}
			})
		}
	}
}
