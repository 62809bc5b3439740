package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/gateway"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/gatewaytest"
	"github.com/parley-mcp/parley/internal/ledger"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
)

var callersOfEach = flag.Int("callers", 10, "number of callers of each revision in the isolation test")

const (
	equalServers    = 10
	equalPrompts    = 3 // prompts of each server at the start, and as many more later
	patienceOfCalls = 2 * time.Minute
)

// ownedBy contains the arguments of the tools of equalServer: the caller and the nonce of its call.
type ownedBy struct{ Owner, Nonce string }

func (o ownedBy) String() string { return o.Owner + " " + o.Nonce }

// equalServer returns one of several servers with the same tools, resources, prompts and, because IDs are counted,
// the same request IDs and progress tokens. See also equalIDs. Its tools send the owner and the nonce of a call in
// every way that they can.
func equalServer(name string, record *ledger.Ledger) *server.Server {
	s := &server.Server{Name: "equal", Logger: quiet, Limits: server.Limits{PageSize: 1}}
	use := func(ctx context.Context, in ownedBy) (string, error) {
		record.Started(in.Owner, in.Nonce)
		if err := server.Progress(ctx, 1, 2, in.String()); err != nil {
			return "", err
		}
		server.Logger(ctx).Error(in.String())
		answer, err := server.Sample(ctx, mcp.CreateMessageParams{MaxTokens: 1,
			Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser,
				Content: []mcp.Content{&mcp.TextContent{Text: in.String()}}}}})
		if err != nil {
			return "", err
		}
		return name + " " + in.Nonce + " " + text(answer.Content), nil
	}
	server.AddTool(s, mcp.Tool{Name: "use"}, use, server.Parked())
	server.AddTool(s, mcp.Tool{Name: "job"}, use,
		server.AsTask(server.TaskOptions{PollInterval: 100 * time.Millisecond}))
	server.AddStatic(s, mcp.Resource{URI: "lib://shared", Name: "shared"}, name)
	for i := range equalPrompts {
		addPrompt(s, name, i)
	}
	return s
}

// addPrompt adds a prompt that the other servers offer, too. Its description is the name of the server.
func addPrompt(s *server.Server, name string, i int) {
	server.AddPrompt(s, mcp.Prompt{Name: fmt.Sprint("p", i), Description: name},
		func(context.Context, none) (string, error) { return name, nil })
}

// caller is one client of the gateway.
type caller struct {
	name   string
	ledger *ledger.Ledger

	mu   sync.Mutex
	open map[string]bool // nonces of its calls in flight
}

// received checks that what has arrived belongs to a call of the caller.
func (c *caller) received(t *testing.T, what, owned string) {
	owner, nonce, _ := strings.Cut(owned, " ")
	c.mu.Lock()
	defer c.mu.Unlock()
	must.CheckThat(t, owner == c.name && c.open[nonce], "%s has received %s of %q", c.name, what, owned)
}

func (c *caller) dial(t *testing.T, url string, r mcp.Revision) *client.Client {
	d := client.Dialer{Revision: r, Logger: quiet}
	d.Timeouts.Tool = patienceOfCalls
	d.Sample = func(_ context.Context, params *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
		question := text(params.Messages[0].Content)
		c.received(t, "a question", question)
		return &mcp.CreateMessageResult{Model: "m", Role: mcp.RoleAssistant,
			Content: []mcp.Content{&mcp.TextContent{Text: c.name}}}, nil
	}
	d.OnLog = func(_ context.Context, m mcp.LoggingMessageParams) {
		var record struct{ Message string }
		if json.Unmarshal(m.Data, &record) == nil {
			c.received(t, "a log message", record.Message)
		}
	}
	dialled, err := d.Dial(t.Context(), client.URL(url))
	if err != nil {
		t.Errorf("%s: %v", c.name, err)
		return nil
	}
	t.Cleanup(func() { dialled.Close() })
	return dialled
}

