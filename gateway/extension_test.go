package gateway_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-mcp/parley/apps"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/gateway"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/gatewaytest"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/transport"
)

const jobs = "com.example/jobs"

// jobsServer is a server with an extension.
type jobsServer struct {
	server.Server
	notes   chan string // notifications that the server has received
	session atomic.Pointer[rpc.SessionNotifier]
	runs    atomic.Int64
}

func newJobsServer() *jobsServer {
	s := &jobsServer{Server: server.Server{Name: "jobs"}, notes: make(chan string, 10)}
	server.AddExtension(&s.Server, server.Extension{
		ID: jobs,
		Requests: map[string]func(context.Context, json.RawMessage) (any, error){"jobs/run": func(ctx context.Context,
			params json.RawMessage) (any, error) {
			s.runs.Add(1)
			name, _ := jsonrpc.Get(params, "name")
			if string(name) == `"bad"` {
				return nil, jsonrpc.Errorf(1234, "no such job")
			}
			if session := rpc.From(ctx).SessionNotifier; session != nil {
				s.session.Store(&session)
			}
			if err := server.Notify(ctx, "notifications/jobs/running",
				fmt.Appendf(nil, `{"name":%s}`, name)); err != nil {
				return nil, err
			}
			meta, _ := jsonrpc.Get(params, "_meta")
			trace, _ := jsonrpc.Get(meta, "com.example/trace")
			return map[string]any{"ran": json.RawMessage(name), "trace": json.RawMessage(trace),
				"_meta": map[string]any{"com.example/done": true}}, nil
		}},
		Notifications: map[string]func(context.Context,
			json.RawMessage){"notifications/jobs/note": func(_ context.Context, params json.RawMessage) {
			s.notes <- string(params)
		}},
	})
	return s
}

// jobsConfig adds the declaration of the extension to the configuration of the server.
func jobsConfig(config host.ServerConfig) host.ServerConfig {
	config.Extensions = []host.Extension{{
		ID: jobs, Settings: json.RawMessage(`{"priority":7}`),
		Requests: []string{"jobs/run", "jobs/missing"}, Notifications: []string{"notifications/jobs/note",
			"notifications/jobs/running"},
	}}
	return config
}

// New already registers the extensions, so clients can use them before Run is called.
func TestRequestsOfExtensionsHaveATimeoutBeforeRun(t *testing.T) {
	up := &server.Server{Name: "up"}
	server.AddExtension(up, server.Extension{ID: jobs, Requests: map[string]func(context.Context,
		json.RawMessage) (any, error){
		"jobs/run": func(ctx context.Context, _ json.RawMessage) (any, error) { <-ctx.Done(); return nil, ctx.Err() },
	}})
	h := &host.Host{Logger: quiet, Servers: []host.ServerConfig{jobsConfig(inMemory(t, "up", up))}}
	s := &server.Server{Name: "gateway", Logger: quiet}
	g := must.Get(gateway.New(h, s))(t)
	g.Timeout = 50 * time.Millisecond
	must.Do(t, h.Start())
	t.Cleanup(func() { h.Close() })
	c := mcptest.Dial(t, s, func(d *client.Dialer) { d.Extensions = []client.Extension{{ID: jobs}} })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if result, err := c.CallExtension(ctx, "jobs/run", nil); err == nil || ctx.Err() != nil {
		t.Errorf("result %s, %v, %v", result, err, ctx.Err())
	}
}

