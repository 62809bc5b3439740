package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/gateway"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/gatewaytest"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
)

// payments is a server whose tool pay counts its calls.
type payments struct {
	*server.Server
	paid atomic.Int32
}

func newPayments() *payments {
	p := &payments{Server: &server.Server{Name: "payments"}}
	err := p.RegisterTool(mcp.Tool{Name: "pay", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(context.Context, json.RawMessage) (*mcp.CallToolResult, error) {
			p.paid.Add(1)
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "paid"}}}, nil
		})
	if err != nil {
		panic(err)
	}
	err = p.RegisterPrompt(mcp.Prompt{Name: "pay", Arguments: []mcp.PromptArgument{{Name: "amount"}}},
		func(context.Context, map[string]string) (*mcp.GetPromptResult, error) {
			p.paid.Add(1)
			return &mcp.GetPromptResult{Messages: []mcp.PromptMessage{{Role: mcp.RoleUser, Content: mcp.Text("paid")}}},
				nil
		})
	if err != nil {
		panic(err)
	}
	return p
}

// events collects the events of an audit log.
type events struct {
	mu  sync.Mutex
	all []string
}

func (e *events) write(_ context.Context, r map[string]any) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	approval, _ := r["approval"].(string)
	e.all = append(e.all, strings.TrimSuffix(r["event"].(string)+" "+approval, " "))
	return nil
}

// take returns the events since the last call, separated by commas.
func (e *events) take() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := strings.Join(e.all, ", ")
	e.all = nil
	return all
}

// asking returns the server of a gateway whose policy asks for approvals.
func asking(t *testing.T, p *payments, log *events, change ...func(*host.Host)) *server.Server {
	h := &host.Host{
		Servers: []host.ServerConfig{inMemory(t, "bank", p.Server)},
		Policy:  host.Rules{Default: host.Ask, Version: "1"}, Approve: gateway.Approve,
		Audit: gatewaytest.Audit(log.write),
	}
	for _, f := range change {
		f(h)
	}
	s := &server.Server{Name: "gateway"}
	gatewaytest.Run(t, h, s)
	return s
}

// user answers the questions of a gateway.
type user struct {
	mu     sync.Mutex
	answer mcp.ElicitResult
	asked  []string
}

func (u *user) elicit(_ context.Context, form *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.asked = append(u.asked, form.Message)
	answer := u.answer
	return &answer, nil
}

func (u *user) set(action mcp.ElicitAction, content string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.asked, u.answer = nil, mcp.ElicitResult{Action: action}
	if content != "" {
		u.answer.Content = json.RawMessage(content)
	}
}

// failure returns the text of a call that has failed.
func failure(t *testing.T, c *client.Client, tool string, arguments any) string {
	t.Helper()
	result, err := c.CallTool(t.Context(), tool, arguments)
	switch {
	case err != nil:
		return err.Error()
	case !result.IsError || len(result.Content) != 1:
		t.Fatalf("the call has the result %+v", result)
	}
	return result.Content[0].(*mcp.TextContent).Text
}

// formRevisions are the revisions with elicitation by form.
var formRevisions = []mcp.Revision{mcp.V20250618, mcp.V20251125, mcp.V20260728}

func TestApprovalIsAskedOfTheClient(t *testing.T) {
	for _, r := range formRevisions {
		t.Run(string(r), func(t *testing.T) {
			p, log, u := newPayments(), &events{}, &user{}
			c := mcptest.Dial(t, asking(t, p, log), mcptest.WithRevision(r),
				func(d *client.Dialer) { d.Elicit = u.elicit })
			asked := ""
			if r.Modern() {
				asked = "asked, "
			}
			u.set(mcp.ElicitAccept, `{"approve":"once"}`)
			if got, err := client.CallTool[string](t.Context(), c, "bank__pay",
				map[string]any{"amount": 7, "to": "a\u202eb"}); err != nil || got != "paid" || p.paid.Load() != 1 {
				t.Fatalf("%q, %v; paid %d times", got, err, p.paid.Load())
			}
			want := "Allow the tool \"pay\" of the server \"bank\"?\n\nArguments: {\"amount\":7," +
				"\"to\":\"a<U+202E>b\"}\n\nCaller: a program of this machine, which calls itself \"parley\"\nReason " +
				"for the question: no rule of the policy matches"
			must.CheckThat(t, len(u.asked) == 1 && u.asked[0] == want, "the user was asked %q, want %q", u.asked, want)
			got := log.take()
			must.CheckThat(t, got == asked+"allowed approved, done approved" ||
				got == "allowed approved, done approved", "audit log: %s", got)
			for _, no := range []struct{ action, content string }{{"accept", `{"approve":"no"}`}, {"decline", ""},
				{"cancel", ""}} {
				u.set(mcp.ElicitAction(no.action), no.content)
				must.CheckContains(t, failure(t, c, "bank__pay", map[string]any{"amount": 7}),
					`is denied: it was not approved: the user declined`, no.action, no.content)
				got := log.take()
				must.CheckThat(t, got == asked+"denied declined" || got == "denied declined", "audit log: %s", got)
			}
			must.CheckEqual(t, p.paid.Load(), 1)
		})
	}
}

