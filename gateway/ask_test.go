package gateway_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/gateway"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/gatewaytest"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store"
	"github.com/parley-mcp/parley/transport"
)

// httpConfig returns the config of a server over HTTP.
func httpConfig(t *testing.T, name string, s *server.Server) host.ServerConfig {
	s.Logger = quiet
	up := httptest.NewServer(s)
	t.Cleanup(up.Close)
	return host.ServerConfig{Name: name, Target: client.URL(up.URL)}
}

// text returns the text of the only content block.
func text(content []mcp.Content) string { return content[0].(*mcp.TextContent).Text }

// declaring returns a server with the tool "declared", which returns the capabilities of its client.
func declaring() *server.Server {
	s := &server.Server{Name: "declaring"}
	server.AddTool(s, mcp.Tool{Name: "declared"}, func(ctx context.Context, _ none) (string, error) {
		declared := *call.From(ctx).Peer().Capabilities
		declared.Extensions, declared.Tasks = nil, nil // the gateway waits for tasks
		if declared.Roots != nil {
			declared.Roots.ListChanged = false
		}
		raw, err := json.Marshal(declared)
		return string(raw), err
	})
	return s
}

// Servers of 2026-07-28, and servers whose session belongs to one caller, learn what the client of the call
// supports.
func TestServersSeeTheCapabilitiesOfTheClient(t *testing.T) {
	form := func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) { return nil, nil }
	for _, theirs := range []mcp.Revision{mcp.V20251125, mcp.V20260728} {
		s := &server.Server{Name: "gateway", Version: "1"}
		gatewaytest.Run(t, &host.Host{Servers: []host.ServerConfig{httpConfig(t, "up", declaring())},
			Dialer: client.Dialer{Revision: theirs}}, s)
		for want, set := range map[string]func(*client.Dialer){
			`{}`:                          func(*client.Dialer) {},
			`{"elicitation":{"form":{}}}`: func(d *client.Dialer) { d.Elicit = form },
			`{"elicitation":{"url":{}}}`:  func(d *client.Dialer) { d.ElicitURL = form },
			`{"roots":{},"sampling":{}}`: func(d *client.Dialer) {
				d.Roots = func(context.Context) ([]mcp.Root, error) { return nil, nil }
				d.Sample = func(context.Context, *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
					return nil, nil
				}
			},
		} {
			for _, ours := range []mcp.Revision{mcp.V20251125, mcp.V20260728} {
				if ours.Modern() && !theirs.Modern() {
					continue // callers without authentication share the session
				}
				c := mcptest.Dial(t, s, mcptest.WithRevision(ours), set)
				got, err := client.CallTool[string](t.Context(), c, "up__declared", nil)
				got = strings.Replace(got, `"elicitation":{}`, `"elicitation":{"form":{}}`, 1)
				must.CheckThat(t, err == nil && sameJSON(got, want),
					"client %s, server %s: %s, %v, want %s", ours, theirs, got, err, want)
			}
		}
	}
}

func sameJSON(a, b string) bool {
	var x, y any
	_ = json.Unmarshal([]byte(a), &x)
	_ = json.Unmarshal([]byte(b), &y)
	one, _ := json.Marshal(x)
	two, _ := json.Marshal(y)
	return string(one) == string(two)
}

// If a server asks a client that does not support the question, the server receives the error that such a
// client would send.
func TestServersLearnThatTheClientCannotAnswer(t *testing.T) {
	up := &server.Server{Name: "up"}
	server.AddTool(up, mcp.Tool{Name: "roots"}, func(ctx context.Context, _ none) (string, error) {
		_, err := server.Roots(ctx)
		if rejected := new(call.AnswerError); errors.As(err, &rejected) {
			return rejected.Err.Error(), nil
		}
		return "", err
	})
	config := httpConfig(t, "up", up)
	config.Sharing = host.SharingEveryone // so that the session declares all capabilities
	s := &server.Server{Name: "gateway", Version: "1"}
	gatewaytest.Run(t, &host.Host{Servers: []host.ServerConfig{config}, Dialer: client.Dialer{Revision: mcp.V20250618}},
		s)
	for _, r := range mcp.Revisions() {
		got, err := client.CallTool[string](t.Context(), mcptest.Dial(t, s, mcptest.WithRevision(r)), "up__roots", nil)
		must.CheckThat(t, err == nil && strings.Contains(got,
			"the client of this call does not support it (code -32601)"), "%s: %q, %v", r, got, err)
	}
}

