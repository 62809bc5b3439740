package corpus_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/transport"
)

// hostile is a server that sends the bytes of a case before the good response to a call.
type hostile struct {
	revision mcp.Revision
	next     atomic.Pointer[attack] // attack on the next call
}

// attack is the input of a client case.
type attack struct {
	bytes func(id string) []byte
	raw   bool // bytes of an event stream instead of a message
}

// goodText is the text of the good response, and caseText the text of results in the corpus.
const goodText, caseText = "good", "case"

// result returns the field "result" of a response to tools/call.
func (h *hostile) result(text string) string {
	if h.revision.Modern() {
		return `"result":{"resultType":"complete","content":[{"type":"text","text":"` + text + `"}]}`
	}
	return `"result":{"content":[{"type":"text","text":"` + text + `"}]}`
}

// answer returns the good response to a message, or "" if there is none, and the attack to send before it.
func (h *hostile) answer(m *jsonrpc.Message) (response string, a *attack) {
	if m.Kind != jsonrpc.Request {
		return "", nil
	}
	body := `"error":{"code":-32601,"message":"no such method"}`
	switch m.Method {
	case mcp.MethodDiscover:
		if h.revision.Modern() {
			body = `"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},` +
				`"ttlMs":0,"cacheScope":"private"}`
		}
	case mcp.MethodInitialize:
		if !h.revision.Modern() {
			body = `"result":{"protocolVersion":"` + string(h.revision) +
				`","capabilities":{"tools":{}},"serverInfo":{"name":"hostile","version":"1"}}`
		}
	case mcp.MethodListTools:
		body = `"result":{"tools":[{"name":"a","inputSchema":{"type":"object"}}]}`
		if h.revision.Modern() {
			body = `"result":{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[{"name":"a",` +
				`"inputSchema":{"type":"object"}}]}`
		}
	case mcp.MethodPing:
		body = `"result":{}`
	case mcp.MethodCallTool:
		body = h.result(goodText)
		a = h.next.Swap(nil)
	}
	return `{"jsonrpc":"2.0","id":` + m.ID.String() + `,` + body + `}`, a
}

// serveConn serves a connection until it ends.
func (h *hostile) serveConn(conn transport.Conn) {
	ctx := context.Background()
	for {
		line, err := conn.Read(ctx)
		if err != nil {
			return
		}
		m, err := jsonrpc.Parse(line, jsonrpc.Limits{})
		if err != nil {
			panic(fmt.Sprintf("the client sent %s: %v", line, err))
		}
		response, a := h.answer(&m)
		if a != nil {
			_ = conn.Write(ctx, a.bytes(m.ID.String()))
		}
		if response != "" {
			_ = conn.Write(ctx, []byte(response))
		}
	}
}

// serveStream serves a byte stream until it ends. There, an attack may be any bytes.
func (h *hostile) serveStream(conn net.Conn) {
	scan := bufio.NewScanner(conn)
	scan.Buffer(nil, 64<<20)
	for scan.Scan() {
		m, err := jsonrpc.Parse(bytes.Clone(scan.Bytes()), jsonrpc.Limits{})
		if err != nil {
			panic(fmt.Sprintf("the client sent %s: %v", scan.Bytes(), err))
		}
		response, a := h.answer(&m)
		if a != nil {
			response = string(a.bytes(m.ID.String())) + "\n" + response
		}
		if response != "" {
			_, _ = io.WriteString(conn, response+"\n")
		}
	}
}

// ServeHTTP serves Streamable HTTP. The response to a call is an event stream.
func (h *hostile) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if r.Method != http.MethodPost || err != nil {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	m, err := jsonrpc.Parse(body, jsonrpc.Limits{})
	if err != nil {
		panic(fmt.Sprintf("the client sent %s: %v", body, err))
	}
	response, a := h.answer(&m)
	switch {
	case response == "":
		w.WriteHeader(http.StatusAccepted)
	case a != nil:
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write(a.events(m.ID.String()))
		_, _ = io.WriteString(w, "data: "+response+"\n\n")
	default:
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, response)
	}
}

// events returns the attack in the form of an event stream.
func (a *attack) events(id string) []byte {
	text := a.bytes(id)
	if a.raw {
		return text
	}
	var b bytes.Buffer
	for line := range bytes.SplitSeq(text, []byte("\n")) {
		b.WriteString("data: ")
		b.Write(line)
		b.WriteString("\n")
	}
	b.WriteString("\n")
	return b.Bytes()
}

// asJSON serves Streamable HTTP, but sends the attack as the JSON body of the response.
func (h *hostile) asJSON(w http.ResponseWriter, r *http.Request) {
	a := h.next.Load()
	body, _ := io.ReadAll(r.Body)
	if m, err := jsonrpc.Parse(bytes.Clone(body), jsonrpc.Limits{}); a != nil && err == nil &&
		m.Method == mcp.MethodCallTool {
		h.next.Store(nil)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(a.bytes(m.ID.String()))
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	h.ServeHTTP(w, r)
}

// pair returns a handler for HTTP+SSE.
func (h *hostile) pair() http.HandlerFunc {
	out := make(chan []byte, 100)
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "event: endpoint\ndata: /messages\n\n")
			for {
				_ = http.NewResponseController(w).Flush()
				select {
				case text := <-out:
					_, _ = w.Write(text)
				case <-r.Context().Done():
					return
				}
			}
		}
		if r.URL.Path != "/messages" { // a POST from another transport
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		body, _ := io.ReadAll(r.Body)
		m, err := jsonrpc.Parse(body, jsonrpc.Limits{})
		if err != nil {
			panic(fmt.Sprintf("the client sent %s: %v", body, err))
		}
		w.WriteHeader(http.StatusAccepted)
		response, a := h.answer(&m)
		var text []byte
		if a != nil {
			text = a.events(m.ID.String())
		}
		if response != "" {
			text = append(text, "event: message\ndata: "+response+"\n\n"...)
		}
		out <- text
	}
}

// target returns a target for a surface.
func (h *hostile) target(t *testing.T, surface string) client.Target {
	done := make(chan struct{})
	serve := func(end io.Closer, f func()) {
		go func() {
			defer close(done)
			f()
		}()
		t.Cleanup(func() {
			end.Close()
			<-done
		})
	}
	switch surface {
	case "memory", "gateway":
		near, far := transport.PipeLimits(transport.DefaultClientMaxMessage, 64<<20)
		serve(far, func() { h.serveConn(far) })
		return client.Conn(near)
	case "stream":
		near, far := net.Pipe()
		serve(far, func() { h.serveStream(far) })
		return client.Conn(transport.Stream(near,
			transport.StreamOptions{MaxMessage: transport.DefaultClientMaxMessage}))
	}
	handler := map[string]http.Handler{"http": h, "json": http.HandlerFunc(h.asJSON), "pair": h.pair()}[surface]
	endpoint := httptest.NewServer(handler)
	t.Cleanup(func() {
		endpoint.CloseClientConnections()
		endpoint.Close()
	})
	return client.URL(strings.Replace(endpoint.URL, "127.0.0.1", "localhost", 1))
}