func TestClientThatCannotBeAskedIsDenied(t *testing.T) {
	for _, r := range mcp.Revisions() {
		p, log := newPayments(), &events{}
		c := mcptest.Dial(t, asking(t, p, log), mcptest.WithRevision(r))
		must.CheckContains(t, failure(t, c, "bank__pay", nil), "the client cannot be asked for an approval", r)
		if got := log.take(); got != "denied not asked" || p.paid.Load() != 0 {
			t.Errorf("%s: audit log: %s; paid %d times", r, got, p.paid.Load())
		}
	}
	must.CheckIs(t, must.Err(gateway.Approve(t.Context(), &host.Approval{Request: &host.Request{}})),
		server.ErrCannotAsk, "outside of a call")
}

// The client of 2026-07-28 sends its answer with a new request, which it can change or repeat. The handler of a
// tool waits for it; the handler of a prompt runs again.
func TestApprovalFitsOneRequestOnly(t *testing.T) {
	for _, test := range []struct {
		method, approved string
		others           []string
	}{
		{mcp.MethodCallTool, `{"amount":9007199254740993}`,
			[]string{`{"amount":1}`, `{}`, `{"amount":"9007199254740993"}`, `{"amount":9007199254740992}`}},
		{mcp.MethodGetPrompt, `{"amount":"7"}`, []string{`{"amount":"8"}`, `{}`}},
	} {
		p, log := newPayments(), &events{}
		post := poster(t, asking(t, p, log), test.method)
		key, state := post(test.approved, "").question(t)
		answer := `,"requestState":` + state + `,"inputResponses":{` + key +
			`:{"action":"accept","content":{"approve":"once"}}}`
		for _, arguments := range test.others {
			if got := post(arguments, answer); strings.Contains(string(got), `"paid"`) || p.paid.Load() != 0 {
				t.Errorf("%s: arguments %s with the approval of others: %s", test.method, arguments, got)
			}
		}
		if got := post(test.approved, answer); !strings.Contains(string(got), `"paid"`) || p.paid.Load() != 1 {
			t.Fatalf("%s: the approved request: %s", test.method, got)
		}
		for range 2 {
			if got := post(test.approved, answer); strings.Contains(string(got), `"paid"`) || p.paid.Load() != 1 {
				t.Errorf("%s: the approved request again: %s; paid %d times", test.method, got, p.paid.Load())
			}
		}
		if got := log.take(); strings.Count(got, "allowed") != 1 || strings.Count(got, "done") != 1 {
			t.Errorf("%s: audit log: %s", test.method, got)
		}
	}
}

func TestApprovalOfAnotherPolicyVersionDoesNotFit(t *testing.T) {
	p, log := newPayments(), &events{}
	var version atomic.Value
	version.Store("1")
	s := asking(t, p, log, func(h *host.Host) {
		h.Policy = policyFunc(func(context.Context, *host.Request) (host.Decision, error) {
			return host.Decision{Action: host.Ask, Version: version.Load().(string)}, nil
		})
	})
	post := poster(t, s, mcp.MethodGetPrompt)
	key, state := post(`{}`, "").question(t)
	version.Store("2")
	got := post(`{}`, `,"requestState":`+state+`,"inputResponses":{`+key+
		`:{"action":"accept","content":{"approve":"once"}}}`)
	must.CheckEqual(t, p.paid.Load(), 0, got)
}

func TestLateApprovalDoesNotCount(t *testing.T) {
	for _, r := range formRevisions {
		synctest.Test(t, func(t *testing.T) {
			p, log := newPayments(), &events{}
			c := mcptest.Dial(t, asking(t, p, log), mcptest.WithRevision(r), func(d *client.Dialer) {
				d.Elicit = func(ctx context.Context, _ *mcp.ElicitParams) (*mcp.ElicitResult, error) {
					select { // a session cancels the question
					case <-ctx.Done():
					case <-time.After(5*time.Minute + time.Second):
					}
					return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: json.RawMessage(`{"approve":"once"}`)},
						nil
				}
			})
			_, err := c.GetPrompt(t.Context(), "bank__pay", nil)
			for _, text := range []string{failure(t, c, "bank__pay", nil), fmt.Sprint(err)} {
				must.CheckContains(t, text, "it was not approved in time", r)
				must.CheckEqual(t, p.paid.Load(), 0, r)
			}
			if got := log.take(); strings.Count(got, "denied unanswered") != 2 || strings.Contains(got, "allowed") {
				t.Errorf("%s: audit log: %s", r, got)
			}
		})
	}
}

