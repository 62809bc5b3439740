package inspect

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/recording"
	"github.com/parley-mcp/parley/mcp"
)

func TestExportIsARecording(t *testing.T) {
	for _, revision := range []mcp.Revision{mcp.V20251125, mcp.Latest} {
		one := demoServer(t)
		one.Target.(*client.HTTPTarget).Header = http.Header{"Authorization": {"Bearer secret-1"}}
		p := start(t, one)
		p.connect(func(s *Settings) { s.Revision = revision })
		p.finished(p.call(callRequest{Method: mcp.MethodCallTool, Name: "count", Arguments: json.RawMessage(`{"to":2,"milliseconds":1}`)}))
		status, body := p.do(http.MethodGet, "/api/export", nil)
		header, entries, err := recording.ReadAll(bytes.NewReader(body))
		if status != http.StatusOK || err != nil || header.Target != one.Target.String() {
			t.Fatalf("%s: %d, %v, %+v\n%s", revision, status, err, header, body)
		}
		requests, responses, events := 0, 0, 0
		for _, e := range entries {
			if e.Wire != recording.HTTP || e.Exchange < 1 {
				t.Errorf("%s: %+v", revision, e)
			}
			if e.Request != nil {
				requests++
			}
			if e.Response != nil {
				responses++
			}
			if e.Stream != nil {
				events++
			}
		}
		if requests < 3 || responses < 3 || events < 1 {
			t.Errorf("%s: %d requests, %d responses, %d events\n%s", revision, requests, responses, events, body)
		}
		status, har := p.do(http.MethodGet, "/api/export?format=har", nil)
		if status != http.StatusOK || !strings.Contains(string(har), `"version": "1.2"`) {
			t.Errorf("%s: HAR: %d %.200s", revision, status, har)
		}
		if bytes.Contains(body, []byte("secret-1")) || bytes.Contains(har, []byte("secret-1")) {
			t.Errorf("%s: the export has credentials", revision)
		}
	}
}