// trace collects messages.
type trace struct {
	mu  sync.Mutex
	all []string
}

func (l *trace) add(message []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, string(message))
}

// The client of 2026-07-28 retries at another replica of the gateway.
func TestAnswerReachesTheReplicaOfTheCall(t *testing.T) {
	memory := store.NewMemory()
	up := matrixServer(t, mcp.V20251125, memory)
	var replicas balancer
	for range 3 {
		s := &server.Server{Name: "gateway", Store: memory, Keys: [][]byte{make([]byte, 32)}}
		gatewaytest.Run(t, &host.Host{Servers: []host.ServerConfig{up}, Dialer: client.Dialer{Revision: mcp.V20251125}},
			s)
		replicas.replicas = append(replicas.replicas, s)
		t.Cleanup(func() { _ = s.Shutdown(context.Background()) })
	}
	front := httptest.NewServer(&replicas)
	t.Cleanup(front.Close)
	c := gatewaytest.Dial(t, front.URL, "up", mcp.V20260728)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for i, tool := range []string{"form", "sample", "url", "roots", "form", "form"} {
		nonce := string(rune('a' + i))
		want := map[string]string{"form": "form ", "sample": "sampled ", "url": "opened ", "roots": "file:///"}[tool] +
			nonce
		must.Check(t, c.Wants(ctx, tool, nonce, want))
	}
}

// questioning returns the config of a server on a byte stream. Its tool ask asks the user who calls it.
func questioning(t *testing.T) host.ServerConfig {
	up := &server.Server{Name: "up", Logger: quiet}
	server.AddTool(up, mcp.Tool{Name: "ask"}, func(ctx context.Context, in struct{ Who string }) (string, error) {
		answer, err := server.Elicit[struct{ Name string }](ctx, "Are you "+in.Who+"?")
		return answer.Name, err
	})
	near, far := transport.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = up.ServeConn(ctx, far)
	}()
	t.Cleanup(func() {
		cancel()
		<-served
	})
	return host.ServerConfig{Name: "up", Target: client.Conn(near)}
}

// leaveAtQuestion calls the tool ask in a session, and disconnects when the question arrives, without
// cancelling the call.
func leaveAtQuestion(t *testing.T, url string) {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	session := ""
	post := func(body string) *http.Response {
		r, _ := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(`{"jsonrpc":"2.0",`+body+`}`))
		r.Close, r.Header = true, http.Header{"Content-Type": {"application/json"},
			"Accept": {"application/json, text/event-stream"}}
		if session != "" {
			r.Header.Set("Mcp-Session-Id", session)
		}
		resp := must.Get(http.DefaultClient.Do(r))(t)
		return resp
	}
	begun := post(`"id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",` +
		`"capabilities":{"elicitation":{}},"clientInfo":{"name":"c","version":"1"}}`)
	session = begun.Header.Get("Mcp-Session-Id")
	begun.Body.Close()
	t.Cleanup(func() { // the server would wait for the call
		r, _ := http.NewRequest(http.MethodDelete, url, nil)
		r.Close = true
		r.Header.Set("Mcp-Session-Id", session)
		if resp, err := http.DefaultClient.Do(r); err == nil {
			resp.Body.Close()
		}
	})
	post(`"method":"notifications/initialized"`).Body.Close()
	called := post(`"id":2,"method":"tools/call","params":{"name":"up__ask","arguments":{"Who":"gone"}}`)
	defer called.Body.Close()
	for lines := bufio.NewScanner(called.Body); lines.Scan(); {
		if strings.Contains(lines.Text(), "Are you gone?") {
			return
		}
	}
	t.Fatal("no question")
}