func TestDeniedCallIsAToolErrorAndDeniedPromptAnError(t *testing.T) {
	up := newPayments()
	server.AddStatic(up.Server, mcp.Resource{URI: "bank://rates", Name: "rates"}, "1")
	for _, r := range mcp.Revisions() {
		c := mcptest.Dial(t, asking(t, up, &events{}, func(h *host.Host) {
			h.Policy = host.Rules{Rules: []host.Rule{{Action: host.Deny, Reason: "closed today"}}}
		}), mcptest.WithRevision(r))
		must.CheckEqual(t, failure(t, c, "bank__pay", nil), `tools/call pay of server "bank" is denied: closed today`,
			r, "the tool returns")
		must.CheckFails(t, must.Err(c.GetPrompt(t.Context(), "bank__pay", nil)), "closed today", r)
		must.CheckFails(t, must.Err(c.ReadResource(t.Context(), "bank://rates")), "closed today", r)
	}
	must.CheckEqual(t, up.paid.Load(), 0)
}

// policyFunc is a function that serves as host.Policy.
type policyFunc func(context.Context, *host.Request) (host.Decision, error)

func (f policyFunc) Decide(ctx context.Context, r *host.Request) (host.Decision, error) {
	return f(ctx, r)
}

// response is a JSON-RPC response of a gateway.
type response []byte

// question returns the key of the only question in a response, and the requestState, both as JSON.
func (r response) question(t *testing.T) (key, state string) {
	t.Helper()
	var m struct {
		Result struct {
			ResultType    string                     `json:"resultType"`
			InputRequests map[string]json.RawMessage `json:"inputRequests"`
			RequestState  json.RawMessage            `json:"requestState"`
		} `json:"result"`
	}
	err := json.Unmarshal(r, &m)
	must.That(t, err == nil && m.Result.ResultType == "input_required" && len(m.Result.InputRequests) == 1,
		"the response has no question: %s (%v)", r, err)
	for name := range m.Result.InputRequests {
		quoted, _ := json.Marshal(name)
		key = string(quoted)
	}
	return key, string(m.Result.RequestState)
}

