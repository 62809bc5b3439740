package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/gateway"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/gatewaytest"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
)

type path struct {
	Path string `json:"path" doc:"path of the file"`
}

// filesServer returns a server with the tools read and delete, and slow, which reports progress and waits for the end
// of its context.
func filesServer(ended chan<- struct{}) *server.Server {
	s := &server.Server{Name: "files", Info: mcp.Implementation{Title: "Files",
		Description: "Files of a project\nand more"}}
	server.AddTool(s, mcp.Tool{Name: "read", Description: "Read a text file.\nThe second line."},
		func(_ context.Context, in path) (string, error) { return "text of " + in.Path, nil })
	server.AddTool(s, mcp.Tool{Name: "delete", Description: "Remove a file"},
		func(context.Context, path) (string, error) { return "", nil })
	server.AddTool(s, mcp.Tool{Name: "slow", Description: "Wait"},
		func(ctx context.Context, _ struct{}) (string, error) {
			if err := server.Progress(ctx, 1, 2, "halfway"); err != nil {
				return "", err
			}
			<-ctx.Done()
			ended <- struct{}{}
			return "", ctx.Err()
		})
	return s
}

func weatherServer() *server.Server {
	s := &server.Server{Name: "weather"}
	server.AddTool(s, mcp.Tool{Name: "forecast", Description: "Tell tomorrow's weather"},
		func(context.Context, struct{}) (string, error) { return "rain", nil })
	return s
}

// runDiscovery runs a gateway with a budget until the test ends. The channel receives each change of the size of
// its catalogue.
func runDiscovery(t *testing.T, budget int, servers ...host.ServerConfig) (*server.Server, *host.Host,
	<-chan gateway.Size) {
	t.Helper()
	h := &host.Host{Servers: servers}
	s, changes := runDiscoveryOf(t, budget, h)
	return s, h, changes
}

func runDiscoveryOf(t *testing.T, budget int, h *host.Host) (*server.Server, <-chan gateway.Size) {
	t.Helper()
	h.Logger = quiet
	s := &server.Server{Name: "gateway", Logger: quiet}
	changes := make(chan gateway.Size, 100)
	g := must.Get(gateway.New(h, s))(t)
	g.Logger, g.ListBudget, g.OnSize = quiet, budget, func(c gateway.Size) { changes <- c }
	must.Do(t, h.Start())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		g.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		h.Close()
	})
	return s, changes
}

// awaitCatalog waits for a catalogue with a number of tools.
func awaitCatalog(t *testing.T, changes <-chan gateway.Size, tools int) gateway.Size {
	t.Helper()
	timeout := time.NewTimer(20 * time.Second)
	defer timeout.Stop()
	for {
		select {
		case c := <-changes:
			if c.Tools == tools {
				return c
			}
		case <-timeout.C:
			t.Fatalf("the gateway does not have %d tools", tools)
		}
	}
}

func namesListed(t *testing.T, c *client.Client) string {
	t.Helper()
	var names []string
	for _, tool := range listed(t, c) {
		names = append(names, tool.Name)
	}
	return strings.Join(names, " ")
}

func textOfCall(t *testing.T, c *client.Client, tool string, arguments any) string {
	t.Helper()
	text, err := client.CallTool[string](t.Context(), c, tool, arguments)
	if err != nil {
		return "error: " + err.Error()
	}
	return text
}

// discovered is the result of search_tools.
type discovered struct {
	Version string            `json:"version"`
	Total   int               `json:"total"`
	Tools   []json.RawMessage `json:"tools"`
	Servers []json.RawMessage `json:"servers"`
}

func search(t *testing.T, c *client.Client, arguments string) (found discovered) {
	t.Helper()
	text := textOfCall(t, c, "search_tools", json.RawMessage(arguments))
	must.Do(t, json.Unmarshal([]byte(text), &found), arguments, text)
	return found
}

