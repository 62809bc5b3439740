package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/transport"
)

// dial connects to scripts in memory.
func dial(t *testing.T, scripts ...*script) (*client.Client, *recorder) {
	t.Helper()
	to, rec := target(scripts...)
	d := quiet()
	c := must.Get(d.Dial(t.Context(), to))(t)
	t.Cleanup(func() { c.Close() })
	return c, rec
}

// withToolAnswers returns a modern server with the given responses to tools/call.
func withToolAnswers(answers ...string) *script {
	s := modernServer()
	s.Answers["tools/call"] = answers
	return s
}

func content(blocks string) string { return `"result":{"content":[` + blocks + `]}` }

type weather struct {
	City    string `json:"city"`
	Degrees int64  `json:"degrees"`
}

func TestCallToolDecodesResults(t *testing.T) {
	c, _ := dial(t, withToolAnswers(
		`"result":{"content":[{"type":"text","text":"ignored"}],"structuredContent":{"city":"Oslo",`+
			`"degrees":9007199254740993}}`,
		content(`{"type":"text","text":"{\"city\":\"Bergen\",\"degrees\":-1}"}`),
		`"result":{"resultType":"complete","content":[],"structuredContent":{"city":"Oslo","degrees":"cold"}}`,
		content(`{"type":"text","text":"no JSON"}`),
		content(``),
		`"result":{"content":[{"type":"text","text":"it is"},{"type":"text","text":"too cold"}],"isError":true}`,
		`"error":{"code":-32602,"message":"unknown tool"}`,
	))
	got := func() (weather, error) { return client.CallTool[weather](t.Context(), c, "weather", nil) }
	must.CheckEqual(t, must.Get(got())(t), (weather{"Oslo", 9007199254740993}))
	must.CheckEqual(t, must.Get(got())(t), (weather{"Bergen", -1}))
	for _, what := range []string{"structured content of the wrong type", "text that is not JSON", "no content"} {
		must.CheckIs(t, must.Err(got()), call.ErrInvalidResponse, what)
	}
	_, err := got()
	var failed *client.ToolError
	must.CheckThat(t, errors.As(err, &failed) && failed.Tool == "weather" && len(failed.Result.Content) == 2 &&
		strings.Contains(err.Error(), "it is\ntoo cold"), "a failed tool: %v", err)
	must.CheckIs(t, must.Err(got()), &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "unknown tool"})
}

// A content block of an unknown type is kept unchanged.
func TestUnknownContentIsKept(t *testing.T) {
	const block = `{"type":"hologram","rays":[1,2.50]}`
	c, _ := dial(t, withToolAnswers(content(block+`,{"type":"text","text":"a","annotations":{"priority":0.5}}`)))
	result := must.Get(c.CallTool(t.Context(), "a", nil))(t)
	must.Equal(t, len(result.Content), 2, result)
	unknown, ok := result.Content[0].(*mcp.UnknownContent)
	if !ok || unknown.Type != "hologram" || string(unknown.Raw) != block {
		t.Errorf("got %#v", result.Content[0])
	}
}

// Rule J9: an unknown resultType makes the result invalid. An older server sends none.
func TestUnknownResultTypesAreInvalid(t *testing.T) {
	c, _ := dial(t, withToolAnswers(
		`"result":{"resultType":"complete","content":[]}`,
		`"result":{"content":[]}`,
		`"result":{"resultType":"partial","content":[]}`,
		`"result":{"resultType":7,"content":[]}`,
		`"result":{"resultType":null,"content":[]}`,
		`"result":[]`,
		`"result":{},"error":{"code":1,"message":"both"}`,
	))
	for i := range 7 {
		_, err := c.CallTool(t.Context(), "a", nil)
		if valid := i < 2; valid != (err == nil) || !valid && !errors.Is(err, call.ErrInvalidResponse) {
			t.Errorf("result %d: %v", i, err)
		}
	}
}

func TestInvalidArgumentsAndMetaAreNotSent(t *testing.T) {
	c, rec := dial(t, modernServer())
	for name, arguments := range map[string]any{
		"a string": "a", "a list": []int{1}, "a number": 7, "a channel": make(chan int),
		"a nil pointer":    (*weather)(nil),
		"a raw JSON array": json.RawMessage(`[]`), "invalid raw JSON": json.RawMessage(`{`),
		"invalid UTF-8": map[string]string{"a": "\xff"},
	} {
		_, err := c.CallTool(t.Context(), "a", arguments)
		must.CheckThat(t, err != nil, "%s was sent as arguments", name)
	}
	for name, meta := range map[string]mcp.Meta{
		"a progress token":   {mcp.MetaProgressToken: json.RawMessage("1")},
		"another version":    {mcp.MetaProtocolVersion: json.RawMessage(`"2025-06-18"`)},
		"a reserved key":     {"io.modelcontextprotocol/new": json.RawMessage("1")},
		"an invalid key":     {"a b/": json.RawMessage("1")},
		"an invalid value":   {"com.example/a": json.RawMessage("{")},
		"no value":           {"com.example/a": nil},
		"a duplicate member": {"com.example/a": json.RawMessage(`{"a":1,"a":2}`)},
	} {
		_, err := c.CallTool(t.Context(), "a", nil, client.WithMeta(meta))
		must.CheckThat(t, err != nil, "%s was sent in _meta", name)
	}
	c.Close()
	must.CheckEqual(t, rec.methods(), probed)
}

