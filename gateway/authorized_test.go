package gateway_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/gateway"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/gatewaytest"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
)

// ways lists the requests that name an entry of a server behind a gateway.
var ways = []struct {
	name string
	use  func(ctx context.Context, c *client.Client, name, prefix string) error
	runs bool // a handler of the server runs
}{
	{"a tool, which asks a question", func(ctx context.Context, c *client.Client, name, _ string) error {
		_, err := client.CallTool[string](ctx, c, "up__"+name, nil)
		return err
	}, true},
	{"a tool, through call_tool", func(ctx context.Context, c *client.Client, name, _ string) error {
		_, err := client.CallTool[string](ctx, c, "call_tool", map[string]string{"name": "up__" + name})
		return err
	}, true},
	{"the definition of a tool", func(ctx context.Context, c *client.Client, name, _ string) error {
		_, err := client.CallTool[string](ctx, c, "describe_tool", map[string]string{"name": "up__" + name})
		return err
	}, false},
	{"a prompt", func(ctx context.Context, c *client.Client, name, _ string) error {
		_, err := c.GetPrompt(ctx, "up__"+name, nil)
		return err
	}, true},
	{"a resource", func(ctx context.Context, c *client.Client, name, prefix string) error {
		_, err := c.ReadResource(ctx, prefix+"lib://"+name)
		return err
	}, true},
	{"a resource of a template", func(ctx context.Context, c *client.Client, name, prefix string) error {
		_, err := c.ReadResource(ctx, prefix+name+"://1")
		return err
	}, true},
	{"the completion of a prompt", func(ctx context.Context, c *client.Client, name, _ string) error {
		return completes(ctx, c, mcp.CompleteReference{Type: mcp.RefPrompt, Name: "up__" + name})
	}, true},
	{"the completion of a template", func(ctx context.Context, c *client.Client, name, prefix string) error {
		return completes(ctx, c, mcp.CompleteReference{Type: mcp.RefResource, URI: prefix + name + "://{x}"})
	}, true},
	{"a subscription", func(ctx context.Context, c *client.Client, name, prefix string) error {
		return subscribes(ctx, c, prefix+"lib://"+name)
	}, true},
	{"a subscription to a resource of a template", func(
		ctx context.Context, c *client.Client, name, prefix string,
	) error {
		return subscribes(ctx, c, prefix+name+"://1")
	}, true},
}

func completes(ctx context.Context, c *client.Client, ref mcp.CompleteReference) error {
	_, err := c.Complete(ctx, mcp.CompleteParams{Ref: ref, Argument: mcp.CompleteArgument{Name: "x"}})
	return err
}