// poster returns a function that calls the tool or prompt pay in 2026-07-28. more contains further fields of the
// params.
func poster(t *testing.T, s *server.Server, method string) func(arguments, more string) response {
	endpoint := httptest.NewServer(s)
	t.Cleanup(endpoint.Close)
	return func(arguments, more string) response {
		t.Helper()
		body := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{"name":"bank__pay","arguments":` +
			arguments + more + `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
			`"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},` +
			`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}}}}`
		raw := []byte(wiretest.Text(t, wiretest.Do(t, http.MethodPost, endpoint.URL, body,
			"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method, "Mcp-Name", "bank__pay")))
		if _, data, found := strings.Cut(string(raw), "data: "); found {
			raw = []byte(data)
		}
		return raw
	}
}

// newAskingPayments returns payments whose prompt pay asks for an account before it counts its call.
func newAskingPayments(t *testing.T) *payments {
	p := newPayments()
	p.RemovePrompt("pay")
	err := p.RegisterPrompt(mcp.Prompt{Name: "pay"}, func(ctx context.Context,
		_ map[string]string) (*mcp.GetPromptResult, error) {
		if _, err := server.ElicitForm(ctx, "Which account?",
			json.RawMessage(`{"type":"object","properties":{"approve":{"type":"string"}}}`)); err != nil {
			return nil, err
		}
		p.paid.Add(1)
		return &mcp.GetPromptResult{Messages: []mcp.PromptMessage{{Role: mcp.RoleUser, Content: mcp.Text("paid")}}}, nil
	})
	must.Do(t, err)
	return p
}

func TestApprovedPromptCanAskTheUser(t *testing.T) {
	for _, r := range formRevisions {
		t.Run(string(r), func(t *testing.T) {
			p, u := newAskingPayments(t), &user{}
			c := mcptest.Dial(t, asking(t, p, &events{}), mcptest.WithRevision(r),
				func(d *client.Dialer) { d.Elicit = u.elicit })
			u.set(mcp.ElicitAccept, `{"approve":"once"}`)
			result := must.Get(c.GetPrompt(t.Context(), "bank__pay", nil))(t)
			must.Equal(t, len(result.Messages), 1, result, "the user was asked", u.asked)
			must.CheckEqual(t, len(u.asked), 2, u.asked)
			must.CheckEqual(t, p.paid.Load(), 1, u.asked)
		})
	}
}

func TestApprovalIsUsedOnceInEachRound(t *testing.T) {
	p := newAskingPayments(t)
	post := poster(t, asking(t, p, &events{}), mcp.MethodGetPrompt)
	answered := func(key, state string) string {
		return `,"requestState":` + state + `,"inputResponses":{` + key +
			`:{"action":"accept","content":{"approve":"once"}}}`
	}
	key, first := post(`{}`, "").question(t)
	_, unanswered := post(`{}`, `,"requestState":`+first).question(t)
	account, second := post(`{}`, answered(key, first)).question(t)
	must.Contains(t, string(post(`{}`, answered(account, second))), `"paid"`)
	for name, more := range map[string]string{
		"the first round again":                   answered(key, first),
		"the second round again":                  answered(account, second),
		"a second question with the first answer": answered(key, unanswered),
	} {
		got := post(`{}`, more)
		must.CheckThat(t, strings.Contains(string(got), "used before") && p.paid.Load() == 1, "%s: %s", name, got)
	}
}

func TestApprovalOfAnotherRequestCannotBeRepeated(t *testing.T) {
	for _, method := range []string{mcp.MethodCallTool, mcp.MethodGetPrompt} {
		p := newPayments()
		post := poster(t, asking(t, p, &events{}), method)
		key, state := post(`{}`, "").question(t)
		got := post(`{}`, `,"inputResponses":{`+key+`:{"action":"accept","content":{"approve":"once"}}}`)
		must.Equal(t, p.paid.Load(), 0, method, got)
		other, otherState := got.question(t)
		for key, state := range map[string]string{key: state, other: otherState} { // end the calls
			post(`{}`, `,"requestState":`+state+`,"inputResponses":{`+key+`:{"action":"decline"}}`)
		}
	}
}

// amounts denies payments over 1000, asks with one rule from 100 on, and with another below.
func amounts(version string) host.Rules {
	from := func(least string) func(context.Context, *host.Request) (bool, error) {
		return func(_ context.Context, r *host.Request) (bool, error) {
			var in struct{ Amount int }
			err := json.Unmarshal(r.Arguments, &in)
			return err == nil && in.Amount >= map[string]int{"deny": 1000, "ask": 100}[least], nil
		}
	}
	return host.Rules{Version: version, Default: host.Ask, Rules: []host.Rule{
		{Tool: "pay", When: from("deny"), Action: host.Deny, Reason: "too much"},
		{Tool: "pay", When: from("ask"), Action: host.Ask, Reason: "a payment"},
		{Tool: "pay", Action: host.Ask, Reason: "a payment"},
	}}
}

// bank is a gateway whose user is asked for each payment.
type bank struct {
	*testing.T
	*payments
	host    *host.Host
	gateway *server.Server
	policy  atomic.Pointer[host.Rules]
	log     events
}

func newBank(t *testing.T) *bank {
	b := &bank{T: t, payments: newPayments()}
	rules := amounts("1")
	b.policy.Store(&rules)
	b.gateway = asking(t, b.payments, &b.log, func(h *host.Host) {
		b.host = h
		h.Policy = policyFunc(func(ctx context.Context, r *host.Request) (host.Decision, error) {
			return b.policy.Load().Decide(ctx, r)
		})
	})
	return b
}

// customer is a client whose user answers questions with answer.
type customer struct {
	*bank
	*user
	client *client.Client
}

func (b *bank) customer(revision mcp.Revision, answer string) *customer {
	c := &customer{bank: b, user: new(user)}
	c.set(mcp.ElicitAccept, `{"approve":"`+answer+`"}`)
	c.client = mcptest.Dial(b.T, b.gateway, mcptest.WithRevision(revision),
		func(d *client.Dialer) { d.Elicit = c.elicit })
	return c
}

// pays calls the tool, and fails the test unless the tool runs and the user is asked this
// number of questions.
func (c *customer) pays(amount, questions int, what string) {
	c.Helper()
	c.mu.Lock()
	c.asked = nil
	c.mu.Unlock()
	got, err := client.CallTool[string](c.Context(), c.client, "bank__pay",
		map[string]any{"amount": amount})
	must.That(c, err == nil && got == "paid", "%s: %q, %v", what, got, err)
	must.CheckEqual(c, len(c.asked), questions, what)
}

func TestAnApprovalForTheSessionAllowsTheToolOfTheSameRule(t *testing.T) {
	for _, r := range formRevisions {
		b := newBank(t)
		c := b.customer(r, "session")
		c.pays(1, 1, "first call")
		c.pays(1, 0, "same call")
		c.pays(99, 0, "other arguments")
		got := b.log.take()
		must.CheckEqual(t, strings.Count(got, "allowed approved for the session"), 3, r, "audit log", got)
		c.pays(100, 1, "arguments for which another rule with the same reason asks")
		c.pays(200, 0, "that rule again")
		must.CheckContains(t, failure(t, c.client, "bank__pay", map[string]any{"amount": 1000}), "too much", r)
		_, err := c.client.GetPrompt(t.Context(), "bank__pay", nil)
		must.CheckThat(t, err != nil, "%s: the approval is used for a prompt, which can be allowed once only", r)
		if r.Modern() {
			continue // callers are one principal
		}
		other := b.customer(r, "no")
		text := failure(t, other.client, "bank__pay", nil)
		must.CheckThat(t, strings.Contains(text, "declined") && len(other.asked) == 1,
			"%s: another session: %s", r, text)
	}
}

func TestAChangeEndsTheApprovalForTheSession(t *testing.T) {
	describe := func(b *bank, description string) {
		b.Helper()
		b.RemoveTool("pay")
		err := b.RegisterTool(mcp.Tool{Name: "pay", Description: description,
			InputSchema: json.RawMessage(`{"type":"object"}`)},
			func(context.Context, json.RawMessage) (*mcp.CallToolResult, error) {
				return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "paid"}}}, nil
			})
		must.Do(b, err)
		time.Sleep(time.Minute) // until the gateway has the list
	}
	for what, change := range map[string]func(b *bank){
		"definition": func(b *bank) { describe(b, "Pays.") },
		"policy": func(b *bank) {
			rules := amounts("2")
			b.policy.Store(&rules)
		},
		"policy with the same version": func(b *bank) { b.host.PolicyChanged() },
		"server": func(b *bank) {
			must.Do(b, b.host.SetServers([]host.ServerConfig{inMemory(b.T, "bank", newPayments().Server)}))
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBank(t)
			c := b.customer(mcp.V20251125, "session")
			c.pays(1, 1, "before")
			change(b)
			time.Sleep(time.Minute)
			c.pays(1, 1, "after a change of the "+what)
			c.pays(1, 0, "again")
		})
	}
	synctest.Test(t, func(t *testing.T) {
		b := newBank(t)
		c := b.customer(mcp.V20251125, "session")
		describe(b, "first")
		c.pays(1, 1, "first definition")
		describe(b, "second")
		c.pays(1, 1, "second definition")
		describe(b, "first")
		c.pays(1, 1, "first definition again")
	})
}