// A tool of a server without a prefix does not replace a tool of the gateway, whichever is registered first.
func TestToolsForDiscoveryKeepTheirNames(t *testing.T) {
	up := &server.Server{Name: "up"}
	for _, name := range []string{"search_tools", "other"} {
		server.AddTool(up, mcp.Tool{Name: name}, func(context.Context, none) (string, error) {
			return "of the server", nil
		})
	}
	config := inMemory(t, "up", up)
	config.NoPrefix = true
	s, _, changes := runDiscovery(t, -1, config)
	awaitCatalog(t, changes, 1)
	c := mcptest.Dial(t, s)
	must.CheckEqual(t, namesListed(t, c), "call_tool describe_tool search_tools")
	must.CheckContains(t, textOfCall(t, c, "search_tools", nil), `"servers"`)
	must.CheckEqual(t, textOfCall(t, c, "other", nil), "of the server")
}

func TestLargeCataloguesAreDiscovered(t *testing.T) {
	ended := make(chan struct{}, 1)
	mcptest.Everywhere(t, func() *server.Server {
		s, _, changes := runDiscovery(t, 100, inMemory(t, "files", filesServer(ended)),
			inMemory(t, "weather", weatherServer()))
		awaitCatalog(t, changes, 4)
		return s
	}, func(t *testing.T, c *client.Client) {
		must.Equal(t, namesListed(t, c), "call_tool describe_tool search_tools")
		found := search(t, c, `{"query":"read a file","limit":1}`)
		must.CheckThat(t, len(found.Tools) == 1 &&
			string(found.Tools[0]) == `{"name":"files__read","server":"files","description":"Read a text file."}` &&
			found.Total >= 1 && found.Version != "", "found %s of %d", found.Tools, found.Total)
		definition := textOfCall(t, c, "describe_tool", map[string]string{"name": "files__read"})
		must.CheckThat(t, strings.HasPrefix(definition, `{"name":"files__read",`) &&
			strings.Contains(definition, `"inputSchema":{"type":"object","properties":{"path":`),
			"the definition is %s", definition)
		arguments := map[string]any{"name": "files__read", "arguments": path{"notes"}}
		must.CheckEqual(t, textOfCall(t, c, "call_tool", arguments), "text of notes")
		must.CheckEqual(t, textOfCall(t, c, "files__read", path{"notes"}), "text of notes")
		must.CheckEqual(t, textOfCall(t, c, "call_tool", map[string]any{"name": "weather__forecast"}), "rain")
	})
}

func TestSearchToolsReturnsTheDetailsThatAreAskedFor(t *testing.T) {
	s, _, changes := runDiscovery(t, -1, inMemory(t, "files", filesServer(nil)),
		inMemory(t, "weather", weatherServer()))
	awaitCatalog(t, changes, 4)
	c := mcptest.Dial(t, s)
	for arguments, want := range map[string]string{
		`{}`: `0 of 4 tools [] servers [{"name":"files","title":"Files",` +
			`"description":"Files of a project","tools":3} {"name":"weather","tools":1}]`,
		`{"server":"files","detail":"name"}`: `3 of 3 tools ["files__delete" "files__read" ` +
			`"files__slow"] servers []`,
		`{"server":"files","detail":"name","offset":1,"limit":1}`: `1 of 3 tools ["files__read"] servers []`,
		`{"server":"files","detail":"name","offset":9}`:           `0 of 3 tools [] servers []`,
		`{"query":"weather","detail":"name"}`:                     `1 of 1 tools ["weather__forecast"] servers []`,
		`{"query":"weather","server":"files"}`:                    `0 of 0 tools [] servers []`,
		`{"query":"xyzzy"}`:                                       `0 of 0 tools [] servers []`,
	} {
		found := search(t, c, arguments)
		got := fmt.Sprintf("%d of %d tools %s servers %s", len(found.Tools), found.Total, found.Tools, found.Servers)
		must.CheckThat(t, got == want, "%s: %s, want %s", arguments, got, want)
	}
	found := search(t, c, `{"query":"weather","detail":"definition"}`)
	must.CheckThat(t, strings.Contains(string(found.Tools[0]), `"name":"weather__forecast"`) &&
		strings.Contains(string(found.Tools[0]), `"inputSchema":{`), "the definition is %s", found.Tools[0])
	for tool, test := range map[string][2]string{
		"search_tools":  {`{"server":"nowhere"}`, `server "nowhere" has no tools; call search_tools without arguments`},
		"describe_tool": {`{"name":"delete_files"}`, `unknown tool: "delete_files"; did you mean files__delete`},
		"call_tool":     {`{"name":"files__nothing"}`, `unknown tool: "files__nothing"`},
	} {
		must.CheckContains(t, textOfCall(t, c, tool, json.RawMessage(test[0])), test[1], tool)
	}
	for tool, arguments := range map[string]string{"search_tools": `{"limit":51}`, "describe_tool": `{}`,
		"call_tool": `{"name":"files__read","arguments":{}}`} {
		must.CheckContains(t, textOfCall(t, c, tool, json.RawMessage(arguments)), "invalid arguments", tool, arguments)
	}
}