// Requests and notifications of an extension pass the gateway in both directions.
func TestExtensionsReachEveryRevision(t *testing.T) {
	for _, theirs := range mcp.Revisions() {
		up := newJobsServer()
		s := &server.Server{Name: "gateway"}
		gatewaytest.Run(t, &host.Host{Servers: []host.ServerConfig{jobsConfig(httpConfig(t, "up", &up.Server))},
			Dialer: client.Dialer{Revision: theirs}}, s, gatewaytest.OfLocalUser)
		url := wiretest.Serve(t, s)
		for _, ours := range mcp.Revisions() {
			t.Run(fmt.Sprintf("client %s/server %s", ours, theirs), func(t *testing.T) {
				running := make(chan string, 10)
				d := client.Dialer{Revision: ours, Extensions: []client.Extension{{ID: jobs,
					Notifications: map[string]func(context.Context, json.RawMessage){
						"notifications/jobs/running": func(_ context.Context, params json.RawMessage) {
							running <- string(params)
						},
					}}}}
				c := must.Get(d.Dial(t.Context(), client.URL(url)))(t)
				t.Cleanup(func() { c.Close() })
				if settings, ok := c.Server().Extension(jobs); !ok || string(settings) != `{"priority":7}` {
					t.Errorf("the gateway declares %s, %v", settings, ok)
				}
				result, err := c.CallExtension(t.Context(), "jobs/run", map[string]string{"name": "a"},
					client.WithMeta(mcp.Meta{"com.example/trace": json.RawMessage(`"t"`)}))
				must.CheckThat(t, err == nil && strings.Contains(string(result), `"ran":"a"`) &&
					strings.Contains(string(result), `"trace":"t"`) &&
					strings.Contains(string(result), `"com.example/done":true`), "result %s, %v", result, err)
				expectMessage(t, running, `{"name":"a"}`)
				must.Do(t, c.NotifyExtension(t.Context(), "notifications/jobs/note", map[string]string{"text": "n"}))
				expectMessage(t, up.notes, `"text":"n"`)
				var reported *jsonrpc.Error
				if _, err := c.CallExtension(t.Context(), "jobs/run", map[string]string{"name": "bad"}); !errors.As(err,
					&reported) || reported.Code != 1234 {
					t.Errorf("the error of the server is %v", err)
				}
				if _, err := c.CallExtension(t.Context(), "jobs/missing", nil); !errors.As(err, &reported) ||
					reported.Code != jsonrpc.CodeMethodNotFound {
					t.Errorf("the error for an unknown method is %v", err)
				}
				if ours.Modern() || theirs.Modern() {
					return
				}
				(*up.session.Load()).Notify(jsonrpc.AppendNotification(nil, "notifications/jobs/running",
					[]byte(`{"name":"late"}`)))
				expectMessage(t, running, `{"name":"late"}`)
			})
		}
	}
}

func expectMessage(t *testing.T, received <-chan string, want string) {
	t.Helper()
	must.CheckContains(t, must.Receive(t, received, want), want)
}

// The policy decides on the methods of extensions, and the audit log contains them. Clients that do not declare
// the extension cannot use it.
func TestPolicyDecidesAboutMethodsOfExtensions(t *testing.T) {
	up := newJobsServer()
	var seen []string
	h := &host.Host{
		Servers: []host.ServerConfig{jobsConfig(httpConfig(t, "up", &up.Server))},
		Policy: host.Rules{Rules: []host.Rule{{Method: "jobs/run", Action: host.Allow,
			When: func(_ context.Context, r *host.Request) (bool, error) {
				must.CheckEqual(t, r.Kind, "extension", r)
				must.CheckEqual(t, r.Name, jobs, r)
				return string(r.Arguments) == `{"name":"allowed"}`, nil
			}}}},
		Audit: gatewaytest.Audit(func(_ context.Context, r map[string]any) error {
			if r["kind"] == "extension" {
				seen = append(seen, fmt.Sprint(r["event"], " ", r["method"], " ", r["name"], cmp.Or(r["outcome"], "")))
			}
			return nil
		}),
	}
	s := &server.Server{Name: "gateway"}
	gatewaytest.Run(t, h, s)
	url := wiretest.Serve(t, s)
	d := client.Dialer{Revision: mcp.V20251125, Extensions: []client.Extension{{ID: jobs}}}
	c := must.Get(d.Dial(t.Context(), client.URL(url)))(t)
	t.Cleanup(func() { c.Close() })
	must.Check(t, must.Err(c.CallExtension(t.Context(), "jobs/run", map[string]string{"name": "allowed"})))
	var reported *jsonrpc.Error
	_, err := c.CallExtension(t.Context(), "jobs/run", map[string]string{"name": "other"})
	must.CheckThat(t, errors.As(err, &reported) && reported.Code == jsonrpc.CodeInvalidRequest &&
		strings.Contains(reported.Message, "is denied"), "the denied request has the error %v", err)
	must.Do(t, c.NotifyExtension(t.Context(), "notifications/jobs/note", nil))
	must.Do(t, c.Ping(t.Context())) // the notification has been handled
	want := "allowed jobs/run com.example/jobs, done jobs/run com.example/jobsok, denied jobs/run " +
		"com.example/jobserror, denied notifications/jobs/note com.example/jobserror"
	must.CheckEqual(t, strings.Join(seen, ", "), want, "the audit log")
	must.CheckEqual(t, up.runs.Load(), 1)
	must.CheckEqual(t, len(up.notes), 0)
	stranger := must.Get((&client.Dialer{Revision: mcp.V20251125}).Dial(t.Context(), client.URL(url)))(t)
	t.Cleanup(func() { stranger.Close() })
	_, err = stranger.CallExtension(t.Context(), "jobs/run", map[string]string{"name": "allowed"})
	must.CheckThat(t, errors.As(err, &reported) && reported.Code == jsonrpc.CodeMethodNotFound,
		"a client without the extension has the error %v", err)
}

