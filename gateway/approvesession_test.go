package gateway_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
)

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

// pays calls the tool, and fails the test unless the tool runs and the user is asked questions
// times.
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