func TestDiscoveryDependsOnTheBudget(t *testing.T) {
	for budget, want := range map[int]string{
		0:       "files__delete files__read files__slow",
		1 << 20: "files__delete files__read files__slow",
		100:     "call_tool describe_tool search_tools",
		-1:      "call_tool describe_tool search_tools",
	} {
		s, _, changes := runDiscovery(t, budget, inMemory(t, "files", filesServer(nil)))
		catalog := awaitCatalog(t, changes, 3)
		must.CheckThat(t, catalog.Listed == (budget == 0 || budget == 1<<20) && catalog.Bytes >= 300 &&
			catalog.Bytes <= 3000, "budget %d: %+v", budget, catalog)
		c := mcptest.Dial(t, s)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		var listed string
		for _, err := range c.Watch(ctx, client.WatchFilter{Tools: true}) {
			must.Do(t, err)
			if listed = namesListed(t, c); listed == want {
				break
			}
		}
		cancel()
		must.CheckEqual(t, listed, want, "the budget is", budget)
	}
}

// A catalogue that grows beyond the budget, and shrinks again, changes what clients list. They are notified.
func TestDiscoveryFollowsTheCatalogue(t *testing.T) {
	weather := weatherServer()
	s, h, changes := runDiscovery(t, 600, inMemory(t, "weather", weather))
	if c := awaitCatalog(t, changes, 1); !c.Listed {
		t.Fatalf("one tool: %+v", c)
	}
	c := mcptest.Dial(t, s)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var versions []string
	steps := []struct {
		listed string
		next   func()
	}{
		{"weather__forecast", func() {
			versions = append(versions, h.ToolsVersion(t.Context()))
			for i := range 4 {
				server.AddTool(weather, mcp.Tool{Name: fmt.Sprintf("more%d", i), Description: strings.Repeat("x", 100)},
					func(context.Context, struct{}) (string, error) { return "", nil })
			}
		}},
		{"call_tool describe_tool search_tools", func() {
			if found := search(t, c, `{"server":"weather"}`); found.Total > 5 || found.Version == versions[0] {
				t.Errorf("found %+v after version %s", found, versions[0])
			}
			for i := range 4 {
				weather.RemoveTool(fmt.Sprintf("more%d", i))
			}
		}},
		{"weather__forecast", nil},
	}
	for _, err := range c.Watch(ctx, client.WatchFilter{Tools: true}) {
		if err != nil {
			t.Fatalf("waiting for %s, listed %s: %v", steps[0].listed, namesListed(t, c), err)
		}
		if namesListed(t, c) != steps[0].listed {
			continue
		}
		if steps[0].next == nil {
			return
		}
		steps[0].next()
		steps = steps[1:]
	}
	t.Errorf("the list is not %s", steps[0].listed)
}

