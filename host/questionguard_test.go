package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/gatewaytest"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// requesting returns a server whose tools send requests. The tools return the error that they receive as
// text.
func requesting() *server.Server {
	s := &server.Server{Name: "requesting"}
	add := func(name string, request func(ctx context.Context) error) {
		server.AddTool(s, mcp.Tool{Name: name}, func(ctx context.Context, _ none) (string, error) {
			err := request(ctx)
			if rejected := new(call.AnswerError); errors.As(err, &rejected) {
				return rejected.Err.Error(), nil
			}
			return "answered", err
		})
	}
	sample := func(ctx context.Context) error {
		_, err := server.Sample(ctx, mcp.CreateMessageParams{
			MaxTokens: 100_000, SystemPrompt: "secret",
			Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser,
				Content: []mcp.Content{&mcp.TextContent{Text: "hello"}}}},
		})
		return err
	}
	roots := func(ctx context.Context) error {
		_, err := server.Roots(ctx)
		return err
	}
	add("form", func(ctx context.Context) error {
		_, err := server.Elicit[note](ctx, "Which note?")
		return err
	})
	add("url", func(ctx context.Context) error { return server.ElicitURL(ctx, "https://example.com/", "open", nil) })
	add("sample", sample)
	add("roots", roots)
	add("many", func(ctx context.Context) error { return errors.Join(roots(ctx), sample(ctx), sample(ctx)) })
	return s
}

// answers are the functions of a host that answer servers. They count the requests.
type answers struct {
	form   mcp.ElicitAction
	tokens []int64
	other  int
}

func (a *answers) host(t *testing.T, up host.ServerConfig) *host.Host {
	d := client.Dialer{
		Revision: mcp.V20251125,
		Elicit: func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			a.other++
			return &mcp.ElicitResult{Action: a.form, Content: json.RawMessage(`{"text":"private"}`)}, nil
		},
		Roots: func(context.Context) ([]mcp.Root, error) {
			a.other++
			return []mcp.Root{{URI: "file:///work"}}, nil
		},
	}
	adapt := func(server string, d *client.Dialer) {
		d.ElicitURL = func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			a.other++
			return &mcp.ElicitResult{Action: mcp.ElicitAccept}, nil
		}
		d.Sample = func(_ context.Context, params *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
			must.CheckEqual(t, server, up.Name, params)
			must.CheckEqual(t, params.SystemPrompt, "secret", params)
			a.tokens = append(a.tokens, params.MaxTokens)
			return &mcp.CreateMessageResult{Model: "m", Role: mcp.RoleAssistant,
				Content: []mcp.Content{&mcp.TextContent{Text: "hi"}}}, nil
		}
	}
	return &host.Host{Servers: []host.ServerConfig{up}, Dialer: d, AdaptDialer: adapt}
}

// wantText calls a tool and checks the beginning of its text.
func wantText(t *testing.T, h *host.Host, tool, want string) {
	t.Helper()
	result, err := h.Client("up").CallTool(t.Context(), tool, nil)
	if err != nil {
		t.Errorf("%s: %v", tool, err)
		return
	}
	got := result.Content[0].(*mcp.TextContent).Text
	must.CheckThat(t, strings.HasPrefix(got, want), "%s has the result %q, want %q", tool, got, want)
}

// If Policy denies a request of a server, the server learns nothing but that.
func TestDeniedRequestOfAServerIsNotAnswered(t *testing.T) {
	audit, a := &log{}, new(answers)
	h := a.host(t, configOf(t, requesting(), "up"))
	h.Audit = audit.handler()
	h.Policy = host.Rules{Rules: []host.Rule{{Method: "tools/*", Action: host.Allow},
		{Method: mcp.MethodCreateMessage, Server: "u?", Reason: "no models"}}}
	start(t, h)
	for _, tool := range []string{"form", "url", "sample", "roots"} {
		result := must.Get(h.Client("up").CallTool(t.Context(), tool, nil))(t)
		must.CheckContains(t, result.Content[0].(*mcp.TextContent).Text,
			"is denied: the client does not allow it (code -32600)", tool, result)
		reason := "no rule of the policy matches"
		if tool == "sample" {
			reason = "no models"
		}
		audit.want(t, "allowed "+tool, "denied , error, "+reason, "done "+tool+", ok")
	}
	must.CheckThat(t, a.other == 0 && a.tokens == nil, "the functions of the host have answered: %+v", a)
}