// A method that two servers offer is forwarded to neither.
func TestMethodOfSeveralServersIsNotForwarded(t *testing.T) {
	one, other := newJobsServer(), newJobsServer()
	s := &server.Server{Name: "gateway"}
	gatewaytest.Run(t, &host.Host{Servers: []host.ServerConfig{jobsConfig(httpConfig(t, "one", &one.Server)),
		jobsConfig(httpConfig(t, "other", &other.Server))}}, s)
	c := mcptest.Dial(t, s, func(d *client.Dialer) { d.Extensions = []client.Extension{{ID: jobs}} })
	must.CheckFails(t, must.Err(c.CallExtension(t.Context(), "jobs/run", map[string]string{"name": "a"})),
		`belongs to several servers: configure it for one of ["one" "other"]`, "the error")
	must.CheckEqual(t, one.runs.Load()+other.runs.Load(), 0, "the request has reached a server")
}

// A change of the configuration adds and removes extensions while the gateway serves: methods at once, even for
// connected clients, and the declaration for clients that connect later.
func TestExtensionsFollowTheConfiguration(t *testing.T) {
	up := newJobsServer()
	plain := httpConfig(t, "up", &up.Server)
	other := httpConfig(t, "other", &newJobsServer().Server)
	h := &host.Host{Servers: []host.ServerConfig{plain, other}}
	s := &server.Server{Name: "gateway"}
	gatewaytest.Run(t, h, s)
	url := wiretest.Serve(t, s)
	for _, r := range mcp.Revisions() {
		t.Run(string(r), func(t *testing.T) {
			dial := func() *client.Client {
				d := client.Dialer{Revision: r, Logger: quiet, Extensions: []client.Extension{{ID: jobs}}}
				c := must.Get(d.Dial(t.Context(), client.URL(url)))(t)
				t.Cleanup(func() { c.Close() })
				return c
			}
			before := dial()
			for _, state := range []struct {
				name            string
				servers         []host.ServerConfig
				declared, works bool
			}{
				{"at first", []host.ServerConfig{plain, other}, false, false},
				{"added", []host.ServerConfig{jobsConfig(plain), other}, true, true},
				{"of two servers", []host.ServerConfig{jobsConfig(plain), jobsConfig(other)}, true, false},
				{"of another server", []host.ServerConfig{jobsConfig(other)}, true, true},
				{"removed", []host.ServerConfig{plain, other}, false, false},
			} {
				must.Do(t, h.SetServers(state.servers))
				works := func(c *client.Client) bool {
					result, _ := c.CallExtension(t.Context(), "jobs/run", map[string]string{"name": "a"})
					return strings.Contains(string(result), `"ran":"a"`)
				}
				deadline := time.Now().Add(20 * time.Second)
				for { // until the gateway uses the configuration
					after := dial()
					_, declared := after.Server().Extension(jobs)
					if declared == state.declared && works(after) == state.works && works(before) == state.works {
						break
					}
					if time.Now().After(deadline) {
						t.Fatalf("%s: declared %t, works for a new client %t, for one that is connected %t", state.name,
							declared, works(after), works(before))
					}
				}
			}
		})
	}
}