func TestCallToolForwardsProgressAndCancellation(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{}, 1)
	mcptest.Everywhere(t, func() *server.Server {
		s, _, changes := runDiscovery(t, -1, inMemory(t, "files", filesServer(ended)))
		awaitCatalog(t, changes, 3)
		return s
	}, func(t *testing.T, c *client.Client) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		_, err := c.CallTool(ctx, "call_tool", map[string]any{"name": "files__slow"},
			client.WithProgress(func(done, total float64, text string) {
				must.CheckThat(t, done == 1 && total == 2 && (text == "halfway" || c.Revision() == mcp.V20241105),
					"progress %v of %v %q", done, total, text)
				cancel()
			}))
		must.CheckThat(t, err != nil, "the call was not cancelled")
		must.Receive(t, ended, "the call of the server")
	})
}

// The policy and the audit log see the calls of call_tool under the real names. Approvals work, too.
func TestPolicyAppliesToCallsOfCallTool(t *testing.T) {
	up := newPayments()
	var log events
	var asked []string
	h := &host.Host{
		Servers: []host.ServerConfig{inMemory(t, "bank", up.Server)},
		Policy: policyFunc(func(_ context.Context, r *host.Request) (host.Decision, error) {
			asked = append(asked, fmt.Sprintf("%s %s of server %q", r.Method, r.Name, r.Server))
			if strings.Contains(string(r.Arguments), "1000") {
				return host.Decision{Action: host.Deny, Reason: "too much"}, nil
			}
			return host.Decision{Action: host.Ask}, nil
		}),
		Approve: gateway.Approve,
		Audit:   gatewaytest.Audit(log.write),
	}
	s, changes := runDiscoveryOf(t, -1, h)
	awaitCatalog(t, changes, 1)
	questions := 0
	c := mcptest.Dial(t, s, func(d *client.Dialer) {
		d.Elicit = func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			questions++
			return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: json.RawMessage(`{"approve":"once"}`)}, nil
		}
	})
	must.CheckContains(t, textOfCall(t, c, "call_tool",
		json.RawMessage(`{"name":"bank__pay","arguments":{"amount":1000}}`)), "too much", "the result")
	if events := log.take(); !strings.HasPrefix(events, "denied") || up.paid.Load() != 0 {
		t.Errorf("the audit log has %s; %d calls reached the server", events, up.paid.Load())
	}
	got := textOfCall(t, c, "call_tool",
		json.RawMessage(`{"name":"bank__pay","arguments":{"amount":1}}`))
	must.CheckThat(t, got == "paid" && questions == 1, "the result is %s after %d questions", got, questions)
	for _, r := range asked {
		must.CheckEqual(t, r, `tools/call pay of server "bank"`)
	}
}

// startSearched starts a gateway with a list budget in front of two servers: one with CallerAuth, which lists a
// tool for each user and 20 more for Ada, and one for all.
func startSearched(t *testing.T, budget int, policy host.Policy) *users {
	u := newUsers(t, "ada", "bob")
	x := newExchange(t, u)
	p := newProtectedServer(t, x.URL)
	ownEntries(p.Server, "ada", "bob")
	x.up[p.url] = p
	for i := range 20 {
		server.AddTool(p.Server, mcp.Tool{Name: fmt.Sprintf("paint_%02d", i),
			Description: "Paint the fence with brush " + fmt.Sprint(i)},
			func(context.Context, none) (string, error) { return "painted", nil },
			server.VisibleTo(func(who principal.Principal, _ string) bool { return who.Subject() == "ada" }))
	}
	h := &host.Host{Servers: []host.ServerConfig{p.config("up", x.callers()), inMemory(t, "weather", weatherServer())},
		Policy: policy}
	gatewaytest.Run(t, h, u.server, func(g *gateway.Gateway) { g.ListBudget = budget })
	u.front.Start()
	t.Cleanup(u.front.Close)
	t.Cleanup(func() { u.server.Shutdown(context.Background()) })
	return u
}

