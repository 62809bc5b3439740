package server_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/mcp"
)

// A GET that names no session opens the HTTP+SSE pair, also if its client sends the version
// header with its requests.
func TestAGETWithoutASessionOpensThePairWithAnyLegacyVersion(t *testing.T) {
	e := newEndpoint(t)
	for _, r := range mcp.Revisions() {
		if r.Modern() {
			continue
		}
		version := []string{"MCP-Protocol-Version", string(r)}
		stream := wiretest.Stream(t, e.open(t.Context(), "GET", "/", "", append(version, "Accept", "text/event-stream")...))
		first, _ := stream.Next()
		if first.Name != "endpoint" {
			t.Errorf("%s: the stream begins with %+v", r, first)
			continue
		}
		if a := e.do("POST", first.Data, fmt.Sprintf(wiretest.Initialize, r), version...); a.status != http.StatusAccepted {
			t.Errorf("%s: %s", r, a)
		}
		if data := stream.Data(); !strings.Contains(data, `"protocolVersion":"`+string(r)+`"`) {
			t.Errorf("%s: %s", r, data)
		}
	}
}

// A browser reads a path that begins with two slashes as a host, and a backslash as a slash. A
// line break begins another field of the event. So the endpoint contains none of them.
// Rule T5.
func TestTheEndpointIsAPathOfThisServer(t *testing.T) {
	for path, want := range map[string]string{
		"//evil.example/mcp": "/evil.example/mcp",
		`/\evil.example/mcp`: "/%5Cevil.example/mcp", `//\evil.example`: "/%5Cevil.example", `/\/evil.example`: "/%5C/evil.example",
		"/a\ndata: b": "/a%0Adata:%20b", "/a\r\n\r\nevent: endpoint": "/a%0D%0A%0D%0Aevent:%20endpoint", "/ä": "/%C3%A4", "/a%5Cb": "/a%5Cb",
	} {
		synctest.Test(t, func(t *testing.T) {
			s := httpServer()
			ctx, hangUp := context.WithCancel(t.Context())
			req := httptest.NewRequest("GET", "/", nil).WithContext(ctx)
			req.Host, req.RequestURI = "localhost", path+"?x"
			rec := httptest.NewRecorder()
			done := make(chan struct{})
			go func() {
				s.ServeHTTP(rec, req)
				close(done)
			}()
			synctest.Wait()
			hangUp()
			<-done
			first, _, _ := strings.Cut(rec.Body.String(), "\n\n")
			endpoint, ok := strings.CutPrefix(first, "event: endpoint\ndata: "+want+"?sessionId=")
			if u, err := url.Parse(want + endpoint); !ok || err != nil || u.Host != "" {
				t.Errorf("%q: %q, want the path %q", path, first, want)
			}
		})
	}
}
