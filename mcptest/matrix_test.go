package mcptest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/spec"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
)

// The matrix tests each feature on every transport of every revision, and validates
// every message against the official schema of its revision.

// tap validates and records every message of a client.
type tap struct {
	t         *testing.T
	revision  mcp.Revision
	transport string

	mu      sync.Mutex
	methods map[jsonrpc.ID]string // of the requests of both sides, whose ids differ
	seen    map[string]int        // number of messages by method
}

func (tp *tap) message(sent bool, raw []byte) {
	tp.mu.Lock()
	defer tp.mu.Unlock()
	m, err := jsonrpc.Parse(append([]byte(nil), raw...), jsonrpc.Limits{})
	if err != nil {
		tp.t.Errorf("sent=%v %s: %v", sent, raw, err)
		return
	}
	method := m.Method
	switch m.Kind {
	case jsonrpc.Request:
		tp.methods[m.ID] = m.Method
	case jsonrpc.Response:
		method = tp.methods[m.ID]
	}
	tp.seen[method]++
	switch m.Kind {
	case jsonrpc.Response:
		for _, method := range inputMethods(m.Raw) {
			recordCell(cell{tp.revision, tp.transport, method, sent})
		}
	default:
		recordCell(cell{tp.revision, tp.transport, method, sent})
	}
	must.Check(tp.t, spec.ValidateMessage(tp.revision, raw, method), sent, raw)
	for _, member := range modernMembers { // the older schemas allow further members
		must.CheckThat(tp.t, tp.revision.Modern() || !bytes.Contains(raw, []byte(member)),
			"sent=%v %s\nhas %s, which is of 2026-07-28", sent, raw, member)
	}
}

// modernMembers are members and keys that a message before 2026-07-28 must not have.
var modernMembers = []string{
	`"resultType"`, `"ttlMs"`, `"cacheScope"`, `"inputRequests"`, `"inputResponses"`, `"requestState"`,
	`"` + mcp.MetaProtocolVersion + `"`, `"` + mcp.MetaClientInfo + `"`, `"` + mcp.MetaClientCapabilities + `"`,
	`"` + mcp.MetaLogLevel + `"`, `"` + mcp.MetaServerInfo + `"`, `"` + mcp.MetaSubscriptionID + `"`, `"2026-07-28"`,
}

// everywhere is mcptest.Everywhere with a tap.
func everywhere(t *testing.T, s func() *server.Server, f func(t *testing.T, c *client.Client),
	configure ...func(*client.Dialer)) {
	for _, r := range mcp.Revisions() {
		for _, tr := range mcptest.Transports() {
			if !tr.Supports(r) {
				continue
			}
			t.Run(string(r)+"/"+tr.Name, func(t *testing.T) {
				tp := &tap{t: t, revision: r, transport: tr.Name, methods: make(map[jsonrpc.ID]string),
					seen: make(map[string]int)}
				configure := append([]func(*client.Dialer){mcptest.WithRevision(r),
					func(d *client.Dialer) { d.Trace = tp.message }}, configure...)
				c := tr.Dial(t, s(), configure...)
				must.Equal(t, c.Revision(), r, "the negotiated revision")
				f(t, c)
				tp.mu.Lock()
				defer tp.mu.Unlock()
				must.That(t, len(tp.seen) != 0, "the tap has recorded no message")
			})
		}
	}
}

type countParams struct {
	To int `json:"to" minimum:"1" doc:"how far to count"`
}

type place struct {
	City string `json:"city"`
}

type weather struct {
	City    string  `json:"city"`
	Degrees float64 `json:"degrees"`
}

