package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/syncbuffer"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/transport"
)

func TestTheZeroServerServes(t *testing.T) {
	for _, r := range mcp.Revisions() {
		c := mcptest.Dial(t, new(server.Server), mcptest.WithRevision(r))
		info := c.Server().Info
		must.CheckThat(t, info.Name == "parley" && info.Version == "0.0.0", "%s: %+v", r, info)
		must.Check(t, c.Ping(t.Context()), r)
	}
}

func TestAContextOutsideOfAHandlerHasNoCall(t *testing.T) {
	ctx := t.Context()
	must.CheckIs(t, server.Progress(ctx, 1, 2, ""), call.ErrNoCall)
	c := call.From(ctx)
	must.CheckThat(t, c == nil, "call.From: %+v", c)
	must.CheckEqual(t, server.PrincipalOf(ctx), principal.Anonymous)
}

// S4, with the standard streams of a real process: it answers the requests and exits, and the program's
// own output does not disturb the protocol.
func TestRunServesStandardInputUntilItEnds(t *testing.T) {
	exe := must.Get(os.Executable())(t)
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), runVariable+"=1", "GORACE=atexit_sleep_ms=0")
	cmd.Stdin = strings.NewReader(request(1, mcp.MethodCallTool, `"name":"greet","arguments":{"name":"Ada"}`) + "\n" +
		request(2, mcp.MethodListTools, "") + "\n")
	out, err := cmd.Output()
	must.Do(t, err, out)
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	must.CheckThat(t, len(lines) == 2 && strings.Contains(string(out), "Hello, Ada!") &&
		strings.Contains(string(out), `"name":"greet"`), "it wrote %s", out)
}

const runVariable = "PARLEY_SERVER_TEST_RUN"