// startOpener starts a server of 2025-11-25 whose tool asks the user to open a URL and does not wait for the user to
// finish. finish reports that the user has finished.
func startOpener(t *testing.T) (config host.ServerConfig, finish func()) {
	near, far := transport.Pipe()
	answers := upstream{
		mcp.MethodListTools: `{"tools":[{"name":"open","inputSchema":{"type":"object"}}]}`,
		mcp.MethodInitialize: `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"up",` +
			`"version":"1"}}`,
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		var call jsonrpc.ID
		for {
			raw, err := far.Read(context.Background())
			if err != nil {
				return
			}
			m, err := jsonrpc.Parse(raw, jsonrpc.Limits{})
			switch {
			case err != nil:
			case m.Kind == jsonrpc.Response:
				_ = far.Write(context.Background(), jsonrpc.AppendResult(nil, call,
					[]byte(`{"content":[{"type":"text","text":"asked"}]}`)))
			case m.Kind == jsonrpc.Request && m.Method == mcp.MethodCallTool:
				call = m.ID
				_ = far.Write(context.Background(), jsonrpc.AppendRequest(nil, jsonrpc.IntID(1000), mcp.MethodElicit,
					[]byte(`{"mode":"url","message":"open","url":"https://example.com/","elicitationId":"e1"}`)))
			case m.Kind == jsonrpc.Request:
				_ = far.Write(context.Background(), answers.answer(&m))
			}
		}
	}()
	t.Cleanup(func() {
		far.Close()
		<-done
	})
	finish = func() {
		_ = far.Write(context.Background(), jsonrpc.AppendNotification(nil, mcp.NotificationElicitationComplete,
			[]byte(`{"elicitationId":"e1"}`)))
	}
	return host.ServerConfig{Name: "up", Target: client.Conn(near)}, finish
}

// The client whose user was asked learns, even after its call, that a URL elicitation has ended, with the ID that
// it knows. Other clients do not.
func TestURLElicitationEndsAfterItsCall(t *testing.T) {
	config, finish := startOpener(t)
	s := &server.Server{Name: "gateway"}
	gatewaytest.Run(t, &host.Host{Servers: []host.ServerConfig{config}}, s, gatewaytest.OfLocalUser)
	type user struct {
		*client.Client
		asked    chan string // receives the elicitationId
		finished chan string
	}
	dial := func(dial func(testing.TB, *server.Server, ...func(*client.Dialer)) *client.Client) user {
		u := user{asked: make(chan string, 1), finished: make(chan string, 2)}
		u.Client = dial(t, s, mcptest.WithRevision(mcp.V20251125), func(d *client.Dialer) {
			d.ElicitURL = func(_ context.Context, request *mcp.ElicitParams) (*mcp.ElicitResult, error) {
				u.asked <- request.ElicitationID
				return &mcp.ElicitResult{Action: mcp.ElicitAccept}, nil
			}
			d.Trace = func(sent bool, message []byte) {
				if !sent && strings.Contains(string(message), mcp.NotificationElicitationComplete) {
					u.finished <- string(message)
				}
			}
		})
		return u
	}
	asked, other := dial(mcptest.DialHTTP), dial(mcptest.Dial)
	must.Equal(t, must.Get(client.CallTool[string](t.Context(), asked.Client, "up__open", nil))(t), "asked")
	must.Do(t, other.Ping(t.Context()))
	finish()
	finish() // a notification for an unknown id is ignored
	must.CheckContains(t, must.Receive(t, asked.finished, "the notification"), <-asked.asked)
	must.Do(t, other.Ping(t.Context()))
	must.CheckThat(t, len(asked.finished)+len(other.finished) == 0,
		"%d notifications too many, and %d for another client", len(asked.finished), len(other.finished))
}