func found(t *testing.T, c *client.Client, arguments string) string {
	var names []string
	for _, raw := range search(t, c, arguments).Tools {
		names = append(names, strings.Trim(string(raw), `"`))
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// A caller finds tools that only this caller has, but neither tools of other callers nor tools that the policy
// denies.
func TestToolsOfCallersAreDiscovered(t *testing.T) {
	u := startSearched(t, -1, host.Rules{Default: host.Allow, Rules: []host.Rule{
		{When: isAda, WhenForLists: true, Action: host.Allow},
		{Tool: "whoami", Action: host.Deny},
	}})
	for _, r := range everyRevision {
		t.Run(string(r), func(t *testing.T) {
			ada, bob := u.dial("ada", r), u.dial("bob", r)
			for name, c := range map[string]*client.Client{"ada": ada, "bob": bob} {
				must.CheckEqual(t, namesListed(t, c), "call_tool describe_tool search_tools", name)
			}
			for arguments, want := range map[string][2]string{
				`{"query":"whoami only forecast","detail":"name"}`: {"up__ada_only up__whoami weather__forecast",
					"up__bob_only weather__forecast"},
				`{"query":"fence","detail":"name","limit":2}`: {"up__paint_00 up__paint_01", ""},
				`{"server":"up","detail":"name","limit":3}`: {"up__ada_only up__paint_00 up__paint_01",
					"up__bob_only"},
				`{"server":"weather","query":"tomorrow","detail":"name"}`: {"weather__forecast", "weather__forecast"},
			} {
				must.CheckEqual(t, [2]string{found(t, ada, arguments), found(t, bob, arguments)}, want, arguments)
			}
			all := search(t, ada, `{}`)
			must.CheckEqual(t, fmt.Sprintf("%d %s", all.Total, all.Servers),
				`23 [{"name":"up","tools":22} {"name":"weather","tools":1}]`, "all tools")
			if other := search(t, bob, `{}`); other.Version == "" || other.Version == all.Version {
				t.Errorf("the versions for two callers are %q and %q", all.Version, other.Version)
			}
			must.CheckContains(t, textOfCall(t, ada, "describe_tool", map[string]string{"name": "up__paint_07"}),
				"brush 7")
			must.CheckEqual(t, textOfCall(t, ada, "call_tool", map[string]string{"name": "up__paint_07"}), "painted")
			for tool, want := range map[string]string{"describe_tool": "unknown tool", "call_tool": "unknown tool"} {
				got := textOfCall(t, bob, tool, map[string]string{"name": "up__ada_only"})
				must.CheckThat(t, strings.Contains(got, want) && !strings.Contains(got, "mean up__ada"),
					"%s of Bob: %s", tool, got)
			}
			must.CheckContains(t, textOfCall(t, bob, "call_tool", map[string]string{"name": "up__whoami"}), "is denied",
				"call of a hidden tool")
		})
	}
}

// The budget applies to all tools that a caller has. If a caller's own tools exceed it, the tools for all are
// still listed, as for others.
func TestBudgetCountsTheToolsOfTheCaller(t *testing.T) {
	u := startSearched(t, 2000, nil)
	for _, r := range everyRevision {
		t.Run(string(r), func(t *testing.T) {
			ada, bob := u.dial("ada", r), u.dial("bob", r)
			must.CheckEqual(t, namesListed(t, ada), "call_tool describe_tool search_tools weather__forecast")
			must.CheckEqual(t, namesListed(t, bob), "up__bob_only up__whoami weather__forecast")
			got := found(t, ada,
				`{"query":"brush fence 7 forecast","detail":"name","limit":1}`)
			must.CheckThat(t, got == "up__paint_07" || got == "weather__forecast", "found %s", got)
			must.CheckEqual(t, textOfCall(t, ada, "call_tool", map[string]string{"name": "up__paint_07"}), "painted")
			for _, name := range []string{"up__login", "up__whoami"} { // can be called although they are not listed
				got := textOfCall(t, ada, name, nil)
				must.CheckThat(t, !strings.HasPrefix(got, "error"), "%s: %s", name, got)
			}
		})
	}
}