func TestArgumentsAreSentUnchanged(t *testing.T) {
	var sent string
	to, _ := target(modernServer())
	d := quiet()
	d.Trace = func(isSent bool, message []byte) {
		if isSent {
			sent = string(message)
		}
	}
	c := must.Get(d.Dial(t.Context(), to))(t)
	defer c.Close()
	for _, test := range []struct {
		arguments any
		want      string
	}{
		{nil, `"params":{"name":"a","_meta":`},
		{map[string]any{}, `"params":{"name":"a","arguments":{},"_meta":`},
		{weather{"Oslo", 9007199254740993},
			`"params":{"name":"a","arguments":{"city":"Oslo","degrees":9007199254740993},"_meta":`},
		{json.RawMessage("{\n\t\"n\": 1.50\n}"), `"params":{"name":"a","arguments":{ 	"n": 1.50 },"_meta":`},
	} {
		meta := mcp.Meta{"com.example/a": json.RawMessage("{\n}"), mcp.MetaTraceParent: json.RawMessage(`"00-a-b-01"`)}
		must.Check(t, must.Err(c.CallTool(t.Context(), "a", test.arguments, client.WithMeta(meta))), test.arguments)
		must.CheckThat(t, strings.Contains(sent, test.want) && strings.Contains(sent, `"com.example/a":{`) &&
			strings.Contains(sent, `"traceparent":"00-a-b-01"`) && !strings.Contains(sent, "\n"),
			"sent %s, want %s", sent, test.want)
	}
}

// Rule J16: in both eras the wait ends, the server receives one cancellation, and the connection
// remains.
func TestCallEndsAtItsTimeout(t *testing.T) {
	for _, s := range []*script{modernServer(), legacyServer()} {
		synctest.Test(t, func(t *testing.T) {
			s.Answers["tools/call"] = []string{"", "", "", called}
			to, rec := target(s)
			d := quiet()
			d.Timeouts.Tool = 3 * time.Second
			d.Timeouts.Max = time.Minute
			c := must.Get(d.Dial(t.Context(), to))(t)
			for _, test := range []struct {
				options []client.CallOption
				want    time.Duration
			}{
				{nil, 3 * time.Second},
				{[]client.CallOption{client.WithTimeout(10 * time.Second)}, 10 * time.Second},
				{[]client.CallOption{client.WithTimeout(-1)}, time.Minute},
			} {
				start := time.Now()
				_, err := c.CallTool(t.Context(), "a", nil, test.options...)
				var timeout *call.TimeoutError
				must.CheckThat(t, errors.As(err, &timeout) && timeout.Method == mcp.MethodCallTool &&
					errors.Is(err, context.DeadlineExceeded) && strings.Count(err.Error(), mcp.MethodCallTool) == 1,
					"got %v", err)
				must.CheckEqual(t, time.Since(start), test.want)
			}
			must.Check(t, must.Err(c.CallTool(t.Context(), "a", nil)))
			c.Close()
			want := "tools/call notifications/cancelled tools/call notifications/cancelled tools/call " +
				"notifications/cancelled tools/call"
			received := rec.methods()
			must.CheckThat(t, strings.HasSuffix(received, want) && strings.Count(received, "cancelled") == 3,
				"the server received %s", received)
		})
	}
}

// Rule J17: the client ignores progress after the response, even when the response is repeated.
func TestProgressArrivesDuringTheCallOnly(t *testing.T) {
	notification := func(n int) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":$id,`+
			`"progress":%d,`+
			`"total":2,"message":"m"}}`, n)
	}
	const response = `{"jsonrpc":"2.0","id":$id,` + called + "}"
	for _, s := range []*script{modernServer(), legacyServer()} {
		s.Answers["tools/call"] = []string{listening(notification(1), notification(2), response, notification(3),
			response)}
		c, _ := dial(t, s)
		for range 100 {
			type report struct {
				done, total float64
				message     string
			}
			var got []report
			done := false
			_, err := c.CallTool(t.Context(), "a", nil, client.WithProgress(func(progress, total float64,
				message string) {
				must.CheckThat(t, !done, "progress arrived after the call")
				got = append(got, report{progress, total, message})
			}))
			done = true
			if err != nil || len(got) != 2 || got[0] != (report{1, 2, "m"}) || got[1].done != 2 {
				t.Fatalf("%s: got progress %+v and error %v", c.Revision(), got, err)
			}
		}
	}
}

