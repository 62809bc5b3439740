package host_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// catalogServer answers the requests of a client without a network. It does not report changes of its tools, whose
// list is fresh for 150 seconds.
type catalogServer struct {
	tool   atomic.Pointer[string] // the name of its tool
	broken atomic.Bool            // it cannot list its tools
	lists  atomic.Int32           // number of requests for the list
}

// RoundTrip implements http.RoundTripper.
func (s *catalogServer) RoundTrip(r *http.Request) (*http.Response, error) {
	defer r.Body.Close()
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	m, err := jsonrpc.Parse(raw, jsonrpc.Limits{})
	if err != nil {
		return nil, err
	}
	var response []byte
	switch m.Method {
	case mcp.MethodDiscover:
		response = jsonrpc.AppendResult(nil, m.ID, []byte(`{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}`))
	case mcp.MethodListTools:
		s.lists.Add(1)
		response = jsonrpc.AppendResult(nil, m.ID, fmt.Appendf(nil,
			`{"resultType":"complete","tools":[{"name":%q,"inputSchema":{"type":"object"}}],"ttlMs":150000,"cacheScope":"private"}`, *s.tool.Load()))
	}
	if response == nil || m.Method == mcp.MethodListTools && s.broken.Load() {
		response = jsonrpc.AppendError(nil, m.ID, jsonrpc.Errorf(jsonrpc.CodeInternalError, "out of order"), false)
	}
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {"application/json"}}, ContentLength: int64(len(response)), Body: io.NopCloser(bytes.NewReader(response)),
	}, nil
}

// A list is requested again when it is not fresh any more (2026-07-28, server/utilities/caching), and when it could
// not be updated.
func TestListsThatAreNotFreshAreUpdated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &catalogServer{}
		s.tool.Store(new("before"))
		h := start(t, &host.Host{
			Servers: []host.ServerConfig{{Name: "s", Target: client.URL("http://catalog.example/mcp")}},
			Dialer:  client.Dialer{HTTPClient: &http.Client{Transport: s}},
		})
		defer h.Close()
		if err := h.WaitReady(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.tool.Store(new("after"))
		versions := map[uint64]bool{h.Status()[0].Version: true}
		time.Sleep(150 * time.Second)
		if got := mergedNames(h); !slices.Equal(got, []string{"s__before"}) || s.lists.Load() != 1 {
			t.Errorf("while the list is fresh: %q after %d requests", got, s.lists.Load())
		}
		time.Sleep(60 * time.Second)
		if got := mergedNames(h); !slices.Equal(got, []string{"s__after"}) || s.lists.Load() != 2 {
			t.Errorf("after that: %q after %d requests", got, s.lists.Load())
		}
		versions[h.Status()[0].Version] = true
		time.Sleep(time.Hour)
		versions[h.Status()[0].Version] = true
		if n := s.lists.Load(); n < 15 || n > 25 {
			t.Errorf("%d requests in an hour, want one in three minutes", n)
		}
		if len(versions) != 2 {
			t.Errorf("the status has changed with the same list: %v", versions)
		}
		s.broken.Store(true)
		time.Sleep(5 * time.Minute)
		if status := h.Status()[0]; status.State != host.Degraded || len(status.Tools) != 1 {
			t.Errorf("the list cannot be updated: %v, %d tools", status.State, len(status.Tools))
		}
		s.broken.Store(false)
		time.Sleep(61 * time.Second)
		if status := h.Status()[0]; status.State != host.Ready || status.Incomplete != nil {
			t.Errorf("the list can be updated again: %v: %v", status.State, status.Incomplete)
		}
	})
}
