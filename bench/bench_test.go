package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/transport"
)

var echoResult = []byte(`{"content":[{"type":"text","text":"` + text + `"}]}`)

// BenchmarkHTTPCall measures tools/call over HTTP with 16 connections. The baseline is a handler that decodes the body
// once and writes a response of the same size.
func BenchmarkHTTPCall(b *testing.B) {
	s := newServer()
	for _, m := range []message{modernCall, openSession(b, s)} {
		b.Run(m.name, func(b *testing.B) {
			baseline := newHTTPDriver(b, baselineHandler(echoResult), m, 16)
			ours := newHTTPDriver(b, s, m, 16)
			compare(b, baseline.run(b), ours.run(b))
		})
	}
}

// BenchmarkStreamCall measures tools/call over a byte stream with 64 calls in flight. The baseline decodes each line
// once.
func BenchmarkStreamCall(b *testing.B) {
	for _, m := range []message{modernCall, legacyCall} {
		b.Run(m.name, func(b *testing.B) {
			baseline := newLineDriver(b, m, func(in, out *os.File) { baselineStream(in, out, echoResult) })
			ours := newLineDriver(b, m, func(in, out *os.File) {
				_ = newServer().ServeConn(context.Background(),
					transport.Stream(twoFiles{in, out}, transport.StreamOptions{}))
			})
			if m.name != modernCall.name {
				ours.open(b)
			}
			compare(b, baseline.run(b), ours.run(b))
		})
	}
}

// BenchmarkClientInMemory measures our client with our server in memory. The baseline is two goroutines that encode and
// decode each part of a call once.
func BenchmarkClientInMemory(b *testing.B) {
	requests, responses := make(chan []byte), make(chan []byte)
	defer close(requests)
	go baselinePeer(requests, responses)
	id := 0
	c := mcptest.Dial(b, newServer())
	compare(b, func(n int) {
		for range n {
			id++
			baselineCall(b, id, requests, responses)
		}
	}, func(n int) {
		for range n {
			callEcho(b, c)
		}
	})
}

// BenchmarkClientHTTP measures our client with our server over the loopback interface.
func BenchmarkClientHTTP(b *testing.B) {
	for _, r := range []mcp.Revision{mcp.V20260728, mcp.V20251125} {
		b.Run(string(r), func(b *testing.B) {
			baseline := baselineClient(b)
			endpoint := httptest.NewServer(newServer())
			b.Cleanup(endpoint.Close)
			c := must.Get((&client.Dialer{Revision: r}).Dial(b.Context(), client.URL(endpoint.URL)))(b)
			b.Cleanup(func() { c.Close() })
			compare(b, baseline, func(n int) {
				for range n {
					callEcho(b, c)
				}
			})
		})
	}
}

// baselineClient returns a function that sends a prepared request to the baseline handler with net/http and decodes the
// response once.
func baselineClient(b testing.TB) func(n int) {
	s := httptest.NewServer(baselineHandler(echoResult))
	b.Cleanup(s.Close)
	return func(n int) {
		for range n {
			req := must.Get(http.NewRequest(http.MethodPost, s.URL, bytes.NewReader(modernCall.body)))(b)
			for name, value := range modernCall.header {
				req.Header[name] = []string{value}
			}
			resp := must.Get(s.Client().Do(req))(b)
			var m struct {
				Result baselineContent `json:"result"`
			}
			data, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || json.Unmarshal(data, &m) != nil || m.Result.Content[0].Text != text {
				b.Fatal("malformed response")
			}
		}
	}
}

// BenchmarkListTools measures tools/list over HTTP. In one case all callers see all 1,000 tools. In another case the
// server has 200 tools, and server.VisibleTo restricts one of them. In the last case, a caller has 1,000 tools of which
// 800 are its own.
func BenchmarkListTools(b *testing.B) {
	b.Run("shared", func(b *testing.B) { benchmarkList(b, newManyTools(999)) })
	b.Run("restricted", func(b *testing.B) { benchmarkList(b, newRestricted()) })
	b.Run("merged", func(b *testing.B) { benchmarkList(b, newMerged()) })
}