// run is the server of TestRunServesStandardInputUntilItEnds.
func run() {
	s := new(server.Server)
	server.AddTool(s, mcp.Tool{Name: "greet"}, func(ctx context.Context, in greeting) (string, error) {
		fmt.Println("printed by mistake")
		return greet(ctx, in)
	})
	if err := s.Run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// TestMain runs the tests, or, in a child process that a test has started, the server for that test.
func TestMain(m *testing.M) {
	if os.Getenv(runVariable) != "" {
		run()
		return
	}
	goleak.VerifyTestMain(m)
}

// wrongFields are fields of a server with invalid values.
var wrongFields = map[string][]func(*server.Server){
	"Info": {
		func(s *server.Server) { s.Info.WebsiteURL = "example.com" },
		func(s *server.Server) { s.Info.WebsiteURL = "javascript:x" },
	},
	"Keys": {func(s *server.Server) { s.Keys = [][]byte{[]byte("short")} }},
	"Auth": {func(s *server.Server) { s.Auth = &auth.ProtectedResource{} }},
	"AllowedOrigins": origins("", "*", "null", "app.example.com", "https://app.example.com/", "https://App.example.com",
		"https://app.example.com:443", "http://app.example.com:80", "https://user@app.example.com",
		"https://app.example.com?x"),
	"AllowedHosts": hosts("", "*", "*.example.com", "https://example.com", "example.com/mcp", "user@example.com",
		"exa mple.com", ":8080", "example.com:x"),
}

func origins(all ...string) (wrong []func(*server.Server)) {
	for _, one := range all {
		wrong = append(wrong, func(s *server.Server) { s.AllowedOrigins = []string{"https://right.example", one} })
	}
	return wrong
}

func hosts(all ...string) (wrong []func(*server.Server)) {
	for _, one := range all {
		wrong = append(wrong, func(s *server.Server) { s.AllowedHosts = []string{"right.example", one} })
	}
	return wrong
}

// anyValue has the fields that accept every value, and the reasons.
var anyValue = map[string]string{
	"Name": "text", "Version": "text", "Instructions": "text",
	"Store": "nil is the memory", "Logger": "nil is the default", "Middleware": "functions",
	"Catalog":  "what the server offers",
	"Catalogs": "a function", "CatalogsOutdated": "a function", "InstructionsFor": "a function",
	"WhileListening": "a function", "BeforeSubscribe": "a function", "RootsChanged": "a function",
	"Headers":        "a function",
	"KeepAlive":      "a negative value disables pings",
	"ListCache":      "a negative time means stale",
	"LocalScopes":    "a scope that no tool requires has no effect",
	"CallsPerSecond": "a negative value means no limit",
	"ListsPerSecond": "a negative value means no limit",
}

func wantWrong(t *testing.T, field string, s *server.Server) {
	t.Helper()
	if err := s.Check(); err == nil || !strings.HasPrefix(err.Error(), "server: "+field) {
		t.Errorf("%s: Check returns %v", field, err)
	}
}

// Every field of a Server is in one of the tables, so that a new field is not forgotten.
func TestCheckRejectsWrongValuesOfEveryField(t *testing.T) {
	fields := reflect.TypeFor[server.Server]()
	for i := range fields.NumField() {
		f := fields.Field(i)
		wrong := wrongFields[f.Name]
		if !f.IsExported() || f.Name == "Limits" {
			continue
		}
		must.CheckThat(t, (wrong == nil) != (anyValue[f.Name] == ""),
			"%s must be in one of the tables of this test", f.Name)
		for _, set := range wrong {
			s := new(server.Server)
			set(s)
			wantWrong(t, f.Name, s)
		}
	}
	limits := reflect.TypeFor[server.Limits]()
	for i := range limits.NumField() {
		name := limits.Field(i).Name
		if anyValue[name] != "" {
			continue
		}
		s := new(server.Server)
		if f := reflect.ValueOf(&s.Limits).Elem().Field(i); f.CanInt() {
			f.SetInt(-1)
		}
		wantWrong(t, "Limits."+name, s)
	}
	wantWrong(t, "Limits.CallsPerSecond", &server.Server{Limits: server.Limits{CallsPerSecond: math.NaN()}})
	wantWrong(t, "Limits.CallsPerSecond and ListsPerSecond",
		&server.Server{Limits: server.Limits{ListsPerSecond: math.NaN()}})
}

func TestCheckAcceptsRightValues(t *testing.T) {
	s := &server.Server{
		Info: mcp.Implementation{WebsiteURL: "https://example.com/about",
			Icons: mcp.Icons{{Src: "https://example.com/i.png"}, {Src: "data:image/png;base64,AA=="}}},
		AllowedOrigins: []string{"https://app.example.com", "http://localhost:3000", "https://[::1]:8443",
			"chrome-extension://abcdef"},
		AllowedHosts: []string{"example.com", "Example.com:8080", "192.0.2.1", "[::1]:80", "::1", "localhost"},
		Limits:       server.Limits{CallsPerSecond: -1, KeepAlive: -1},
		ListCache:    server.CachePolicy{TTL: -1},
	}
	must.Check(t, s.Check())
}

func noResult(context.Context, json.RawMessage) (any, error) { return nil, nil }

func requests(method string) map[string]func(context.Context, json.RawMessage) (any, error) {
	return map[string]func(context.Context, json.RawMessage) (any, error){method: noResult}
}

func TestInvalidExtensionsAreRejected(t *testing.T) {
	for want, e := range map[string]server.Extension{
		"must have a prefix":           {ID: "jobs"},
		"must begin with a letter":     {ID: "1com.example/jobs"},
		"must encode to a JSON object": {ID: "com.example/jobs", Settings: []int{1}},
		"cannot encode the settings":   {ID: "com.example/jobs", Settings: func() {}},
		"belongs to the protocol": {ID: "com.example/jobs",
			Requests: requests(mcp.MethodCallTool)},
		`"initialize" belongs to the protocol`: {ID: "com.example/jobs",
			Requests: requests(mcp.MethodInitialize)},
		"belongs to the extension": {ID: "com.example/jobs",
			Requests: requests(mcp.MethodGetTask)},
		"must not begin with": {ID: "com.example/jobs",
			Requests: requests("notifications/x")},
		"letters, digits": {ID: "com.example/jobs", Requests: requests("jobs run")},
		"handler must not be nil": {ID: "com.example/jobs",
			Requests: map[string]func(context.Context, json.RawMessage) (any, error){"jobs/run": nil}},
		"the name of a notification must begin with no": {ID: "com.example/jobs",
			Notifications: map[string]func(context.Context, json.RawMessage){"jobs/x": func(context.Context,
				json.RawMessage) {
			}}},
		"belongs to another extension": {ID: "com.example/jobs", Requests: requests("other/run")},
		"was added already":            {ID: "com.example/other"},
	} {
		s := new(server.Server)
		server.AddExtension(s, server.Extension{ID: "com.example/other", Requests: requests("other/run")})
		must.CheckFails(t, s.RegisterExtension(e), want)
	}
}

func TestExtensionsCanChangeWhileTheServerServes(t *testing.T) {
	s := &server.Server{Logger: slog.New(slog.DiscardHandler)}
	server.AddExtension(s, server.Extension{ID: "com.example/other", Requests: requests("other/run")})
	l := connectLine(t, s)
	const run = `{"jsonrpc":"2.0","id":1,"method":"%s",` +
		`"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientCapabilities":{"extensions":{"com.example/jobs":{},"com.example/other":{}}}}}}`
	works := func(method string) bool {
		t.Helper()
		l.Send(fmt.Sprintf(run, method))
		got := l.Receive()
		if ok := strings.Contains(got, `"resultType":"complete"`); ok || strings.Contains(got, "-32601") {
			return ok
		}
		t.Errorf("%s: %s", method, got)
		return false
	}
	for range 2 {
		must.CheckThat(t, !works("jobs/run"), "the method exists before the extension is added")
		must.Do(t, s.RegisterExtension(server.Extension{ID: "com.example/jobs", Requests: requests("jobs/run")}))
		must.CheckThat(t, works("jobs/run") && works("other/run"), "a method is missing")
		raw, err := l.ask(mcp.MethodDiscover, "")
		must.CheckThat(t, err == nil && strings.Contains(string(raw), `"com.example/jobs":{}`), "%s, %v", raw, err)
		must.CheckThat(t, s.RemoveExtension("com.example/jobs") && !s.RemoveExtension("com.example/jobs"),
			"the extension is not removed once")
		raw, err = l.ask(mcp.MethodDiscover, "")
		must.CheckThat(t, err == nil && !strings.Contains(string(raw), "com.example/jobs") &&
			strings.Contains(string(raw), "com.example/other"), "%s, %v", raw, err)
	}
	must.CheckThat(t, works("other/run"), "another extension was removed")
}

// Rule J13: a declaration in an earlier request does not count for this one.
func TestExtensionOfDependsOnTheRequest(t *testing.T) {
	s := &server.Server{Logger: slog.New(slog.DiscardHandler)}
	server.AddExtension(s, server.Extension{ID: "com.example/jobs",
		Requests: map[string]func(context.Context, json.RawMessage) (any, error){"jobs/run": noResult}})
	l := connectLine(t, s)
	const declaring = `{"jsonrpc":"2.0","id":1,"method":"jobs/run",` +
		`"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientCapabilities":{"extensions":{"com.example/jobs":%s}}}}}`
	l.Send(fmt.Sprintf(declaring, "{}"))
	must.CheckContains(t, l.Receive(), `"resultType":"complete"`)
	l.wantError("jobs/run", "", mcp.CodeMissingCapability, "com.example/jobs")
	l.Send(fmt.Sprintf(declaring, "true")) // settings must be an object
	got := l.Receive()
	must.CheckThat(t, strings.Contains(got, "-32602") || strings.Contains(got, "-32021"), "%s", got)
	l.wantError("jobs/stop", "", jsonrpc.CodeMethodNotFound, "jobs/stop")
}

// An extension adds a request to the protocol, on both sides.
func ExampleAddExtension() {
	s := &server.Server{Name: "printer"}
	server.AddExtension(s, server.Extension{
		ID: "com.example/paper",
		Requests: map[string]func(context.Context, json.RawMessage) (any, error){
			"paper/left": func(context.Context, json.RawMessage) (any, error) {
				return map[string]int{"sheets": 12}, nil
			},
		},
	})

	ctx := context.Background()
	near, far := transport.Pipe()
	go s.ServeConn(ctx, far)
	d := client.Dialer{Extensions: []client.Extension{{ID: "com.example/paper"}}}
	c, err := d.Dial(ctx, client.Conn(near))
	if err != nil {
		panic(err)
	}
	defer c.Close()
	left, err := c.CallExtension(ctx, "paper/left", nil)
	sheets, _ := jsonrpc.Get(left, "sheets")
	fmt.Println(string(sheets), err)
	// Output: 12 <nil>
}

// The tasks extension of a program replaces that of the server, whenever the program adds it.
func TestTasksExtensionCanChangeWhileTheServerServes(t *testing.T) {
	s := &server.Server{Logger: slog.New(slog.DiscardHandler)}
	l := connectLine(t, s)
	isOwn := func() bool {
		l.Send(`{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"x",` +
			`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
			`"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}}}`)
		return strings.Contains(l.Receive(), `"resultType":"complete"`)
	}
	for range 2 {
		must.CheckThat(t, !isOwn(), "the program has no extension, but it serves tasks/get")
		server.AddExtension(s, server.Extension{ID: mcp.ExtensionTasks, Requests: requests(mcp.MethodGetTask)})
		must.CheckThat(t, isOwn(), "the server serves tasks/get instead of the extension")
		s.RemoveExtension(mcp.ExtensionTasks)
	}
}

// A handler that calls runtime.Goexit is answered like a panic, logged once, and ends nothing else.
func TestGoexitIsAnsweredLikeAPanic(t *testing.T) {
	for name, stop := range map[string]func(){
		"panic":          func() { panic("hunter2") },
		"runtime.Goexit": runtime.Goexit,
	} {
		var log *syncbuffer.Buffer
		failing := func() *server.Server {
			log = new(syncbuffer.Buffer)
			s := httpServer()
			s.Logger = slog.New(slog.NewTextHandler(log, nil))
			s.Limits.Inflight = 2
			server.AddTool(s, mcp.Tool{Name: "fail"}, func(context.Context, struct{}) (string, error) {
				stop()
				return "", nil
			})
			server.AddPrompt(s, mcp.Prompt{Name: "fail"},
				func(context.Context, struct{}) (string, error) { stop(); return "", nil })
			server.AddResource(s, mcp.Resource{URI: "test:fail", Name: "fail"},
				func(context.Context) (string, error) { stop(); return "", nil })
			s.Middleware = append(s.Middleware, func(next call.Handler) call.Handler {
				return func(ctx context.Context, c *call.Call) (any, error) {
					if uri, _ := c.Params().Get("uri"); string(uri) == `"test:middleware"` {
						stop()
					}
					return next(ctx, c)
				}
			})
			return s
		}
		const internalError = `"error":{"code":-32603,"message":"internal error"}`
		t.Run(name, func(t *testing.T) {
			onEverySurface(t, failing, func(t *testing.T, s surface) {
				for id := 1; id <= 3; id++ { // more than the limit of requests in flight
					for _, test := range []struct{ method, members, want string }{
						{mcp.MethodCallTool, `"name":"fail","arguments":{}`, `"isError":true`},
						{mcp.MethodGetPrompt, `"name":"fail"`, internalError},
						{mcp.MethodReadResource, `"uri":"test:fail"`, internalError},
						{mcp.MethodReadResource, `"uri":"test:middleware"`, internalError},
					} {
						logged := strings.Count(log.String(), "level=ERROR")
						response := s.ask(id, test.method, test.members)
						if !strings.Contains(response, test.want) || strings.Contains(response, "hunter2") {
							t.Errorf("%s: %s, want %s", test.members, response, test.want)
						}
						must.CheckEqual(t, strings.Count(log.String(), "level=ERROR")-logged, 1, test.members)
					}
					must.CheckContains(t, s.ask(id, mcp.MethodCallTool,
						`"name":"echo","arguments":{"text":"alive"}`), "alive", "the next call")
				}
			})
		})
	}
}

// Middleware that calls runtime.Goexit in a handshake or a ping is answered, and ends neither the connection nor the
// session.
func TestGoexitInTheMiddlewareOfAHandshakeIsAnswered(t *testing.T) {
	const internalError = `"error":{"code":-32603,"message":"internal error"}`
	exiting := func() *server.Server {
		s := httpServer()
		s.Middleware = append(s.Middleware, func(next call.Handler) call.Handler {
			return func(ctx context.Context, c *call.Call) (any, error) {
				if meta, ok := c.Params().Get("_meta"); ok && strings.Contains(string(meta), `"exit":`) {
					runtime.Goexit()
				}
				return next(ctx, c)
			}
		})
		return s
	}
	onEverySurface(t, exiting, func(t *testing.T, s surface) {
		if s.revision.Modern() {
			return
		}
		for id := 1; id <= 3; id++ {
			for _, method := range []string{mcp.MethodInitialize, mcp.MethodPing} {
				must.CheckContains(t, s.ask(id, method, `"_meta":{"exit":1}`), internalError, method)
			}
			must.CheckContains(t, s.ask(id, mcp.MethodCallTool, `"name":"echo","arguments":{"text":"alive"}`), "alive",
				"the next call")
		}
	})
	web := httptest.NewServer(exiting())
	defer web.Close()
	for _, test := range []struct{ meta, want string }{
		{`{"exit":1}`, internalError}, {`{}`, `"protocolVersion":"2025-11-25"`},
	} {
		body := strings.Replace(fmt.Sprintf(wiretest.Initialize, mcp.V20251125), `"params":{`,
			`"params":{"_meta":`+test.meta+`,`, 1)
		resp := must.Get(http.DefaultClient.Do(wiretest.NewRequest(t.Context(), http.MethodPost, web.URL, body)))(t)
		must.CheckContains(t, wiretest.Text(t, resp), test.want)
	}
}
