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
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/gatewaytest"
	"github.com/parley-mcp/parley/internal/ledger"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/mcp"
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

// addPrompt adds a prompt that the other servers have, too. Its description is the name of the server.
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