// Two servers have a page with the same URI. The tools of each server refer to that server's page, whether it is
// listed or not, and the URIs are valid for pages.
func TestUserInterfacesOfToolsFollowTheirResources(t *testing.T) {
	app := func(text, resources string) upstream {
		return upstream{
			mcp.MethodListTools: `{"tools":[{"name":"show","inputSchema":{"type":"object"},` +
				`"_meta":{"ui":{"resourceUri":"ui://app","visibility":["model"]},"ui/resourceUri":"ui://app",` +
				`"openai/outputTemplate":"ui:\/\/app","com.example/pages":{"ui://app":["UI://app",7,"see ui://app"]}}},` +
				`{"name":"other","inputSchema":{"type":"object"},"_meta":{"ui":{"visibility":["app"]},` +
				`"ui/resourceUri":7}}]}`,
			mcp.MethodListResources: `{"resources":[` + resources + `]}`,
			mcp.MethodReadResource:  `{"contents":[{"uri":"ui://app","text":"` + text + `"}]}`,
			mcp.MethodCallTool: `{"content":[{"type":"text","text":"shown"}],` +
				`"_meta":{"ui":{"resourceUri":"ui://app"}}}`,
		}
	}
	const resource = `{"uri":"ui://app","name":"app","mimeType":"text/html;profile=mcp-app"}`
	s := gatewayTo(t, app("one", resource).start(t, "first"), app("two", resource).start(t, "second"),
		app("three", "").start(t, "third"))
	for _, r := range []mcp.Revision{mcp.V20250618, mcp.V20251125, mcp.V20260728} { // tools have _meta
		c := mcptest.Dial(t, s, mcptest.WithRevision(r))
		want := map[string][2]string{"first__show": {"ui://server/first/ui://app", "one"},
			"second__show": {"ui://server/second/ui://app", "two"},
			"third__show":  {"ui://server/third/ui://app", "three"}}
		for _, tool := range listed(t, c) {
			expected, ok := want[tool.Name]
			if !ok {
				continue
			}
			delete(want, tool.Name)
			var ui struct {
				ResourceURI string   `json:"resourceUri"`
				Visibility  []string `json:"visibility"`
			}
			var flat string
			must.Do(t, json.Unmarshal(tool.Meta["ui"], &ui))
			must.Do(t, json.Unmarshal(tool.Meta["ui/resourceUri"], &flat))
			must.CheckEqual(t, string(tool.Meta["openai/outputTemplate"]), `"`+expected[0]+`"`, r, tool.Name)
			wantPages := `{"ui://app":["` + strings.Replace(expected[0], "/ui:", "/UI:", 1) + `",7,"see ui://app"]}`
			must.CheckEqual(t, string(tool.Meta["com.example/pages"]), wantPages, r, tool.Name, "has the pages")
			if ui.ResourceURI != expected[0] || flat != expected[0] || len(ui.Visibility) != 1 {
				t.Errorf("%s: %s has %s and %s", r, tool.Name, tool.Meta["ui"], flat)
			}
			read := must.Get(c.ReadResource(t.Context(), ui.ResourceURI))(t)
			must.CheckEqual(t, read.Contents[0].Text, expected[1], r, "the user interface", tool.Name, read)
			result := must.Get(c.CallTool(t.Context(), tool.Name, nil))(t)
			must.CheckEqual(t, string(result.Meta["ui"]), `{"resourceUri":"`+expected[0]+`"}`, r, "the result",
				tool.Name, result.Meta)
		}
		must.CheckThat(t, len(want) == 0, "%s: not listed: %v", r, want)
	}
}

// recorded is a slog.Handler that keeps the subject of each record.
type recorded struct{ all chan string }