// Clients that leave during a question do not keep others from being asked. Neither do clients that are asked at the
// same time.
func TestAbandonedQuestionsDoNotBlockOthers(t *testing.T) {
	config := questioning(t)
	s := &server.Server{Name: "gateway"}
	type localUser struct{}
	gatewaytest.Run(t, &host.Host{Servers: []host.ServerConfig{config}, Dialer: client.Dialer{Revision: mcp.V20251125}},
		s, func(g *gateway.Gateway) {
			g.LocalUser = func(ctx context.Context) bool { return ctx.Value(localUser{}) != nil }
		})
	local := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), localUser{}, true)))
	}))
	t.Cleanup(func() {
		now, cancel := context.WithCancel(context.Background())
		cancel()
		_ = s.Shutdown(now) // ends the call that was left
		local.Close()
	})
	dial := func(url string, r mcp.Revision, answer func(question string) (*mcp.ElicitResult, error)) *client.Client {
		d := client.Dialer{Revision: r, Logger: quiet}
		d.Elicit = func(_ context.Context, form *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			return answer(form.Message)
		}
		c := must.Get(d.Dial(t.Context(), client.URL(url)))(t)
		t.Cleanup(func() { c.Close() })
		return c
	}
	leaving := dial(local.URL, mcp.V20260728, func(string) (*mcp.ElicitResult, error) {
		return nil, errors.New("interrupted")
	})
	_, err := leaving.CallTool(t.Context(), "up__ask", map[string]string{"Who": "left"})
	must.CheckThat(t, err != nil, "the call that was left has a result")
	leaveAtQuestion(t, local.URL)
	var calls, asked sync.WaitGroup
	asked.Add(3)
	for i, r := range []mcp.Revision{mcp.V20250618, mcp.V20251125, mcp.V20260728} {
		who, isAsked := fmt.Sprint("user ", i), sync.OnceFunc(asked.Done)
		c := dial(local.URL, r, func(question string) (*mcp.ElicitResult, error) {
			isAsked()    // perhaps again, if another client's answer ended the call
			asked.Wait() // all are asked at the same time
			return mcp.AcceptElicit(struct{ Name string }{strings.TrimPrefix(question, asksOf("up"))})
		})
		calls.Go(func() {
			got, err := client.CallTool[string](t.Context(), c, "up__ask",
				map[string]string{"Who": who})
			must.CheckThat(t, err == nil && got == "Are you "+who+"?", "%s: %s was asked %q, %v", r, who, got, err)
		})
	}
	calls.Wait()
	// Without a user, the caller may be another person, who must not see the question.
	other := httptest.NewServer(s)
	t.Cleanup(other.Close)
	stranger := dial(other.URL, mcp.V20251125, func(question string) (*mcp.ElicitResult, error) {
		t.Errorf("another person is asked %q", question)
		return nil, errors.New("no")
	})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	got, err := client.CallTool[string](ctx, stranger, "up__ask", map[string]string{"Who": "stranger"})
	must.CheckThat(t, err != nil, "the call of another person has the result %q", got)
}

// Input requests that a server of 2026-07-28 sends in one result arrive in one result, with the keys of the server.
func TestInputRequestsOfOneResultAreForwardedTogether(t *testing.T) {
	type name struct {
		Name string `json:"name"`
	}
	up := &server.Server{Name: "up"}
	server.AddTool(up, mcp.Tool{Name: "ask"}, func(ctx context.Context, _ none) (string, error) {
		var first, second name
		var roots []mcp.Root
		if err := server.Ask(ctx, server.ElicitInto(&first, "First", server.Keyed("first")),
			server.ElicitInto(&second, "Second", server.Keyed("second")),
			server.RootsInto(&roots, server.Keyed("roots"))); err != nil {
			return "", err
		}
		third, err := server.Elicit[name](ctx, "Third")
		return fmt.Sprintf("%s, %s, %s, %s", first.Name, second.Name, third.Name, roots[0].URI), err
	})
	s := &server.Server{Name: "gateway", Version: "1"}
	gatewaytest.Run(t, &host.Host{Servers: []host.ServerConfig{httpConfig(t, "up", up)}}, s)
	var mu sync.Mutex
	var rounds []string
	c := mcptest.Dial(t, s, mcptest.WithRevision(mcp.V20260728), func(d *client.Dialer) {
		d.Elicit = func(_ context.Context, form *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			return mcp.AcceptElicit(name{strings.ToLower(strings.TrimPrefix(form.Message, asksOf("up")))})
		}
		d.Roots = func(context.Context) ([]mcp.Root, error) { return []mcp.Root{{URI: "file:///work"}}, nil }
		d.Trace = func(sent bool, message []byte) {
			if text := string(message); !sent && strings.Contains(text, `"input_required"`) {
				mu.Lock()
				defer mu.Unlock()
				rounds = append(rounds, text)
			}
		}
	})
	text := must.Get(client.CallTool[string](t.Context(), c, "up__ask", nil))(t)
	must.CheckEqual(t, text, "first, second, third, file:///work")
	mu.Lock()
	defer mu.Unlock()
	must.Equal(t, len(rounds), 2, rounds)
	for _, key := range []string{`"first":{`, `"second":{`, `"roots":{`} {
		must.CheckContains(t, rounds[0], key)
	}
}