func TestACallerWithoutASessionIsAllowedForALimitedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newBank(t).customer(mcp.V20260728, "session")
		c.pays(1, 1, "first call")
		time.Sleep(14 * time.Minute)
		c.pays(1, 0, "after 14 minutes")
		time.Sleep(2 * time.Minute)
		c.pays(1, 1, "after 16 minutes")
	})
}

// Clients of 2026-07-28 without a login cannot be told apart.
func TestACallerThatIsUnknownIsAllowedOnceOnly(t *testing.T) {
	b := newBank(t)
	post := poster(t, b.gateway, mcp.MethodCallTool)
	question := post(`{}`, "")
	must.CheckThat(t, strings.Contains(string(question), `"Allow once"`) &&
		!strings.Contains(string(question), "with any arguments"), "the form is %s", question)
	for _, answer := range []string{"session", "no"} {
		key, state := question.question(t)
		question = post(`{}`, `,"requestState":`+state+`,"inputResponses":{`+key+
			`:{"action":"accept","content":{"approve":"`+answer+`"}}}`)
		must.CheckEqual(t, b.paid.Load(), 0, answer, question)
	}
}

func TestTheOtherAnswersAllowNothingMore(t *testing.T) {
	for _, answer := range []string{"once", "no", "yes", "true"} {
		b := newBank(t)
		c := b.customer(mcp.V20251125, answer)
		for range 2 {
			_, err := c.client.CallTool(t.Context(), "bank__pay", nil)
			if want := map[string]int32{"once": 1}[answer]; err != nil || b.paid.Swap(0) != want || len(c.asked) != 1 {
				t.Errorf("%s: %v; the user was asked %d times", answer, err, len(c.asked))
			}
			c.asked = nil
		}
	}
}
