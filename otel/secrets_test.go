package otel_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/auth/devissuer"
	"github.com/parley-mcp/parley/auth/jwt"
	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/otel"
	"github.com/parley-mcp/parley/server"
)

// recorder records the secrets in the traffic of an endpoint.
type recorder struct {
	next http.Handler

	mu    sync.Mutex
	kinds map[string]string // kinds by secret
}

func (o *recorder) note(kind, secret string) {
	if secret == "" {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.kinds[secret] = kind
}

var stateInBody = regexp.MustCompile(`"requestState":"([^"]+)"|sessionId=(\S+)|(?m:^id: ([^.\n]+))`)

// ServeHTTP implements http.Handler.
func (o *recorder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	_, payload, _ := strings.Cut(token, ".") // the header of a token is not secret
	o.note("token", payload)
	o.next.ServeHTTP(recordingWriter{w, o}, r)
	o.note("session", w.Header().Get("Mcp-Session-Id"))
}

// recordingWriter records the secrets in a response.
type recordingWriter struct {
	http.ResponseWriter
	recorder *recorder
}

func (w recordingWriter) Write(p []byte) (int, error) {
	for _, match := range stateInBody.FindAllStringSubmatch(string(p), -1) {
		w.recorder.note("requestState", match[1])
		w.recorder.note("session", match[2])
		w.recorder.note("event", match[3])
	}
	return w.ResponseWriter.Write(p)
}

func (w recordingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Rule R6: spans and measurements contain no secrets, even if all options are
// enabled.
func TestTelemetryHasNoSecrets(t *testing.T) {
	issuer := must.Get(devissuer.Start(devissuer.Config{}))(t)
	defer issuer.Close()
	for _, r := range mcp.Revisions() {
		t.Run(string(r), func(t *testing.T) {
			tel := newTelemetry(otel.Options{Content: true, ResourceURIs: true, RequestIDs: true})
			s := &server.Server{Logger: slog.New(slog.DiscardHandler),
				Middleware: []call.Middleware{otel.Server(tel.options)}}
			server.AddTool(s, mcp.Tool{Name: "who"}, func(ctx context.Context, _ struct{}) (string, error) {
				_ = server.Progress(ctx, 1, 1, "")
				return fmt.Sprintf("%v %+v", ctx, auth.FromContext(ctx)), nil
			})
			server.AddTool(s, mcp.Tool{Name: "ask"}, func(ctx context.Context, _ struct{}) (string, error) {
				form, err := server.Elicit[struct {
					Name string `json:"name"`
				}](ctx, "Who?")
				return form.Name, err
			})
			server.AddTool(s, mcp.Tool{Name: "lost"}, func(ctx context.Context, _ struct{}) (string, error) {
				return "", fmt.Errorf("failed in %v", ctx)
			})
			server.AddTool(s, mcp.Tool{Name: "panic"}, func(ctx context.Context,
				_ struct{}) (string, error) {
				panic(ctx)
			})
			server.AddTool(s, mcp.Tool{Name: "more"}, func(context.Context, struct{}) (string, error) {
				return "", nil
			}, server.RequireScopes("more"))
			o := &recorder{next: s, kinds: make(map[string]string)}
			endpoint := httptest.NewUnstartedServer(o)
			uri := "http://" + endpoint.Listener.Addr().String() + "/mcp"
			s.Auth = jwt.Protect(&auth.ProtectedResource{URI: uri, Issuers: []string{issuer.URL()},
				Scopes: []string{"mcp"}})
			endpoint.Start()
			defer endpoint.Close()
			defer func() {
				ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
				defer cancel()
				_ = s.Shutdown(ctx)
			}()
			token := func(audience string) string {
				token := must.Get(issuer.Token("ada", audience, "mcp"))(t)
				return token
			}
			for _, audience := range []string{uri, "https://other.example/mcp"} {
				d := client.Dialer{Revision: r, Logger: slog.New(slog.DiscardHandler)}
				d.Elicit = func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
					return nil, errors.New("no user")
				}
				tel.client(&d)
				c, err := d.Dial(t.Context(), &client.HTTPTarget{URL: uri,
					Header: http.Header{"Authorization": {"Bearer " + token(audience)}}})
				if err != nil {
					continue
				}
				for _, tool := range []string{"who", "ask", "lost", "panic", "more", "unknown"} {
					_, _ = c.CallTool(t.Context(), tool, nil, client.WithProgress(func(float64, float64, string) {}))
				}
				_ = c.Close()
			}

			var measured metricdata.ResourceMetrics
			must.Do(t, tel.metrics.Collect(t.Context(), &measured))
			spans := tel.spans.GetSpans()
			var text strings.Builder
			for _, s := range spans {
				attributes := must.Get(json.Marshal(s.Attributes))(t)
				fmt.Fprintf(&text, "%s %s %v %+v\n", s.Name, attributes, s.Status, s.Events)
			}
			fmt.Fprintf(&text, "%+v", measured)
			o.mu.Lock()
			defer o.mu.Unlock()
			seen := make(map[string]bool)
			for secret, kind := range o.kinds {
				seen[kind] = true
				for _, half := range []string{secret[:len(secret)/2], secret[len(secret)/2:]} {
					must.CheckThat(t, !strings.Contains(text.String(), half),
						"telemetry contains a %s: %s", kind, text.String())
				}
			}
			if !seen["token"] || r.Modern() && !seen["requestState"] || !r.Modern() && !seen["session"] ||
				len(spans) < 5 {
				t.Errorf("too few secrets or spans to test: %d spans, %v", len(spans), seen)
			}
		})
	}
}