// newMerged returns a server with 200 tools, whose callers have 800 more.
func newMerged() *server.Server {
	s, others := newManyTools(199), newManyTools(999)
	for i := range 199 {
		others.RemoveTool(fmt.Sprintf("tool-%03d", i))
	}
	others.RemoveTool("echo")
	s.Catalogs = func(context.Context) ([]*server.Catalog, error) { return []*server.Catalog{&others.Catalog}, nil }
	return s
}

func newManyTools(n int) *server.Server {
	s := newServer()
	for i := range n {
		server.AddTool(s, mcp.Tool{Name: fmt.Sprintf("tool-%03d", i),
			Description: "One of many tools that a model can call."},
			func(context.Context, struct {
				Query string `json:"query" doc:"search terms"`
				Limit int    `json:"limit,omitempty" minimum:"1" maximum:"100"`
			}) (string, error) {
				return "", nil
			})
	}
	return s
}

// newRestricted returns a server with 200 tools. One tool has the option server.VisibleTo.
func newRestricted() *server.Server {
	s := newManyTools(198)
	server.AddTool(s, mcp.Tool{Name: "restricted"}, func(context.Context, struct{}) (string, error) { return "", nil },
		server.VisibleTo(func(principal.Principal, string) bool { return true }))
	return s
}

// listMessage is a request for tools/list.
func listMessage() message {
	m := modernCall
	m.body = []byte(strings.Replace(strings.Replace(string(m.body), `"name":"echo","arguments":{"text":"`+text+`"},`,
		"", 1), "tools/call", "tools/list", 1))
	m.header = map[string]string{"Mcp-Method": "tools/list"}
	for name, value := range modernCall.header {
		if name != "Mcp-Method" && name != "Mcp-Name" {
			m.header[name] = value
		}
	}
	return m
}

func benchmarkList(b *testing.B, s *server.Server) {
	m := listMessage()
	ours := newHTTPDriver(b, s, m, 1)
	baseline := newHTTPDriver(b, baselineHandler(listOf(b, s)), m, 1)
	compare(b, baseline.run(b), ours.run(b))
}

// BenchmarkBigResult measures a result with 1 MiB of text over HTTP.
func BenchmarkBigResult(b *testing.B) {
	big := strings.Repeat("A line of text, \"quoted\" here and there.\n", 1<<20/41)
	s := newServer()
	server.AddTool(s, mcp.Tool{Name: "big", Description: "Return a long text."},
		func(context.Context, struct{}) (string, error) { return big, nil })
	m := modernCall
	m.body = []byte(strings.Replace(string(m.body), `"name":"echo","arguments":{"text":"`+text+`"}`, `"name":"big"`, 1))
	m.header = map[string]string{"Mcp-Name": "big"}
	for name, value := range modernCall.header {
		if name != "Mcp-Name" {
			m.header[name] = value
		}
	}
	result := must.Get(json.Marshal(mcp.CallToolResult{Content: []mcp.Content{mcp.Text(big)}}))(b)
	b.SetBytes(int64(len(result)))
	ours := newHTTPDriver(b, s, m, 1)
	baseline := newHTTPDriver(b, baselineHandler(result), m, 1)
	compare(b, baseline.run(b), ours.run(b))
}

func listOf(b *testing.B, s *server.Server) []byte {
	c := mcptest.Dial(b, s)
	var list mcp.ListToolsResult
	for tool, err := range c.Tools(b.Context()) {
		must.Do(b, err)
		list.Tools = append(list.Tools, *tool)
	}
	raw := must.Get(json.Marshal(list))(b)
	return raw
}

// twoFiles is a stream of two pipes.
type twoFiles struct{ in, out *os.File }