// models counts the sampling requests and the other requests of servers that reach a client.
type models struct{ sampled, asked atomic.Int32 }

// dial returns a client of the gateway at url whose user answers approvals.
func (m *models) dial(t *testing.T, url string, r mcp.Revision, u *user) *client.Client {
	d := client.Dialer{Revision: r, Logger: quiet, Elicit: u.elicit}
	d.ElicitURL = func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		m.asked.Add(1)
		return &mcp.ElicitResult{Action: mcp.ElicitAccept}, nil
	}
	d.Sample = func(_ context.Context, params *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
		m.sampled.Add(1)
		return &mcp.CreateMessageResult{Model: "m", Role: mcp.RoleAssistant,
			Content: []mcp.Content{&mcp.TextContent{Text: "hi"}}}, nil
	}
	d.Roots = func(context.Context) ([]mcp.Root, error) {
		m.asked.Add(1)
		return nil, nil
	}
	c := must.Get(d.Dial(t.Context(), client.URL(url)))(t)
	t.Cleanup(func() { c.Close() })
	return c
}

// sampling returns a server with a tool and a prompt that each send two equal sampling requests.
func sampling() *server.Server {
	s := pretender()
	twice := func(ctx context.Context) (string, error) {
		for range 2 {
			if _, err := server.Sample(ctx, mcp.CreateMessageParams{MaxTokens: 1,
				Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser,
					Content: []mcp.Content{&mcp.TextContent{Text: "hello"}}}}}); err != nil {
				return "", err
			}
		}
		return "sampled", nil
	}
	server.AddTool(s, mcp.Tool{Name: "twice"}, func(ctx context.Context, _ none) (string, error) { return twice(ctx) })
	server.AddPrompt(s, mcp.Prompt{Name: "twice"}, func(ctx context.Context, _ none) (string, error) {
		return twice(ctx)
	})
	return s
}

// guarded returns the URL of a gateway with a policy in front of a server, which it reaches in a revision.
func guarded(t *testing.T, up *server.Server, r mcp.Revision, log *events, rules ...host.Rule) string {
	endpoint := httptest.NewServer(up)
	t.Cleanup(endpoint.Close)
	s := &server.Server{Name: "gateway"}
	gatewaytest.Run(t, &host.Host{
		Servers: []host.ServerConfig{{Name: "up", Target: client.URL(endpoint.URL)}},
		Dialer:  client.Dialer{Revision: r},
		Policy:  host.Rules{Rules: rules, Default: host.Allow}, Approve: gateway.Approve,
		Audit: gatewaytest.Audit(log.write),
	}, s, gatewaytest.OfLocalUser)
	return wiretest.Serve(t, s)
}