func (r recorded) Enabled(context.Context, slog.Level) bool { return true }
func (r recorded) WithAttrs([]slog.Attr) slog.Handler       { return r }
func (r recorded) WithGroup(string) slog.Handler            { return r }

func (r recorded) Handle(_ context.Context, record slog.Record) error {
	of := make(map[string]string)
	record.Attrs(func(a slog.Attr) bool {
		of[a.Key] = a.Value.String()
		return true
	})
	r.all <- cmp.Or(of["decision"], record.Message) + " " + of["name"]
	return nil
}

// If the policy denies a page, or a tool for pages, it is neither listed nor served, and Review withholds a tool
// whose page has changed. The audit log contains what was tried.
func TestPolicyAndReviewApplyToPages(t *testing.T) {
	for _, r := range []mcp.Revision{mcp.V20250618, mcp.V20251125, mcp.V20260728} { // tools have _meta
		up := &server.Server{Name: "up", Version: "1"}
		text := func(context.Context, struct{}) (string, error) { return "done", nil }
		for _, name := range []string{"open", "secret", "changed"} {
			page := "ui://" + name
			apps.AddPage(up, apps.Page{URI: page, Name: name}, "<p>"+name)
			server.AddTool(up, apps.Show(mcp.Tool{Name: name}, page), text)
			server.AddTool(up, apps.Show(mcp.Tool{Name: "set_" + name}, page, apps.App), text)
		}
		config := inMemory(t, "up", up)
		config.Revision, config.NoPrefix = r, true
		audit := recorded{make(chan string, 100)}
		h := &host.Host{Servers: []host.ServerConfig{config}, Audit: audit}
		h.Policy = host.Rules{Default: host.Allow, Rules: []host.Rule{
			{Resource: "ui://secret", Action: host.Deny}, {Tool: "set_secret", Action: host.Deny},
		}}
		h.Review = func(d host.Definition) error {
			var tool mcp.Tool
			if d.Kind == "tool" && json.Unmarshal(d.JSON, &tool) == nil && apps.PageOf(&tool) == "ui://changed" {
				return errors.New("not accepted")
			}
			return nil
		}
		s := &server.Server{Name: "gateway", Version: "1"}
		gatewaytest.Run(t, h, s)
		c := mcptest.Dial(t, s, mcptest.WithRevision(r))
		var names []string
		for _, tool := range listed(t, c) {
			names = append(names, tool.Name)
		}
		for resource, err := range c.Resources(t.Context()) {
			must.Do(t, err)
			names = append(names, resource.URI)
		}
		slices.Sort(names)
		want := []string{"open", "secret", "set_open", "ui://changed", "ui://open"}
		must.CheckThat(t, slices.Equal(names, want), "%s: listed %q", r, names)
		_, html, err := apps.Read(t.Context(), c, mcp.Resource{URI: "ui://open"})
		must.CheckThat(t, err == nil && html == "<p>open", "%s: %q, %v", r, html, err)
		must.CheckEqual(t, must.Get(client.CallTool[string](t.Context(), c, "set_open", nil))(t), "done")
		if _, html, err := apps.Read(t.Context(), c, mcp.Resource{URI: "ui://secret"}); err == nil {
			t.Errorf("%s: a denied page is read: %q", r, html)
		}
		for _, tool := range []string{"set_secret", "changed", "set_changed"} {
			result, err := c.CallTool(t.Context(), tool, nil)
			must.CheckThat(t, err != nil || result.IsError, "%s: %s is called: %+v", r, tool, result)
		}
		close(audit.all)
		var tried []string
		for record := range audit.all {
			tried = append(tried, record)
		}
		slices.Sort(tried)
		tried = slices.Compact(tried) // the decision and the outcome each cause a record
		if want := []string{"allow set_open", "allow ui://open", "deny set_secret", "deny ui://secret",
			"withheld changed", "withheld set_changed"}; !slices.Equal(tried, want) {
			t.Errorf("%s: the audit log has %q", r, tried)
		}
	}
}