// newServer returns a server with one tool for each kind of behaviour.
func newServer() *server.Server {
	s := &server.Server{
		Name: "matrix", Version: "1.2.3", Info: mcp.Implementation{Title: "The matrix"}, Instructions: "Call the tools.",
		Logger: slog.New(slog.DiscardHandler), // the panics are intended
	}
	tool := func(name string) mcp.Tool {
		return mcp.Tool{Name: name, Title: strings.ToUpper(name), Description: "Does " + name + "."}
	}
	server.AddTool(s, tool("echo"), func(_ context.Context, in struct {
		Text string `json:"text"`
	}) (string, error) {
		return in.Text, nil
	})
	server.AddTool(s, tool("count"), func(ctx context.Context, in countParams) (string, error) {
		for i := range in.To {
			if err := server.Progress(ctx, float64(i+1), float64(in.To), "counting"); err != nil {
				return "", err
			}
		}
		return fmt.Sprint(in.To), nil
	})
	server.AddTool(s, tool("weather"), func(_ context.Context, in place) (weather, error) {
		return weather{in.City, -3.5}, nil
	})
	server.AddTool(s, tool("everything"), func(context.Context, struct{}) ([]mcp.Content, error) {
		return []mcp.Content{
			mcp.Text("text"),
			mcp.Image([]byte{1, 2, 3}, "image/png"),
			mcp.Audio([]byte{4, 5}, "audio/wav"),
			&mcp.EmbeddedResource{Resource: mcp.ResourceContents{URI: "file:///a.txt", MimeType: "text/plain",
				Text: "a"}},
			&mcp.ResourceLink{URI: "file:///b.txt", Name: "b"},
		}, nil
	})
	server.AddTool(s, tool("fail"), func(context.Context, struct{}) (string, error) {
		return "", errors.New("device is offline")
	})
	server.AddTool(s, tool("reject"), func(context.Context, struct{}) (string, error) {
		return "", jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "unit is unknown")
	})
	server.AddTool(s, tool("panic"), func(context.Context, struct{}) (string, error) { panic("secret") })
	server.AddTool(s, tool("int64"), func(_ context.Context, in struct {
		N int64 `json:"n"`
	}) (string, error) {
		return fmt.Sprint(in.N), nil
	})
	return s
}

func TestDescription(t *testing.T) {
	everywhere(t, newServer, func(t *testing.T, c *client.Client) {
		s := c.Server()
		must.CheckThat(t, s.Info.Name == "matrix" && s.Info.Version == "1.2.3" && s.Instructions == "Call the tools.",
			"the details of the server are %+v", s)
		must.CheckThat(t, s.Capabilities.Tools != nil, "the tools capability is not declared")
		if title := s.Info.Title; (title != "") != (c.Revision() >= mcp.V20250618) {
			t.Errorf("title %q in %s", title, c.Revision())
		}
	})
}

func TestListTools(t *testing.T) {
	paged := func() *server.Server {
		s := newServer()
		s.Limits.PageSize = 3
		return s
	}
	everywhere(t, paged, func(t *testing.T, c *client.Client) {
		var names []string
		for tool, err := range c.Tools(t.Context()) {
			must.Do(t, err)
			names = append(names, tool.Name)
			must.CheckEqual(t, tool.OutputSchema != nil, tool.Name == "weather" && c.Revision() >= mcp.V20250618,
				tool.Name, "output schema", tool.OutputSchema)
		}
		want := "count echo everything fail int64 panic reject weather"
		must.CheckEqual(t, strings.Join(names, " "), want)
	})
}

func TestCallTool(t *testing.T) {
	everywhere(t, newServer, func(t *testing.T, c *client.Client) {
		ctx := t.Context()
		text := must.Get(client.CallTool[string](ctx, c, "echo", map[string]any{"text": "héllo\n\u2028"}))(t)
		must.CheckEqual(t, text, "héllo\n\u2028")
		n := must.Get(client.CallTool[string](ctx, c, "int64", map[string]any{"n": int64(9007199254740993)}))(t)
		must.CheckEqual(t, n, "9007199254740993")
		must.CheckEqual(t, must.Get(client.CallTool[weather](ctx, c, "weather", place{"Oslo"}))(t),
			weather{"Oslo", -3.5})
	})
}

func TestToolErrorsAreResults(t *testing.T) {
	everywhere(t, newServer, func(t *testing.T, c *client.Client) {
		for name, want := range map[string]string{
			"fail":  "device is offline",
			"panic": "the tool failed unexpectedly",
			"echo":  "invalid arguments",
		} {
			_, err := client.CallTool[string](t.Context(), c, name, nil)
			var failed *client.ToolError
			must.CheckThat(t, errors.As(err, &failed) && strings.Contains(err.Error(), want), "%s: %v", name, err)
			must.CheckThat(t, !strings.Contains(fmt.Sprint(err), "secret"),
				"%s: the client receives the value of the panic: %v", name, err)
		}
	})
}

func TestProtocolErrorsAreErrors(t *testing.T) {
	everywhere(t, newServer, func(t *testing.T, c *client.Client) {
		for name, want := range map[string]string{"reject": "unit is unknown", "missing": "unknown tool"} {
			_, err := c.CallTool(t.Context(), name, nil)
			var reported *jsonrpc.Error
			must.CheckThat(t, errors.As(err, &reported) && reported.Code == jsonrpc.CodeInvalidParams &&
				strings.Contains(reported.Message, want), "%s: %v", name, err)
		}
	})
}