// A sampling request needs the user's approval, even if it equals an earlier request of the same call.
func TestSamplingOfAServerIsApprovedByTheUserOfTheCall(t *testing.T) {
	for _, theirs := range mcp.Revisions() {
		audit := &events{}
		url := guarded(t, sampling(), theirs, audit, host.Rule{Method: mcp.MethodCreateMessage, Action: host.Ask})
		for _, ours := range mcp.Revisions() {
			t.Run(fmt.Sprintf("client %s/server %s", ours, theirs), func(t *testing.T) {
				m, u := &models{}, &user{}
				c := m.dial(t, url, ours, u)
				use := map[string]func() error{
					"tool": func() error {
						_, err := client.CallTool[string](t.Context(), c, "up__twice", nil)
						return err
					},
					"prompt": func() error {
						_, err := c.GetPrompt(t.Context(), "up__twice", nil)
						return err
					},
				}
				for name, call := range use {
					u.set(mcp.ElicitAccept, `{"approve":"once"}`)
					err := call()
					if asks := slices.Contains(formRevisions, ours); asks != (err == nil) ||
						asks != (m.sampled.Swap(0) == 2) {
						t.Errorf("%s, approved: %v", name, err)
					} else if asks && (len(u.asked) != 2 ||
						!strings.HasPrefix(u.asked[0],
							`Allow the server "up" to send a request to the language model?`)) {
						t.Errorf("%s: the user was asked %q", name, u.asked)
					}
					audit.take()
					u.set(mcp.ElicitDecline, "")
					if err := call(); err == nil || m.sampled.Load() != 0 {
						t.Errorf("%s, declined: %v, sampled %d times", name, err, m.sampled.Load())
					}
					got := audit.take()
					must.CheckThat(t, strings.Contains(got, "denied declined") ||
						strings.Contains(got, "denied not asked"), "%s: the audit log has %s", name, got)
				}
			})
		}
	}
}

// In each revision, requests of servers that the policy denies do not reach the client.
func TestDeniedRequestsOfServersDoNotReachTheClient(t *testing.T) {
	for _, theirs := range mcp.Revisions() {
		audit := &events{}
		url := guarded(t, sampling(), theirs, audit, host.Rule{Method: "tools/call", Action: host.Allow},
			host.Rule{Server: "up", Action: host.Deny})
		for _, ours := range mcp.Revisions() {
			m, u := &models{}, &user{}
			u.set(mcp.ElicitAccept, `{"approve":"once"}`)
			c := m.dial(t, url, ours, u)
			for _, tool := range []string{"form", "url", "sample", "roots"} {
				older := min(ours, theirs)
				if tool == "form" && older < mcp.V20250618 || tool == "url" && older < mcp.V20251125 {
					continue
				}
				_, err := client.CallTool[string](t.Context(), c, "up__"+tool, nil)
				if got := audit.take(); err == nil || !strings.Contains(got, "denied") {
					t.Errorf("client %s, server %s, %s: %v; the audit log has %s", ours, theirs, tool, err, got)
				}
			}
			must.CheckThat(t, m.sampled.Load() == 0 && m.asked.Load() == 0 && len(u.asked) == 0,
				"client %s, server %s: the client has answered", ours, theirs)
		}
	}
}

// For the policy, an error that requires URLs is an elicitation, too.
func TestPolicyDecidesAboutURLsThatAnErrorRequires(t *testing.T) {
	up := oddUpstream()
	up[mcp.MethodCallTool] = `error {"code":-32042,"message":"open","data":{"elicitations":[{"mode":"url",` +
		`"url":"https://evil.example/","message":"please","elicitationId":"7"}]}}`
	for _, r := range []mcp.Revision{mcp.V20251125, mcp.V20260728} {
		var opened atomic.Int32
		audit, s := &events{}, &server.Server{Name: "gateway"}
		gatewaytest.Run(t, &host.Host{
			Servers: []host.ServerConfig{up.start(t, "up")}, Audit: gatewaytest.Audit(audit.write),
			Policy: host.Rules{Rules: []host.Rule{{Method: mcp.MethodElicit}}, Default: host.Allow},
		}, s)
		d := client.Dialer{Revision: r, Logger: quiet}
		d.ElicitURL = func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			opened.Add(1)
			return &mcp.ElicitResult{Action: mcp.ElicitAccept}, nil
		}
		c := must.Get(d.Dial(t.Context(), client.URL(wiretest.Serve(t, s))))(t)
		t.Cleanup(func() { c.Close() })
		result, err := c.CallTool(t.Context(), "up__t", nil)
		must.CheckThat(t, err == nil && result.IsError &&
			strings.Contains(text(result.Content), "the server requires the user to open a URL") && opened.Load() == 0,
			"%s: %+v, %v; opened %d URLs", r, result, err, opened.Load())
		got := audit.take()
		must.CheckThat(t, strings.HasPrefix(got, "allowed, denied, "), "%s: the audit log has %s", r, got)
	}
}

