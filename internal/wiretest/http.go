// Package wiretest contains clients over HTTP and byte streams that send what a test writes, message by message,
// including what package client would never send. Only tests import it.
package wiretest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/jsonrpc"
)

// Patience is how long a test waits for a message that should arrive at once.
const Patience = 20 * time.Second

const (
	// Meta is the _meta of a request of 2026-07-28.
	Meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientCapabilities":{}}`

	// Initialize is the first request of a session. Its only formatting verb is the revision.
	Initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"%s",` +
		`"clientInfo":{"name":"c","version":"1"},"capabilities":{}}}`

	// Initialized is the notification that ends the handshake.
	Initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
)

// NewRequest returns an HTTP request for a server or a handler. header contains pairs of a name and a value. A POST
// carries the Content-Type and Accept of a client; a header replaces them, or removes them if its value is empty. The
// headers Host and RemoteAddr set the fields of the request. NewRequest panics if method or url is invalid.
func NewRequest(ctx context.Context, method, url, body string, header ...string) *http.Request {
	req := httptest.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	req.RequestURI = ""
	if body == "" {
		req.Body, req.ContentLength = http.NoBody, 0
	}
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
	}
	for i := 0; i < len(header); i += 2 {
		switch name, value := header[i], header[i+1]; {
		case name == "Host":
			req.Host = value
		case name == "RemoteAddr":
			req.RemoteAddr = value
		case value == "":
			req.Header.Del(name)
		case name == "Content-Type" || name == "Accept":
			req.Header.Set(name, value)
		default:
			req.Header.Add(name, value)
		}
	}
	return req
}

// Do sends a request, and fails the test if it cannot. The response ends with the test.
func Do(t testing.TB, method, url, body string, header ...string) *http.Response {
	t.Helper()
	return DoWith(t, http.DefaultClient, method, url, body, header...)
}

// DoWith sends a request as Do does, with c.
func DoWith(t testing.TB, c *http.Client, method, url, body string, header ...string) *http.Response {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	t.Cleanup(cancel)
	resp, err := c.Do(NewRequest(ctx, method, url, body, header...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// Record passes a request to a handler without a network.
func Record(h http.Handler, method, url, body string, header ...string) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, NewRequest(context.Background(), method, url, body, header...))
	return rec
}

// Serve serves a server over HTTP until the test ends, and returns its URL. What is in flight then has five seconds.
func Serve(t testing.TB, s interface {
	http.Handler
	Shutdown(ctx context.Context) error
}) string {
	endpoint := httptest.NewServer(s)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = s.Shutdown(ctx)
		endpoint.CloseClientConnections()
		endpoint.Close()
	})
	return endpoint.URL
}

// Text reads a response to its end.
func Text(t testing.TB, resp *http.Response) string {
	t.Helper()
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// Modern returns the body and the headers of a request of 2026-07-28 whose params contain members.
func Modern(id, method, members string) (body string, header []string) {
	header = []string{"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", method}
	for _, name := range []string{"name", "uri", "taskId"} {
		if raw, ok := jsonrpc.Get([]byte("{"+members+"}"), name); ok && raw[0] == '"' {
			header = append(header, "Mcp-Name", jsonrpc.Unquote(raw))
			break
		}
	}
	if members != "" {
		members += ","
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{%s%s}}`, id, method, members, Meta), header
}

// Session starts a session of a revision, and returns the headers of its requests. They include the given headers.
func Session(t testing.TB, url, revision string, header ...string) []string {
	t.Helper()
	resp := Do(t, http.MethodPost, url, fmt.Sprintf(Initialize, revision), header...)
	id := resp.Header.Get("Mcp-Session-Id")
	if text := Text(t, resp); resp.StatusCode != http.StatusOK || id == "" {
		t.Fatalf("initialize: %s %s", resp.Status, text)
	}
	header = append(header[:len(header):len(header)], "Mcp-Session-Id", id, "MCP-Protocol-Version", revision)
	resp = Do(t, http.MethodPost, url, Initialized, header...)
	if text := Text(t, resp); resp.StatusCode != http.StatusAccepted || text != "" {
		t.Fatalf("initialized: %s %s", resp.Status, text)
	}
	return header
}
