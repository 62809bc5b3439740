package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/transport"
)

func noResult(context.Context, json.RawMessage) (any, error) { return nil, nil }

func requests(method string) map[string]server.ExtensionRequest {
	return map[string]server.ExtensionRequest{method: noResult}
}

func TestInvalidExtensionsAreRejected(t *testing.T) {
	for want, e := range map[string]server.Extension{
		"must have a prefix":                            {ID: "jobs"},
		"must begin with a letter":                      {ID: "1com.example/jobs"},
		"must encode to a JSON object":                  {ID: "com.example/jobs", Settings: []int{1}},
		"cannot encode the settings":                    {ID: "com.example/jobs", Settings: func() {}},
		"belongs to the protocol":                       {ID: "com.example/jobs", Requests: requests(mcp.MethodCallTool)},
		`"initialize" belongs to the protocol`:          {ID: "com.example/jobs", Requests: requests(mcp.MethodInitialize)},
		"belongs to the extension":                      {ID: "com.example/jobs", Requests: requests(mcp.MethodGetTask)},
		"must not begin with":                           {ID: "com.example/jobs", Requests: requests("notifications/x")},
		"letters, digits":                               {ID: "com.example/jobs", Requests: requests("jobs run")},
		"handler must not be nil":                       {ID: "com.example/jobs", Requests: map[string]server.ExtensionRequest{"jobs/run": nil}},
		"the name of a notification must begin with no": {ID: "com.example/jobs", Notifications: map[string]server.ExtensionNotification{"jobs/x": func(context.Context, json.RawMessage) {}}},
		"belongs to another extension":                  {ID: "com.example/jobs", Requests: requests("other/run")},
		"was added already":                             {ID: "com.example/other"},
	} {
		s := new(server.Server)
		server.AddExtension(s, server.Extension{ID: "com.example/other", Requests: requests("other/run")})
		if err := s.RegisterExtension(e); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestExtensionsCanChangeWhileTheServerServes(t *testing.T) {
	s := &server.Server{Logger: slog.New(slog.DiscardHandler)}
	server.AddExtension(s, server.Extension{ID: "com.example/other", Requests: requests("other/run")})
	l := connectLine(t, s)
	const run = `{"jsonrpc":"2.0","id":1,"method":"%s","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"extensions":{"com.example/jobs":{},"com.example/other":{}}}}}}`
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
		if works("jobs/run") {
			t.Error("the method exists before the extension is added")
		}
		if err := s.RegisterExtension(server.Extension{ID: "com.example/jobs", Requests: requests("jobs/run")}); err != nil {
			t.Fatal(err)
		}
		if !works("jobs/run") || !works("other/run") {
			t.Error("a method is missing")
		}
		if raw, err := l.ask(mcp.MethodDiscover, ""); err != nil || !strings.Contains(string(raw), `"com.example/jobs":{}`) {
			t.Errorf("%s, %v", raw, err)
		}
		if !s.RemoveExtension("com.example/jobs") || s.RemoveExtension("com.example/jobs") {
			t.Error("the extension is not removed once")
		}
		if raw, err := l.ask(mcp.MethodDiscover, ""); err != nil || strings.Contains(string(raw), "com.example/jobs") || !strings.Contains(string(raw), "com.example/other") {
			t.Errorf("%s, %v", raw, err)
		}
	}
	if !works("other/run") {
		t.Error("another extension was removed")
	}
}

// Rule J13: a declaration in an earlier request does not count for this one.
func TestExtensionOfDependsOnTheRequest(t *testing.T) {
	s := &server.Server{Logger: slog.New(slog.DiscardHandler)}
	server.AddExtension(s, server.Extension{ID: "com.example/jobs", Requests: map[string]server.ExtensionRequest{"jobs/run": noResult}})
	l := connectLine(t, s)
	const declaring = `{"jsonrpc":"2.0","id":1,"method":"jobs/run","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"extensions":{"com.example/jobs":%s}}}}}`
	l.Send(fmt.Sprintf(declaring, "{}"))
	if got := l.Receive(); !strings.Contains(got, `"resultType":"complete"`) {
		t.Errorf("%s", got)
	}
	l.wantError("jobs/run", "", mcp.CodeMissingCapability, "com.example/jobs")
	l.Send(fmt.Sprintf(declaring, "true")) // settings must be an object
	if got := l.Receive(); !strings.Contains(got, "-32602") && !strings.Contains(got, "-32021") {
		t.Errorf("%s", got)
	}
	l.wantError("jobs/stop", "", jsonrpc.CodeMethodNotFound, "jobs/stop")
}

// An extension adds a request to the protocol, on both sides.
func ExampleAddExtension() {
	s := &server.Server{Name: "printer"}
	server.AddExtension(s, server.Extension{
		ID: "com.example/paper",
		Requests: map[string]server.ExtensionRequest{
			"paper/left": func(context.Context, json.RawMessage) (any, error) { return map[string]int{"sheets": 12}, nil },
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
	type paper struct {
		Sheets int `json:"sheets"`
	}
	left, err := client.CallExtension[paper](ctx, c, "paper/left", nil)
	fmt.Println(left.Sheets, err)
	// Output: 12 <nil>
}

// The tasks extension of a program replaces that of the server, whenever the program adds it.
func TestTasksExtensionCanChangeWhileTheServerServes(t *testing.T) {
	s := &server.Server{Logger: slog.New(slog.DiscardHandler)}
	l := connectLine(t, s)
	isOwn := func() bool {
		l.Send(`{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"x","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}}}`)
		return strings.Contains(l.Receive(), `"resultType":"complete"`)
	}
	for range 2 {
		if isOwn() {
			t.Error("the program has no extension, but it serves tasks/get")
		}
		server.AddExtension(s, server.Extension{ID: mcp.ExtensionTasks, Requests: requests(mcp.MethodGetTask)})
		if !isOwn() {
			t.Error("the server serves tasks/get instead of the extension")
		}
		s.RemoveExtension(mcp.ExtensionTasks)
	}
}