// call calls a tool of a server and reports the outcome to the ledger.
func (c *caller) call(t *testing.T, to *client.Client, serverName, tool string) {
	call := c.ledger.Issue(c.name, time.Now().Add(patienceOfCalls))
	c.mu.Lock()
	c.open[call.Nonce()] = true
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(t.Context(), patienceOfCalls)
	defer cancel()
	result, err := client.CallTool[string](ctx, to, serverName+"__"+tool, ownedBy{c.name, call.Nonce()},
		client.WithLogLevel(mcp.LevelError), client.WithProgress(func(_, _ float64, message string) {
			if message != "" { // 2024-11-05 has no message
				c.received(t, "progress", message)
			}
		}))
	if err != nil {
		t.Errorf("%s calls %s of %s: %v", c.name, tool, serverName, err)
		call.Failed(err)
		return
	}
	parts := strings.Fields(result)
	if len(parts) != 3 || parts[0] != serverName || parts[2] != c.name {
		t.Errorf("%s has received %q of %s", c.name, result, serverName)
	}
	call.Returned(parts[1])
}

// Many callers use servers of several revisions that are equal in everything but their data: no answer, question,
// progress, log message, page of a list or task reaches the wrong caller or server. Even the IDs of tasks and sessions,
// the cursors and the request states of the servers are the same.
func TestNothingCrossesBetweenEqualServersAndCallers(t *testing.T) {
	var record ledger.Ledger
	h := &host.Host{}
	h.Dialer.Timeouts.Initialize = patienceOfCalls
	var servers []*server.Server
	var ids []*equalIDs
	for i := range equalServers {
		name := fmt.Sprint("s", i)
		servers = append(servers, equalServer(name, &record))
		equal := &equalIDs{server: servers[i]}
		ids = append(ids, equal)
		up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if i%2 == 0 && r.Header.Get("Mcp-Method") != "" { // every second server supports only sessions
				w.WriteHeader(http.StatusNotFound)
				return
			}
			equal.ServeHTTP(w, r)
		}))
		t.Cleanup(up.Close)
		h.Servers = append(h.Servers, host.ServerConfig{Name: name, Target: client.URL(up.URL),
			Sharing: []host.Sharing{host.SharingAuto, host.SharingEveryone}[i/2%2]})
	}
	s := &server.Server{Name: "gateway", Limits: server.Limits{CallsPerSecond: -1}}
	gatewaytest.Run(t, h, s)
	url := wiretest.Serve(t, s)
	var callers, dialling sync.WaitGroup
	begin := make(chan struct{})
	for i := range *callersOfEach * len(mcp.Revisions()) {
		r := mcp.Revisions()[i%len(mcp.Revisions())]
		c := &caller{name: fmt.Sprintf("caller-%d-%s", i, r), ledger: &record, open: make(map[string]bool)}
		dialling.Add(1)
		callers.Go(func() {
			to := c.dial(t, url, r)
			dialling.Done()
			if <-begin; to == nil {
				return
			}
			c.call(t, to, fmt.Sprint("s", i%equalServers), "use")
			c.call(t, to, fmt.Sprint("s", (i/5)%equalServers), "job")
			other := fmt.Sprint("s", (i+3)%equalServers)
			uri := "server:" + other + "/lib://shared"
			if read, err := to.ReadResource(t.Context(), uri); err != nil || read.Contents[0].Text != other {
				t.Errorf("%s reads %s: %+v, %v", c.name, uri, read, err)
			}
		})
	}
	dialling.Wait()
	close(begin) // all calls at the same time
	for i, equal := range servers {
		callers.Go(func() {
			for p := range equalPrompts { // the list changes
				addPrompt(equal, fmt.Sprint("s", i), equalPrompts+p)
			}
		})
	}
	callers.Wait()
	checkPrompts(t, url)
	for i, of := range ids {
		for _, kind := range []string{"TASK", "NEXT", "SESS", "REQU"} {
			hasSessions := i%2 == 0
			if n := of.issued(kind); n == 0 && (kind != "SESS" || hasSessions) && (kind != "REQU" || !hasSessions) {
				t.Errorf("server s%d has issued no ids of the kind %s", i, kind)
			}
		}
	}
	totals, violations := record.Check()
	must.CheckEqual(t, uint64(totals.Results), uint64(2**callersOfEach*len(mcp.Revisions())), totals.Results)
	for _, violation := range violations {
		t.Error(violation)
	}
}