// answerForms calls the tool and answers its forms, one after the other. It returns the response and the messages of the
// forms.
func answerForms(t *testing.T, p *wiretest.Peer, r mcp.Revision, tool string, answers ...string) (response string,
	messages []string) {
	const capabilities, none = `"capabilities":{"elicitation":{}}`, `"capabilities":{}`
	if !r.Modern() {
		p.Ask(strings.Replace(fmt.Sprintf(wiretest.Initialize, r), none, capabilities, 1))
		p.Send(wiretest.Initialized, fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":%q}}`, tool))
	}
	more := ""
	for range 10 {
		if r.Modern() {
			call, _ := wiretest.Modern("2", mcp.MethodCallTool, fmt.Sprintf(`"name":%q%s`, tool, more))
			p.Send(strings.Replace(call, `clientCapabilities":{}`, `clientCapabilities":{"elicitation":{"form":{}}}`, 1))
		}
		m := must.Get(jsonrpc.Parse([]byte(p.Receive()), jsonrpc.Limits{}))(t)
		var asked struct { // the result, or the params of a request
			InputRequests map[string]struct{ Params mcp.ElicitParams }
			RequestState  json.RawMessage
			Message       string
		}
		must.Check(t, json.Unmarshal(m.Raw, &asked))
		if m.Kind == jsonrpc.Response && len(asked.InputRequests) == 0 {
			return string(m.Raw), messages
		}
		must.That(t, len(answers) != 0, "one question too many: %s", m.Raw)
		answer := `{"action":"accept","content":` + answers[0] + `}`
		answers = answers[1:]
		if m.Kind == jsonrpc.Request {
			messages = append(messages, asked.Message)
			p.Send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, answer))
			continue
		}
		for key, q := range asked.InputRequests {
			messages = append(messages, q.Params.Message)
			more = fmt.Sprintf(`,"requestState":%s,"inputResponses":{%q:%s}`, asked.RequestState, key, answer)
		}
	}
	t.Fatal("the call does not end")
	return "", nil
}

// If an answer does not match its form, the user is asked again and told why, at most twice, between clients and
// servers of each revision that has forms.
func TestInvalidAnswerIsAskedAgain(t *testing.T) {
	revisions := []mcp.Revision{mcp.V20250618, mcp.V20251125, mcp.V20260728}
	for _, theirs := range revisions {
		up := &server.Server{Name: "up"}
		server.AddTool(up, mcp.Tool{Name: "ask"}, func(ctx context.Context, _ none) (string, error) {
			content, err := server.ElicitForm(ctx, "How old?", json.RawMessage(
				`{"type":"object","properties":{"age":{"type":"integer","minimum":18}},"required":["age"]}`))
			return string(content), err
		})
		s := &server.Server{Name: "gateway"}
		gatewaytest.Run(t, &host.Host{Servers: []host.ServerConfig{httpConfig(t, "up", up)},
			Dialer: client.Dialer{Revision: theirs}}, s)
		for _, ours := range revisions {
			t.Run(fmt.Sprintf("client %s, server %s", ours, theirs), func(t *testing.T) {
				ask := func(answers ...string) (response string, messages []string) {
					return answerForms(t, wiretest.Connect(t, s.ServeConn), ours, "up__ask", answers...)
				}
				question := asksOf("up") + "How old?"
				again := func(attempt int, reason string) string {
					return fmt.Sprintf("%s\n\nPlease answer again (attempt %d of 3): the answer does not match the form: %s",
						question, attempt, reason)
				}
				response, messages := ask(`{"age":7}`, `{}`, `{"age":36}`)
				want := []string{question, again(2, ""), again(3, "")} // prefixes of the messages
				if !slices.EqualFunc(messages, want, strings.HasPrefix) || !strings.Contains(response, `{\"age\":36}`) {
					t.Errorf("asked %q, want %q; response %s", messages, want, response)
				}
				response, messages = ask(`{"age":7}`, `{}`, `[]`)
				must.CheckEqual(t, len(messages), 3, messages)
				must.CheckContains(t, response, "it must be an object", messages)
			})
		}
	}
}