func (t twoFiles) Read(p []byte) (int, error)  { return t.in.Read(p) }
func (t twoFiles) Write(p []byte) (int, error) { return t.out.Write(p) }
func (t twoFiles) Close() error {
	t.in.Close()
	return t.out.Close()
}

// lineDriver writes requests to a pipe and counts the lines of the responses.
type lineDriver struct {
	request []byte
	in      *os.File // to the server
	out     *bufio.Reader
}

const linesInFlight = 64

func newLineDriver(b *testing.B, m message, serve func(in, out *os.File)) *lineDriver {
	serverIn, in := pipe(b)
	out, serverOut := pipe(b)
	done := make(chan struct{})
	go func() {
		defer close(done)
		serve(serverIn, serverOut)
	}()
	b.Cleanup(func() {
		in.Close()
		<-done
		for _, f := range []*os.File{serverIn, serverOut, out} {
			f.Close()
		}
	})
	return &lineDriver{request: append([]byte(nil), m.body...), in: in, out: bufio.NewReaderSize(out, 256<<10)}
}

func pipe(b *testing.B) (r, w *os.File) {
	r, w, err := os.Pipe()
	must.Do(b, err)
	return r, w
}

// open performs the handshake.
func (d *lineDriver) open(b *testing.B) {
	for _, m := range []message{initialize, initialized} {
		must.Do(b, must.Err(d.in.Write(append(append([]byte(nil), m.body...), '\n'))))
	}
	must.Do(b, must.Err(d.out.ReadSlice('\n')))
}

// run returns a function that makes n calls. It keeps linesInFlight calls in flight, each with its own id.
func (d *lineDriver) run(b *testing.B) func(n int) {
	id := 0
	var batch []byte
	return func(n int) {
		sent, received := 0, 0
		for received < n {
			batch = batch[:0]
			for sent < n && sent-received < linesInFlight {
				id++
				sent++
				batch = append(batch, `{"jsonrpc":"2.0","id":`...)
				batch = fmt.Appendf(batch, "%d", id)
				batch = append(append(batch, d.request[len(`{"jsonrpc":"2.0","id":7`):]...), '\n')
			}
			must.Do(b, must.Err(d.in.Write(batch)))
			for more := true; more; more = d.out.Buffered() > 0 && received < n {
				must.Do(b, must.Err(d.out.ReadSlice('\n')))
				received++
			}
		}
	}
}

// The baseline of our client with our server has no sessions, no dispatch and no validation.
type baselineParams struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

type baselineMessage struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      int             `json:"id"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
}

type baselineContent struct {
	Content []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	} `json:"content"`
}

func baselinePeer(requests <-chan []byte, responses chan<- []byte) {
	for data := range requests {
		var m baselineMessage
		var p baselineParams
		var a echoArgs
		if json.Unmarshal(data, &m) != nil || json.Unmarshal(m.Params, &p) != nil ||
			json.Unmarshal(p.Arguments, &a) != nil {
			panic("malformed request")
		}
		result := baselineContent{}
		result.Content = append(result.Content, struct {
			Type string `json:"type"`
			Text string `json:"text"`
		}{"text", a.Text})
		raw, _ := json.Marshal(result)
		out, _ := json.Marshal(baselineMessage{JSONRPC: "2.0", ID: m.ID, Result: raw})
		responses <- out
	}
}

func baselineCall(b *testing.B, id int, requests chan<- []byte, responses <-chan []byte) {
	a, _ := json.Marshal(echoArgs{text})
	p, _ := json.Marshal(baselineParams{"echo", a})
	data, _ := json.Marshal(baselineMessage{JSONRPC: "2.0", ID: id, Method: "tools/call", Params: p})
	requests <- data
	var m baselineMessage
	var result baselineContent
	must.Do(b, json.Unmarshal(<-responses, &m))
	err := json.Unmarshal(m.Result, &result)
	must.That(b, err == nil && result.Content[0].Text == text, "%v", err)
}