func TestConcurrentCallsReceiveTheirOwnProgress(t *testing.T) {
	everywhere(t, newServer, func(t *testing.T, c *client.Client) {
		var wg sync.WaitGroup
		for i := range 16 {
			wg.Go(func() {
				to, reports := i+2, 0
				text, err := c.CallTool(t.Context(), "count", countParams{To: to},
					client.WithProgress(func(done, total float64, message string) {
						reports++
						must.CheckEqual(t, message != "", c.Revision() >= mcp.V20250326, message)
						must.CheckEqual(t, total, float64(to), to)
						must.CheckEqual(t, done, float64(reports), to)
					}))
				must.CheckThat(t, err == nil && !text.IsError && reports == to,
					"call %d: %d reports, %v", to, reports, err)
			})
		}
		wg.Wait()
	})
}

func TestCancellationReachesHandler(t *testing.T) {
	type handling struct {
		started chan struct{}
		ended   chan error
	}
	h := make(chan handling, 1)
	waiting := func() *server.Server {
		here := handling{make(chan struct{}), make(chan error, 1)}
		select {
		case <-h:
		default:
		}
		h <- here
		s := newServer()
		server.AddTool(s, mcp.Tool{Name: "wait", Description: "Waits."},
			func(ctx context.Context, _ struct{}) (string, error) {
				close(here.started)
				<-ctx.Done()
				here.ended <- context.Cause(ctx)
				return "", ctx.Err()
			})
		return s
	}
	everywhere(t, waiting, func(t *testing.T, c *client.Client) {
		here := <-h
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			<-here.started
			cancel(errors.New("the user changed their mind"))
		}()
		must.CheckFails(t, must.Err(c.CallTool(ctx, "wait", nil)), "changed their mind")
		cause := <-here.ended
		must.CheckThat(t, cause != nil, "the handler's context did not end")
		must.Check(t, c.Ping(t.Context()), "Ping after the cancellation")
	})
}

// Encoding for an older revision must not modify a result that several calls share.
func TestResultCanBeSharedByConcurrentCalls(t *testing.T) {
	shared := &mcp.CallToolResult{
		ResultBase: mcp.ResultBase{Meta: mcp.Meta{"com.example/a": json.RawMessage(`1`)}},
		Content: []mcp.Content{
			mcp.Text("one"), &mcp.ResourceLink{URI: "file:///b.txt", Name: "b"}, mcp.Audio([]byte{1}, "audio/wav"),
		},
	}
	sharing := func() *server.Server {
		s := newServer()
		server.AddTool(s, mcp.Tool{Name: "shared", Description: "Returns the same result to all calls."},
			func(context.Context, struct{}) (*mcp.CallToolResult, error) { return shared, nil })
		return s
	}
	everywhere(t, sharing, func(t *testing.T, c *client.Client) {
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				result, err := c.CallTool(t.Context(), "shared", nil)
				must.CheckThat(t, err == nil && len(result.Content) == 3 && string(result.Meta["com.example/a"]) == "1",
					"%+v, %v", result, err)
			})
		}
		wg.Wait()
	})
}

// These tests send raw HTTP requests that package client does not send.

// rawModern returns a request of 2026-07-28. params must end with a comma or be empty.
func rawModern(method, params string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":"r1","method":%q,`+
		`"params":{%s"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
		`"io.modelcontextprotocol/clientCapabilities":{}}}}`, method, params)
}

func TestAnonymousSessionsHaveSeparateLimits(t *testing.T) {
	s := newServer()
	s.Limits = server.Limits{CallsPerSecond: 1e-6}
	url := wiretest.Serve(t, s)
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"everything"}}`
	for range 3 {
		got := wiretest.Text(t, wiretest.Do(t, http.MethodPost, url, call, wiretest.Session(t, url, "2025-11-25")...))
		must.CheckContains(t, got, `"result"`, "the first call of a session")
	}
}

// The server pings the client in the revisions that have ping, and the client responds.
func TestServerPingsClient(t *testing.T) {
	pinging := func() *server.Server {
		s := newServer()
		s.Limits.KeepAlive = time.Millisecond
		return s
	}
	everywhere(t, pinging, func(t *testing.T, c *client.Client) {
		if !c.Revision().Modern() {
			await(t, mcp.MethodPing, false)
		}
		text := must.Get(client.CallTool[string](t.Context(), c, "echo", map[string]string{"text": "alive"}))(t)
		must.CheckEqual(t, text, "alive", "the next call")
	})
}

// The matrix fails if a method of a schema was not sent: in each revision, on each transport, by each side
// that may send it. So a new method, revision or transport needs a test.

