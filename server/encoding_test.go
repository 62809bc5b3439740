package server_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/mcp"
)

// A body with a content coding is rejected, whether or not it would parse (RFC 9110, section
// 15.5.16).
func TestBodiesWithAContentCodingAreUnsupported(t *testing.T) {
	e := newEndpoint(t)
	session := e.session("2025-03-26")
	pair := e.pair("/")
	compress := func(body string) string {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = w.Write([]byte(body))
		w.Close()
		return b.String()
	}
	modernBody, modernHeader := wiretest.Modern("1", mcp.MethodDiscover, "")
	for name, request := range map[string]struct {
		path, body string
		header     []string
		status     int // without a coding
	}{
		"stateless": {"/", modernBody, modernHeader, http.StatusOK},
		"handshake": {"/", fmt.Sprintf(wiretest.Initialize, "2025-11-25"), nil, http.StatusOK},
		"session":   {"/", pingBody, session, http.StatusOK},
		"batch":     {"/", "[" + pingBody + "]", session, http.StatusOK},
		"pair":      {pair.endpoint, pingBody, nil, http.StatusAccepted},
	} {
		for _, coding := range []string{"gzip", "br", "deflate", "GZIP", "identity, gzip", "x"} {
			for _, body := range []string{request.body, compress(request.body)} {
				a := e.do("POST", request.path, body, append(request.header, "Content-Encoding", coding)...)
				if a.status != http.StatusUnsupportedMediaType || a.header.Get("Accept-Encoding") != "identity" || !strings.Contains(a.body, `"code":-32600`) {
					t.Errorf("%s, %s: %s", name, coding, a)
				}
			}
		}
		for _, coding := range []string{"identity", "Identity"} {
			if a := e.do("POST", request.path, request.body, append(request.header, "Content-Encoding", coding)...); a.status != request.status {
				t.Errorf("%s, %s: %s", name, coding, a)
			}
		}
	}
}
