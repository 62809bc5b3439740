//lint:file-ignore SA1019 deprecated features must still work

package gateway_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/gateway"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/gatewaytest"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

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
		return &mcp.CreateMessageResult{Model: "m", Role: mcp.RoleAssistant, Content: []mcp.Content{&mcp.TextContent{Text: "hi"}}}, nil
	}
	d.Roots = func(context.Context) ([]mcp.Root, error) {
		m.asked.Add(1)
		return nil, nil
	}
	c, err := d.Dial(t.Context(), client.URL(url))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// sampling returns a server with a tool and a prompt that send two equal sampling requests.
func sampling() *server.Server {
	s := pretender()
	twice := func(ctx context.Context) (string, error) {
		for range 2 {
			if _, err := server.Sample(ctx, mcp.CreateMessageParams{MaxTokens: 1, Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: []mcp.Content{&mcp.TextContent{Text: "hello"}}}}}); err != nil {
				return "", err
			}
		}
		return "sampled", nil
	}
	server.AddTool(s, mcp.Tool{Name: "twice"}, func(ctx context.Context, _ none) (string, error) { return twice(ctx) })
	server.AddPrompt(s, mcp.Prompt{Name: "twice"}, func(ctx context.Context, _ none) (string, error) { return twice(ctx) })
	return s
}

// guarded returns the URL of a gateway with a policy to a server in a revision.
func guarded(t *testing.T, up *server.Server, r mcp.Revision, log *events, rules ...host.Rule) string {
	endpoint := httptest.NewServer(up)
	t.Cleanup(endpoint.Close)
	s := &server.Server{Name: "gateway"}
	gatewaytest.Run(t, &host.Host{
		Servers: []host.ServerConfig{{Name: "up", Target: client.URL(endpoint.URL)}}, Dialer: client.Dialer{Revision: r},
		Policy: host.Rules{Rules: rules, Default: host.Allow}, Approve: gateway.Approve, Audit: log.write,
	}, s)
	return serveHTTP(t, s)
}

// A sampling request needs an approval of the user, also if it is equal to an earlier one of the call.
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
					if asks := slices.Contains(formRevisions, ours); asks != (err == nil) || asks != (m.sampled.Swap(0) == 2) {
						t.Errorf("%s, approved: %v", name, err)
					} else if asks && (len(u.asked) != 2 || !strings.HasPrefix(u.asked[0], `Allow the server "up" to send a request to the language model?`)) {
						t.Errorf("%s: the user was asked %q", name, u.asked)
					}
					audit.take()
					u.set(mcp.ElicitDecline, "")
					if err := call(); err == nil || m.sampled.Load() != 0 {
						t.Errorf("%s, declined: %v, sampled %d times", name, err, m.sampled.Load())
					}
					if got := audit.take(); !strings.Contains(got, "denied declined") && !strings.Contains(got, "denied not asked") {
						t.Errorf("%s: the audit log has %s", name, got)
					}
				}
			})
		}
	}
}

// The policy denies requests of servers in each revision, so that they do not reach the client.
func TestDeniedRequestsOfServersDoNotReachTheClient(t *testing.T) {
	for _, theirs := range mcp.Revisions() {
		audit := &events{}
		url := guarded(t, sampling(), theirs, audit, host.Rule{Method: "tools/call", Action: host.Allow}, host.Rule{Server: "up", Action: host.Deny})
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
			if m.sampled.Load() != 0 || m.asked.Load() != 0 || len(u.asked) != 0 {
				t.Errorf("client %s, server %s: the client has answered", ours, theirs)
			}
		}
	}
}

// An error that requires URLs is an elicitation, too.
func TestPolicyDecidesAboutURLsThatAnErrorRequires(t *testing.T) {
	up := oddUpstream()
	up[mcp.MethodCallTool] = `error {"code":-32042,"message":"open","data":{"elicitations":[{"mode":"url","url":"https://evil.example/","message":"please","elicitationId":"7"}]}}`
	for _, r := range []mcp.Revision{mcp.V20251125, mcp.V20260728} {
		var opened atomic.Int32
		audit, s := &events{}, &server.Server{Name: "gateway"}
		gatewaytest.Run(t, &host.Host{
			Servers: []host.ServerConfig{up.start(t, "up")}, Audit: audit.write,
			Policy: host.Rules{Rules: []host.Rule{{Method: mcp.MethodElicit}}, Default: host.Allow},
		}, s)
		d := client.Dialer{Revision: r, Logger: quiet}
		d.ElicitURL = func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			opened.Add(1)
			return &mcp.ElicitResult{Action: mcp.ElicitAccept}, nil
		}
		c, err := d.Dial(t.Context(), client.URL(serveHTTP(t, s)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		result, err := c.CallTool(t.Context(), "up__t", nil)
		if err != nil || !result.IsError || !strings.Contains(text(result.Content), "the server requires the user to open a URL") || opened.Load() != 0 {
			t.Errorf("%s: %+v, %v; opened %d URLs", r, result, err, opened.Load())
		}
		if got := audit.take(); !strings.HasPrefix(got, "allowed, denied, ") {
			t.Errorf("%s: the audit log has %s", r, got)
		}
	}
}