func TestManyCallsDoNotGrowTheHeap(t *testing.T) {
	c, _ := dial(t, modernServer())
	calls := func(n int) uint64 {
		for range n {
			must.Get(c.CallTool(t.Context(), "a", map[string]int{"n": n}))(t)
		}
		return liveHeap()
	}
	before := calls(1000)
	after := calls(10_000)
	// The script records the method of each call: 16 bytes, and the spare capacity of its slice.
	grown := int64(after) - int64(before)
	must.CheckThat(t, grown <= 1<<20, "the heap grew by %d bytes after 10,000 calls", grown)
}

// liveHeap returns the size of reachable objects. One collection is not enough: pools are
// emptied by the second one, and a collection keeps the objects allocated while it runs.
func liveHeap() uint64 {
	var m runtime.MemStats
	for range 3 {
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Only the call whose result exceeds the limit fails, wherever the id stands in the response. The connection and the
// calls in flight remain.
func TestTooLargeResultFailsItsCallOnly(t *testing.T) {
	big := strings.Repeat("x", 2000)
	for _, s := range map[string]*script{"2026-07-28": modernServer(), "2025-06-18": legacyServer()} {
		for name, response := range map[string]string{
			"id first": `{"jsonrpc":"2.0","id":$id,"result":{"resultType":"complete","content":[],"x":"` + big + `"}}`,
			"id last":  `{"result":{"content":[{"type":"text","text":"` + big + `"}],"id":99},"jsonrpc":"2.0","id":$id}`,
			"error":    `{"jsonrpc":"2.0","id":$id,"error":{"code":-32603,"message":"` + big + `"}}`,
		} {
			inBubble(t, name, func(t *testing.T) {
				s.Answers["prompts/get"] = []string{""} // it stays in flight
				s.Answers["tools/call"] = []string{"!lines " + response, content(`{"type":"text","text":"small"}`)}
				var serving sync.WaitGroup
				defer serving.Wait()
				to := client.NewTarget(func() transport.Conn {
					near, far := transport.PipeLimits(1000, 1000)
					serving.Go(func() {
						defer far.Close()
						s.serve(far)
					})
					return near
				})
				d := quiet()
				d.OnConnectionLost = func(err error) { t.Errorf("the connection is lost: %v", err) }
				c := must.Get(d.Dial(t.Context(), to))(t)
				defer c.Close()
				other := make(chan error, 1)
				go func() {
					_, err := c.GetPrompt(t.Context(), "a", nil)
					other <- err
				}()
				synctest.Wait()
				began := time.Now()
				_, err := c.CallTool(t.Context(), "a", nil)
				var tooLarge *transport.MessageTooLargeError
				must.CheckThat(t, errors.As(err, &tooLarge) && errors.Is(err, call.ErrInvalidResponse) &&
					time.Since(began) <= 0, "after %v: %v", time.Since(began), err)
				must.CheckContains(t, fmt.Sprint(err), "raise Dialer.MaxMessage", err)
				must.Check(t, must.Err(c.CallTool(t.Context(), "a", nil)), "the next call")
				must.CheckEqual(t, len(other), 0)
				c.Close()
				must.CheckIs(t, <-other, call.ErrClosed)
			})
		}
	}
}

func TestUnknownRevisionIsAnError(t *testing.T) {
	to, rec := target(modernServer())
	d := client.Dialer{Revision: "2000-01-01"}
	must.CheckIs(t, must.Err(d.Dial(t.Context(), to)), call.ErrRevision)
	must.CheckEqual(t, rec.methods(), "")
}

func TestConnIsDialledOnce(t *testing.T) {
	near, far := transport.Pipe()
	var serving sync.WaitGroup
	serving.Go(func() { modernServer().serve(far); far.Close() })
	defer serving.Wait()
	to := client.Conn(near)
	d := quiet()
	c, err := d.Dial(t.Context(), to)
	must.Do(t, err)
	defer c.Close()
	must.CheckIs(t, must.Err(d.Dial(t.Context(), to)), call.ErrConnectionLost, "a second Dial")
	far.Close()
	for err = nil; err == nil; {
		err = c.Ping(t.Context())
	}
	must.CheckIs(t, err, call.ErrConnectionLost)
}