// subscribes subscribes to a resource until ctx ends. It returns when the subscription has begun or was rejected.
func subscribes(ctx context.Context, c *client.Client, uri string) error {
	began := make(chan error, 1)
	go func() {
		for _, err := range c.Watch(ctx, client.WatchFilter{URIs: []string{uri}}) {
			select {
			case began <- err:
			default:
			}
			if err != nil {
				return
			}
		}
	}()
	select {
	case err := <-began:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// addIt adds an entry of each kind with the name "it". Each handler sends a value to ran.
func addIt(s *server.Server, ran chan<- struct{}, options ...server.Option) {
	var followed sync.Map // a connection that subscribes to a further resource subscribes again
	resource := append([]server.Option{server.WhileSubscribed(func(_ context.Context, uri string) {
		if _, again := followed.LoadOrStore(uri, true); !again {
			ran <- struct{}{}
		}
	})}, options...)
	type input struct {
		X string `json:"x,omitempty"`
	}
	done := func(context.Context, input) (string, error) { ran <- struct{}{}; return "done", nil }
	complete := server.Complete("x", func(context.Context, string, map[string]string) ([]string, error) {
		ran <- struct{}{}
		return nil, nil
	})
	server.AddTool(s, mcp.Tool{Name: "it"}, func(ctx context.Context, _ none) (string, error) {
		_, err := server.Elicit[input](ctx, "Which?")
		if err == nil {
			ran <- struct{}{}
		}
		return "done", err
	}, options...)
	server.AddPrompt(s, mcp.Prompt{Name: "it"}, done, append(options, complete)...)
	server.AddResource(s, mcp.Resource{URI: "lib://it", Name: "it"},
		func(context.Context) (string, error) { ran <- struct{}{}; return "done", nil }, resource...)
	server.AddTemplate(s, mcp.ResourceTemplate{URITemplate: "it://{x}", Name: "it"}, done, append(resource, complete)...)
}

// A request for an entry reaches its server only for callers who have the entry, whether the server lists it for Ada
// alone or the policy allows it to Ada alone. Questions go to Ada.
func TestEntriesServeAuthorizedCallersOnly(t *testing.T) {
	onlyAda := []host.Rule{{When: isAda, WhenForLists: true, Action: host.Allow}, {Method: "*/*", Server: "up", Action: host.Deny}}
	for rule, of := range map[string]struct {
		callerAuth bool
		options    []server.Option
		rules      []host.Rule
	}{
		"lists of callers": {true, []server.Option{server.VisibleTo(func(who principal.Principal, _ string) bool {
			return who.Subject() == "ada"
		})}, nil},
		"policy for lists of callers": {true, nil, onlyAda},
		"policy":                      {false, nil, onlyAda},
	} {
		for _, r := range []mcp.Revision{mcp.V20251125, mcp.V20260728} {
			t.Run(fmt.Sprintf("%s/%s", rule, r), func(t *testing.T) {
				u, ran := newUsers(t, "ada", "bob"), make(chan struct{}, 100)
				x := newExchange(t, u)
				p := newProtectedServer(t, x.URL)
				addIt(p.Server, ran, of.options...)
				x.up[p.url] = p
				config, prefix := p.config("up", x.callers()), "server:up/"
				if !of.callerAuth {
					p.Auth, prefix = nil, ""
					up := httptest.NewServer(p.Server)
					t.Cleanup(up.Close)
					config = host.ServerConfig{Name: "up", Target: client.URL(up.URL)}
				}
				h := &host.Host{
					Servers: []host.ServerConfig{config}, Policy: host.Rules{Default: host.Allow, Rules: of.rules},
				}
				gatewaytest.Run(t, h, u.server, func(g *gateway.Gateway) { g.ListBudget = -1 })
				u.front.Start()
				t.Cleanup(u.front.Close)
				t.Cleanup(func() { u.server.Shutdown(context.Background()) })
				dial := func(name string) *client.Client {
					d := client.Dialer{Revision: r, Logger: quiet, Auth: u.logins[name]}
					d.Elicit = func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
						must.CheckEqual(t, name, "ada")
						return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: []byte(`{}`)}, nil
					}
					c := must.Get(d.Dial(t.Context(), client.URL(u.url())))(t)
					t.Cleanup(func() { c.Close() })
					return c
				}
				ada, bob := dial("ada"), dial("bob")
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				for _, way := range ways {
					if err := way.use(ctx, ada, "it", prefix); err != nil {
						t.Errorf("%s of Ada: %v", way.name, err)
						continue
					}
					if way.runs {
						select {
						case <-ran: // the handler of a subscription starts later
						case <-ctx.Done():
							t.Fatalf("%s of Ada does not reach the server", way.name)
						}
					}
					err := way.use(ctx, bob, "it", prefix)
					must.CheckThat(t, err != nil && len(ran) == 0,
						"%s of Bob: %v, %d handlers run", way.name, err, len(ran))
					absent := way.use(ctx, bob, "absent", prefix)
					must.CheckThat(t, of.rules != nil ||
						strings.ReplaceAll(fmt.Sprint(err), "it", "absent") == strings.ReplaceAll(fmt.Sprint(absent),
							"it", "absent"), "%s of Bob: %v, for an entry that nobody has: %v", way.name, err, absent)
				}
			})
		}
	}
}