// checkPrompts waits until all servers have reported their last prompt, and checks that each prompt comes
// from its server.
func checkPrompts(t *testing.T, url string) {
	t.Helper()
	c := must.Get(client.Dial(t.Context(), client.URL(url)))(t)
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patienceOfCalls)
	defer cancel()
	for {
		n := 0
		for prompt, err := range c.Prompts(ctx, client.WithRefresh()) {
			must.Do(t, err)
			name, _, _ := strings.Cut(prompt.Name, "__")
			must.CheckThat(t, prompt.Description == name, "prompt %s is that of %s", prompt.Name, prompt.Description)
			n++
		}
		if n == 2*equalPrompts*equalServers {
			return
		}
	}
}

// equalIDs gives a server IDs that other servers use, too: in responses, it replaces the IDs of tasks and sessions,
// the cursors and the request states with counted ones of the same length, and in requests it restores the server's
// own.
type equalIDs struct {
	server http.Handler

	mu     sync.Mutex
	counts map[string]int    // by kind and length
	ours   map[string]string // our ID by the server's ID
	theirs map[string]string // the server's ID by our ID
}

var (
	// idsOfServer matches the fields with IDs in the messages of a server.
	idsOfServer = regexp.MustCompile(`"(taskId|nextCursor|requestState)":"([^"]{20,})"`)
	// countedIDs matches the IDs that replace them.
	countedIDs = regexp.MustCompile(`(TASK|NEXT|REQU|SESS)[0-9]{16,}`)
)

// counted returns the ID that replaces an ID of a kind.
func (e *equalIDs) counted(kind, id string) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if known, ok := e.ours[id]; ok {
		return known
	}
	if e.counts == nil {
		e.counts, e.ours, e.theirs = make(map[string]int), make(map[string]string), make(map[string]string)
	}
	prefix := strings.ToUpper(kind[:4])
	group := fmt.Sprint(prefix, len(id))
	e.counts[group]++
	own := fmt.Sprintf("%s%0*d", prefix, len(id)-len(prefix), e.counts[group])
	e.ours[id], e.theirs[own] = own, id
	return own
}

// issued returns how many IDs of a kind were issued.
func (e *equalIDs) issued(prefix string) (n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for group, count := range e.counts {
		if strings.HasPrefix(group, prefix) {
			n += count
		}
	}
	return n
}

// restored returns the text of a request with the server's own IDs.
func (e *equalIDs) restored(text []byte) []byte {
	e.mu.Lock()
	defer e.mu.Unlock()
	return countedIDs.ReplaceAllFunc(text, func(id []byte) []byte {
		if own, ok := e.theirs[string(id)]; ok {
			return []byte(own)
		}
		return id
	})
}

func (e *equalIDs) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	body = e.restored(body)
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	for _, values := range r.Header {
		for i := range values {
			values[i] = string(e.restored([]byte(values[i])))
		}
	}
	e.server.ServeHTTP(&equalWriter{ResponseWriter: w, ids: e}, r)
}

// equalWriter replaces the ids in a response.
type equalWriter struct {
	http.ResponseWriter
	ids   *equalIDs
	began bool
}

// Unwrap is for http.ResponseController.
func (w *equalWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *equalWriter) WriteHeader(status int) {
	w.began = true
	if id := w.Header().Get("Mcp-Session-Id"); id != "" && !countedIDs.MatchString(id) {
		w.Header().Set("Mcp-Session-Id", w.ids.counted("session", id))
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *equalWriter) Write(p []byte) (int, error) {
	if !w.began {
		w.WriteHeader(http.StatusOK)
	}
	replaced := idsOfServer.ReplaceAllFunc(p, func(member []byte) []byte {
		parts := idsOfServer.FindSubmatch(member)
		return fmt.Appendf(nil, `"%s":"%s"`, parts[1], w.ids.counted(string(parts[1]), string(parts[2])))
	})
	if _, err := w.ResponseWriter.Write(replaced); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (w *equalWriter) Flush() { _ = http.NewResponseController(w.ResponseWriter).Flush() }

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
