//go:build !race

package bench

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/gatewaytest"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
)

// inProcess answers the requests of a client without a network: with a result by method.
type inProcess map[string]string

// RoundTrip implements http.RoundTripper.
func (p inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	defer r.Body.Close()
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	m, err := jsonrpc.Parse(raw, jsonrpc.Limits{})
	if err != nil {
		return nil, err
	}
	response := jsonrpc.AppendResult(nil, m.ID, []byte(p[m.Method]))
	if p[m.Method] == "" {
		response = jsonrpc.AppendError(nil, m.ID, jsonrpc.Errorf(jsonrpc.CodeMethodNotFound, "no %s", m.Method), false)
	}
	return jsonResponse(r, len(response), bytes.NewReader(response)), nil
}

func jsonResponse(r *http.Request, length int, body io.Reader) *http.Response {
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header:        http.Header{"Content-Type": {"application/json"}},
		ContentLength: int64(length), Body: io.NopCloser(body),
	}
}

// longResult is as inProcess, but the result of tools/call has a long text, which it does not copy.
type longResult struct {
	inProcess
	result string
}

// RoundTrip implements http.RoundTripper.
func (l longResult) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Header.Get("Mcp-Method") != mcp.MethodCallTool {
		return l.inProcess.RoundTrip(r)
	}
	defer r.Body.Close()
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	m, err := jsonrpc.Parse(raw, jsonrpc.Limits{})
	if err != nil {
		return nil, err
	}
	head := append(m.ID.Append([]byte(`{"jsonrpc":"2.0","id":`)), `,"result":`...)
	return jsonResponse(r, len(head)+len(l.result)+1, io.MultiReader(bytes.NewReader(head), strings.NewReader(l.result),
		strings.NewReader("}"))), nil
}

var forwarded = inProcess{
	mcp.MethodDiscover: `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},` +
		`"ttlMs":0,"cacheScope":"private"}`,
	mcp.MethodListTools: `{"resultType":"complete","tools":[{"name":"echo","inputSchema":{"type":"object"}}],` +
		`"ttlMs":0,"cacheScope":"private"}`,
	mcp.MethodCallTool: resultOf(text),
}

// resultOf returns the result of a server's tool.
func resultOf(text string) string {
	return `{"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"up","version":"1"}},` +
		`"content":[{"type":"text","text":"` + text + `"}]}`
}

// newForwarding returns a gateway to a server in this process with the tool echo, and to others, until the test ends.
func newForwarding(t *testing.T, up http.RoundTripper, others ...host.ServerConfig) *server.Server {
	h := &host.Host{Servers: append(others, host.ServerConfig{Name: "up",
		Target: client.URL("http://127.0.0.1:1/mcp")})}
	h.Dialer.HTTPClient = &http.Client{Transport: up}
	s := &server.Server{Name: "gateway", Limits: server.Limits{CallsPerSecond: 1e9}}
	gatewaytest.Run(t, h, s)
	return s
}

func TestAllocationsOfAForwardedCall(t *testing.T) {
	allocs, size := handlerCost(t, newForwarding(t, forwarded), callOf("up__echo"))
	t.Logf("%v allocations, %v bytes", allocs, size)
	if allocs > maxForwardAllocs {
		t.Errorf("%v allocations, the limit is %d", allocs, maxForwardAllocs)
	}
}

// The memory of a long result is used again.
func TestMemoryOfALongForwardedResult(t *testing.T) {
	long := longResult{forwarded, resultOf(strings.Repeat(text+`\n`, 3200))}
	_, size := handlerCost(t, newForwarding(t, long), callOf("up__echo"))
	t.Logf("%v bytes", size)
	if size > maxLongForwardBytes {
		t.Errorf("%v bytes, the limit is %d", size, maxLongForwardBytes)
	}
}

// Servers that are lazy, that end when they are idle or that have lists for each caller cost the calls of others
// nothing.
func TestAllocationsOfAForwardedCallDoNotDependOnOtherServers(t *testing.T) {
	callers := host.NewCallerAuth(func(principal.Principal) (client.Authorizer, error) {
		return nil, errors.ErrUnsupported
	})
	target := client.URL("http://127.0.0.1:1/mcp")
	s := newForwarding(t, forwarded, host.ServerConfig{Name: "lazy", Target: target, Lazy: true},
		host.ServerConfig{Name: "own", Target: target, CallerAuth: callers},
		host.ServerConfig{Name: "idle", Target: target, Idle: time.Hour})
	allocs, size := handlerCost(t, s, callOf("up__echo"))
	t.Logf("%v allocations, %v bytes", allocs, size)
	if allocs > maxForwardAllocs {
		t.Errorf("%v allocations, the limit is %d", allocs, maxForwardAllocs)
	}
}
