package client_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// A pair whose replica ends has status 404, or a text that names the session. The client repeats what the server has
// not served on a new pair, up to twice, because that may be at the next replica that ends.
func TestRequestsAreRepeatedOnANewPair(t *testing.T) {
	for method, rejections := range map[string]int{"initialize": 2, "tools/call": 2, "": 3, "tools/call named": 2} {
		t.Run(method, func(t *testing.T) {
			all := method == ""
			method, named := strings.CutSuffix(method, " named")
			s := &server.Server{Name: "up", Version: "1"}
			server.AddTool(s, mcp.Tool{Name: "echo"}, func(context.Context, struct{}) (string, error) { return "done", nil })
			left := rejections
			endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				if r.Method == http.MethodPost && left > 0 && (all || strings.Contains(string(body), `"`+method+`"`)) {
					left--
					if named { // as the TypeScript SDK's examples do
						http.Error(w, "No transport found for sessionId", http.StatusBadRequest)
						return
					}
					http.NotFound(w, r)
					return
				}
				r.Body = io.NopCloser(strings.NewReader(string(body)))
				s.ServeHTTP(w, r)
			}))
			t.Cleanup(func() {
				_ = s.Shutdown(context.Background())
				endpoint.Close()
			})
			d := &client.Dialer{Revision: mcp.V20241105, HTTPClient: endpoint.Client()}
			d.Discovery = &client.Discovery{Target: endpoint.URL, Revision: mcp.V20241105, HTTPWithSSE: true, ReceivedAt: time.Now()}
			c, err := d.Dial(t.Context(), client.URL(endpoint.URL))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			got, err := client.CallTool[string](t.Context(), c, "echo", nil)
			served := err == nil && got == "done"
			if lost := errors.Is(err, client.ErrConnectionLost); left != 0 || served == all || lost != all {
				t.Errorf("%q %v after %d rejections", got, err, rejections-left)
			}
		})
	}
}
