package inspect

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/demo"
	"github.com/parley-mcp/parley/cmd/parley/internal/traffic"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/transport"
)

func TestExportIsARecording(t *testing.T) {
	for _, revision := range []mcp.Revision{mcp.V20251125, mcp.Latest} {
		one := demoServer(t)
		one.Target.(*client.HTTPTarget).Header = http.Header{"Authorization": {"Bearer secret-1"}}
		p := start(t, one)
		p.connect(func(s *Settings) { s.Revision = revision })
		p.finished(p.call(callRequest{Method: mcp.MethodCallTool, Name: "count", Arguments: json.RawMessage(`{"to":2,"milliseconds":1}`)}))
		status, body := p.do(http.MethodGet, "/api/export", nil)
		header, entries, err := traffic.ReadAll(bytes.NewReader(body))
		if status != http.StatusOK || err != nil || header.Target != one.Target.String() {
			t.Fatalf("%s: %d, %v, %+v\n%s", revision, status, err, header, body)
		}
		requests, responses, events := 0, 0, 0
		for _, e := range entries {
			if e.Wire != traffic.HTTP || e.Exchange < 1 {
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

func TestTrafficIsRecordedWhileThePageRuns(t *testing.T) {
	near, far := transport.Pipe()
	piped := demo.New("test")
	piped.Logger = slog.New(slog.DiscardHandler)
	served := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { served <- piped.ServeConn(ctx, far) }()
	defer func() {
		cancel()
		<-served
	}()
	other := serverAt("piped")
	other.Target = client.Conn(near)
	for name, servers := range map[string][]Server{"one": {demoServer(t)}, "two": {demoServer(t), other}} {
		var file bytes.Buffer
		w, err := traffic.NewWriter(&file, traffic.WriterOptions{Target: servers[0].Target.String()})
		if err != nil {
			t.Fatal(err)
		}
		p := run(t, &Inspector{Servers: servers, Record: func(e traffic.Event) {
			if err := w.Write(e); err != nil {
				t.Error(err)
			}
		}})
		for _, revision := range []mcp.Revision{mcp.V20251125, mcp.Latest} { // two connections
			p.connect(func(s *Settings) { s.Revision = revision })
			p.await("the other connection", func() bool { return p.servers[0].State == stateReady && p.servers[0].Revision == revision })
			p.finished(p.call(callRequest{Method: mcp.MethodCallTool, Name: "greet", Arguments: json.RawMessage(`{"name":"Ada"}`)}))
		}
		if name == "two" {
			p.post("/api/servers/piped/connect", defaultSettings(""), nil)
			p.await("connection", func() bool { return p.servers[1].State == stateReady })
			p.post("/api/servers/piped/disconnect", none{}, nil)
		}
		p.stop()
		_, entries, err := traffic.ReadAll(&file)
		if err != nil {
			t.Fatal(err)
		}
		requests := make(map[int64]bool)
		calls := 0
		for _, e := range entries {
			if e.Request != nil {
				if requests[e.Exchange] {
					t.Errorf("%s: two requests have the number %d", name, e.Exchange)
				}
				requests[e.Exchange] = true
			}
			if bytes.Contains(e.Message, []byte("Hello, Ada")) {
				calls++
			}
			want := map[string]map[traffic.Wire]string{"one": {traffic.HTTP: ""}, "two": {traffic.HTTP: "demo", traffic.Stdio: "piped"}}[name]
			if peer, ok := want[e.Wire]; !ok || e.Peer != peer {
				t.Errorf("%s: %+v", name, e)
			}
		}
		if calls != 2 {
			t.Errorf("%s: %d results are recorded", name, calls)
		}
	}
}
