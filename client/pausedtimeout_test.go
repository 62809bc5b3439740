package client_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/outbound"
	"github.com/parley-mcp/parley/mcp"
)

// slowLogin is an authorizer that pauses time-outs while the user logs in, as package
// auth/oauth does.
type slowLogin struct{ takes time.Duration }

func (slowLogin) Authorize(req *http.Request, _ string) error {
	req.Header.Set("Authorization", "Bearer "+req.Header.Get("X-Token"))
	return nil
}

func (l slowLogin) Reauthorize(req *http.Request, _ string, _ *http.Response) (bool, error) {
	resume := outbound.PauseTimeouts(req.Context())
	defer resume()
	select {
	case <-time.After(l.takes):
		req.Header.Set("X-Token", "token")
		return true, nil
	case <-req.Context().Done():
		return false, req.Context().Err()
	}
}

// A login may take longer than the time-out of the request that needs it, in each revision.
func TestALoginDoesNotCountForTheTimeoutOfARequest(t *testing.T) {
	for _, r := range []mcp.Revision{mcp.V20251125, mcp.V20260728} {
		s := weatherServer()
		asked := false
		endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if !asked {
				asked = true
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			s.ServeHTTP(w, req)
		}))
		defer endpoint.Close()
		d := client.Dialer{
			Revision: r,
			Auth:     slowLogin{takes: 1500 * time.Millisecond},
			Timeouts: client.Timeouts{Initialize: time.Second},
		}
		c, err := d.Dial(t.Context(), client.URL(endpoint.URL))
		if err != nil {
			t.Errorf("%s: %v", r, err)
			continue
		}
		c.Close()
	}
}