// A server of 2026-07-28 cannot receive an error for an input request, so its call fails with the reason of the policy.
func TestCallWithADeniedRequestFailsIn20260728(t *testing.T) {
	audit, a := &log{}, new(answers)
	h := a.host(t, configOf(t, requesting(), "up"))
	h.Dialer.Revision = mcp.V20260728
	h.Servers[0].InputLimits.PerCall = 1
	h.Audit = audit.handler()
	h.Policy = host.Rules{Rules: []host.Rule{{Method: "tools/*", Action: host.Allow},
		{Method: mcp.MethodCreateMessage, Reason: "no models"}, {Method: mcp.MethodListRoots, Action: host.Allow}}}
	start(t, h)
	_, err := h.Client("up").CallTool(t.Context(), "sample", nil)
	denied, ok := errors.AsType[*host.DeniedError](err)
	must.CheckThat(t, ok && strings.HasPrefix(denied.Error(), mcp.MethodCreateMessage) &&
		denied.Reason == "no models" && !errors.Is(err, call.ErrInvalidResponse), "the call fails with %v", err)
	audit.want(t, "allowed sample", "denied , error, no models", "done sample, error, no models")
	_, err = h.Client("up").CallTool(t.Context(), "many", nil)
	must.CheckThat(t, err != nil && strings.Contains(err.Error(), "more than 1 requests of the server in one call"),
		"the call beyond the limit fails with %v", err)
	must.CheckThat(t, a.tokens == nil, "the functions of the host have answered: %+v", a)
}

func TestPolicySeesTheRequestsOfAServer(t *testing.T) {
	seen := make(map[string]string)
	a := &answers{form: mcp.ElicitAccept}
	h := a.host(t, configOf(t, requesting(), "up"))
	h.Policy = policyFunc(func(_ context.Context, r *host.Request) (host.Decision, error) {
		if r.Kind != "tool" {
			seen[r.Method+" "+string(r.Kind)+" "+r.Server] = string(r.Arguments)
		}
		return host.Decision{Action: host.Allow}, nil
	})
	start(t, h)
	for _, tool := range []string{"form", "url", "sample", "roots"} {
		wantText(t, h, tool, "answered")
		want := map[string][2]string{
			"form":   {"elicitation/create elicitation up", `"mode":"form"`},
			"url":    {"elicitation/create elicitation up", `"url":"https://example.com/"`},
			"sample": {"sampling/createMessage sampling up", `"maxTokens":16384`},
			"roots":  {"roots/list roots up", `{}`},
		}[tool]
		must.CheckContains(t, seen[want[0]], want[1], tool, seen)
		clear(seen)
	}
}

// The audit log records the decision and the outcome of a server's requests, but no values.
func TestRequestsOfAServerAreRecorded(t *testing.T) {
	audit, a := &log{}, new(answers)
	var raw []string
	h := a.host(t, configOf(t, requesting(), "up"))
	h.Policy = always(host.Allow)
	h.AuditValues = true // not the values of a server
	h.Audit = gatewaytest.Audit(func(ctx context.Context, r map[string]any) error {
		text, err := json.Marshal(r)
		raw = append(raw, string(text))
		must.CheckThat(t, (r["kind"] == "tool") == (r["values"] != nil), "the record has the values %s", r["values"])
		return errors.Join(err, audit.write(ctx, r))
	})
	start(t, h)
	for action, outcome := range map[mcp.ElicitAction]string{mcp.ElicitAccept: "ok", mcp.ElicitDecline: "declined",
		mcp.ElicitCancel: "dismissed"} {
		a.form = action
		_, _ = h.Client("up").CallTool(t.Context(), "form", nil)
		got := strings.Join(audit.take(), "; ")
		must.CheckThat(t, strings.HasPrefix(got, "allowed form; allowed ; done , "+outcome+"; done form, "),
			"%s: %s", action, got)
	}
	wantText(t, h, "sample", "answered")
	audit.want(t, "allowed sample", "allowed ", "done , ok", "done sample, ok")
	for _, record := range raw {
		must.CheckThat(t, !strings.Contains(record, "private") && !strings.Contains(record, "Which note") &&
			!strings.Contains(record, "secret") && !strings.Contains(record, "hello"),
			"the record has values: %s", record)
	}
	all := strings.Join(raw, "")
	must.CheckThat(t, strings.Contains(all, `"kind":"sampling","method":"sampling/createMessage"`) &&
		strings.Contains(all, `"decision":"allow"`), "records %s", all)
}