// cell is a method that one side sends, on one transport in one revision.
type cell struct {
	revision   mcp.Revision
	transport  string
	method     string
	fromClient bool
}

func (c cell) String() string {
	from := "server"
	if c.fromClient {
		from = "client"
	}
	return fmt.Sprintf("%s/%s: %s from the %s", c.revision, c.transport, c.method, from)
}

// wire contains the cells that the taps of all tests have recorded.
var wire struct {
	sync.Mutex
	seen    map[cell]bool
	changed chan struct{} // closed when a cell is recorded for the first time; nil if no test waits
}

func recordCell(c cell) {
	wire.Lock()
	defer wire.Unlock()
	if wire.seen == nil {
		wire.seen = make(map[cell]bool)
	}
	if !wire.seen[c] && wire.changed != nil {
		close(wire.changed)
		wire.changed = nil
	}
	wire.seen[c] = true
}

// inputMethods returns the methods of the input requests in a result of 2026-07-28.
func inputMethods(result json.RawMessage) []string {
	var body struct {
		InputRequests map[string]struct{ Method string }
	}
	if json.Unmarshal(result, &body) != nil {
		return nil
	}
	var methods []string
	for _, request := range body.InputRequests {
		methods = append(methods, request.Method)
	}
	return methods
}

// unsent lists the methods that a side may send and this implementation does not, with the reason. An empty
// field of a row matches every value.
var unsent = []struct {
	cell
	why string
}{
	{cell{method: mcp.MethodListTasks, fromClient: true},
		"the server does not declare tasks.list, and the client stores ids"},
	{cell{method: mcp.MethodListTasks}, "the server knows the tasks that it has asked for"},
	{cell{method: mcp.NotificationProgress, fromClient: true}, "input handlers do not report progress"},
	{cell{mcp.V20260728, "http", mcp.NotificationCancelled, true},
		"over HTTP a client cancels a request by closing its stream"},
}

func expected(c cell) bool {
	for _, u := range unsent {
		if u.fromClient == c.fromClient && (u.revision == "" || u.revision == c.revision) &&
			(u.transport == "" || u.transport == c.transport) && u.method == c.method {
			return false
		}
	}
	return true
}

// await waits until a method is recorded in the subtest t of the matrix.
func await(t *testing.T, method string, fromClient bool) {
	t.Helper()
	where := strings.Split(t.Name(), "/")
	c := cell{mcp.Revision(where[len(where)-2]), where[len(where)-1], method, fromClient}
	late := time.After(10 * time.Second)
	for {
		wire.Lock()
		seen := wire.seen[c]
		if wire.changed == nil {
			wire.changed = make(chan struct{})
		}
		changed := wire.changed
		wire.Unlock()
		if seen {
			return
		}
		select {
		case <-changed:
		case <-late:
			t.Fatalf("%s was not sent", c)
		}
	}
}

// findGaps returns the cells of the schemas that were not recorded, and those that were recorded although
// they are in unsent.
func findGaps() (gaps []cell) {
	wire.Lock()
	defer wire.Unlock()
	for _, r := range mcp.Revisions() {
		for _, transport := range mcptest.Transports() {
			for _, method := range spec.Methods(r) {
				for _, fromClient := range []bool{true, false} {
					c := cell{r, transport.Name, method.Name, fromClient}
					sends := fromClient && method.FromClient || !fromClient && method.FromServer
					if transport.Supports(r) && sends && expected(c) != wire.seen[c] {
						gaps = append(gaps, c)
					}
				}
			}
		}
	}
	slices.SortFunc(gaps, func(a, b cell) int { return strings.Compare(a.String(), b.String()) })
	return gaps
}

func TestMain(m *testing.M) {
	flag.Parse()
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		selected := flag.Lookup("test.run").Value.String() != "" || flag.Lookup("test.skip").Value.String() != "" ||
			flag.Lookup("test.list").Value.String() != ""
		if code == 0 && !selected {
			for _, c := range findGaps() {
				problem := "was not sent"
				if !expected(c) {
					problem = "was sent: remove it from unsent"
				}
				fmt.Printf("gap in the matrix: %s %s\n", c, problem)
				code = 1
			}
		}
		os.Exit(code)
	}))
}

func TestMatrixExpectsMethodsThatAreNotInUnsent(t *testing.T) {
	c := cell{mcp.V20241105, "memory", "tools/forge", true}
	must.CheckThat(t, expected(c), "an unknown method is not expected")
	if c.method, c.fromClient = mcp.MethodListTasks, false; expected(c) {
		t.Error("a method that the server does not send is expected")
	}
}