func TestRequestOfAServerThatCannotBeRecordedIsNotAnswered(t *testing.T) {
	a := new(answers)
	h := a.host(t, configOf(t, requesting(), "up"))
	h.Audit = gatewaytest.Audit(func(_ context.Context, r map[string]any) error {
		if r["kind"] == "tool" {
			return nil
		}
		return errors.New("disk full")
	})
	start(t, h)
	wantText(t, h, "roots", "roots/list is denied")
	must.CheckEqual(t, a.other, 0)
}

// Each sampling request needs its own approval, even if it equals another request of the same call.
func TestSamplingIsApproved(t *testing.T) {
	audit, a := &log{}, &answers{form: mcp.ElicitAccept}
	digests := make(map[string]bool)
	approves := true
	h := a.host(t, configOf(t, requesting(), "up"))
	h.Audit = audit.handler()
	h.Policy = host.Rules{Default: host.Ask, Rules: []host.Rule{{Tool: "*", Action: host.Allow}}}
	h.Approve = func(_ context.Context, approval *host.Approval) (bool, error) {
		question := approval.Question()
		must.CheckThat(t, approval.Request.Kind != "sampling" ||
			strings.HasPrefix(question,
				"Allow the server \"up\" to send a request to the language model?\n\nRequest: {\"maxTokens\":16384,") &&
				strings.Contains(question, `"systemPrompt":"secret"`), "the question is %q", question)
		digests[approval.Digest()] = true
		return approves, nil
	}
	start(t, h)
	wantText(t, h, "many", "answered")
	audit.want(t, "allowed many", "allowed , approved", "done , approved, ok", "allowed , approved",
		"done , approved, ok", "allowed , approved", "done , approved, ok", "done many, ok")
	must.CheckEqual(t, len(digests), 3)
	approves, a.tokens = false, nil
	wantText(t, h, "sample", "user rejected the request sampling/createMessage (code -1)")
	audit.want(t, "allowed sample", "denied , declined, error, it was not approved", "done sample, ok")
	h.Approve = nil
	wantText(t, h, "roots", "user rejected the request roots/list (code -1)")
	wantText(t, h, "form", "") // the form itself asks the user
	must.CheckThat(t, a.tokens == nil && a.other == 2, "answers after the denial: %+v", a)
}

func TestUnansweredApprovalOfSamplingDenies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		audit, a := &log{}, new(answers)
		h := a.host(t, configOf(t, requesting(), "up"))
		h.Audit, h.Policy = audit.handler(), host.Rules{Default: host.Ask,
			Rules: []host.Rule{{Tool: "*", Action: host.Allow}}}
		h.ApprovalTimeout = time.Minute // shorter than the server waits
		h.Approve = func(ctx context.Context, _ *host.Approval) (bool, error) {
			<-ctx.Done()
			return false, context.Cause(ctx)
		}
		start(t, h)
		wantText(t, h, "sample", "user rejected the request")
		audit.want(t, "allowed sample", "denied , unanswered, error, it was not approved in time", "done sample, ok")
		must.CheckThat(t, a.tokens == nil, "the model was called")
		h.Close()
	})
}

func TestRequestsOfAServerAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := configOf(t, requesting(), "up")
		up.InputLimits = host.InputLimits{PerCall: 2, PerMinute: 6, MaxTokens: 10}
		audit, a := &log{}, new(answers)
		h := a.host(t, up)
		h.Audit = audit.handler()
		start(t, h)
		wantText(t, h, "many",
			"sampling/createMessage: too many requests of the server in one call: the limit is 2 (code -32600)")
		audit.want(t, "allowed many", "allowed ", "done , ok", "allowed ", "done , ok",
			"denied , error, more than 2 requests of the server in one call", "done many, ok")
		for range 4 {
			wantText(t, h, "sample", "answered")
		}
		audit.take()
		wantText(t, h, "sample", "too many requests of the server: try again in 10")
		audit.want(t, "allowed sample", "denied , error, too many requests of the server in a minute",
			"done sample, ok")
		time.Sleep(11 * time.Second)
		wantText(t, h, "sample", "answered")
		for _, tokens := range a.tokens {
			must.CheckEqual(t, tokens, 10)
		}
		h.Close()
	})
}

func TestNegativeLimitsOfAServerMeanNone(t *testing.T) {
	up := configOf(t, requesting(), "up")
	up.InputLimits = host.InputLimits{PerCall: -1, PerMinute: -1, MaxTokens: -1}
	a := new(answers)
	h := start(t, a.host(t, up))
	for range 700 {
		wantText(t, h, "sample", "answered")
	}
	must.CheckEqual(t, a.tokens[0], 100_000)
}
