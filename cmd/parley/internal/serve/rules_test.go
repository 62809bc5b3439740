package serve

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/servers/config"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/syncbuffer"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
)

// parsed returns the configuration with the given JSON.
func parsed(t *testing.T, text string) *config.Config {
	t.Helper()
	c := must.Get(config.Parse("/srv", "/srv/mcp.json", []byte(text)))(t)
	return c
}

func TestWebhooksOfTheConfigurationAreCalled(t *testing.T) {
	var calls atomic.Int32
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.Header.Get("Authorization") != "Bearer k3y":
			w.WriteHeader(http.StatusForbidden)
		case strings.Contains(string(body), `"text":"bad"`):
			_, _ = io.WriteString(w, `{"action":"deny","reason":"not this one"}`)
		case strings.Contains(string(body), `"event":"request"`):
			_, _ = io.WriteString(w, `{"action":"allow","arguments":{"text":"changed"}}`)
		default:
			w.WriteHeader(http.StatusNoContent)
		}
	}))
	defer hook.Close()
	var received []string
	s := &server.Server{Name: "up"}
	err := s.RegisterTool(mcp.Tool{Name: "echo", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(_ context.Context, arguments json.RawMessage) (*mcp.CallToolResult, error) {
			received = append(received, string(arguments))
			return &mcp.CallToolResult{Content: []mcp.Content{mcp.Text("done")}}, nil
		})
	must.Do(t, err)
	upstream := httptest.NewServer(s)
	defer upstream.Close()

	cmd := &cobra.Command{}
	var printed syncbuffer.Buffer
	cmd.SetIn(strings.NewReader(""))
	cmd.SetErr(&printed)
	r := newRules(cmd)
	defer r.client.Close()
	values := &config.Values{Env: func(string) (string, bool) { return "k3y", true }}
	text := `{"mcpServers":{"up":{"command":"a"}},"hooks":[{"url":"` + hook.URL +
		`","headers":{"Authorization":"Bearer ${KEY}"},"server":"up","tool":"e*","timeout":"10s"}]}`
	set := must.Get(r.load(parsed(t, text), values))(t)
	r.set(set)
	h := &host.Host{Servers: []host.ServerConfig{{Name: "up", Target: client.URL(upstream.URL)},
		{Name: "other", Target: client.URL(upstream.URL)}}, Logger: slog.New(slog.DiscardHandler)}
	r.apply(h)
	must.Do(t, h.Start())
	defer h.Close()
	call := func(server, text string) error {
		_, err := h.Client(server).CallTool(t.Context(), "echo", map[string]string{"text": text})
		return err
	}
	must.Check(t, call("up", "good"))
	must.CheckFails(t, call("up", "bad"), "not this one", "rejected call")
	must.Check(t, call("other", "bad"))
	if want := []string{`{"text":"changed"}`, `{"text":"bad"}`}; !slices.Equal(received, want) || calls.Load() != 3 {
		t.Errorf("the servers have received %q, want %q; the hook was called %d times", received, want, calls.Load())
	}
	hook.Close()
	must.CheckFails(t, call("up", "good"), "a hook rejects it: cannot get the decision of a webhook",
		"call without the hook")
	must.CheckContains(t, printed.String(), "cannot call the hook at 127.0.0.1", "the log has no reason")
	r.set(&ruleSet{})
	must.Check(t, call("up", "good"))
}

func TestRulesThatCannotBeUsedAreErrors(t *testing.T) {
	cmd := &cobra.Command{}
	cmd.SetIn(strings.NewReader(""))
	r := newRules(cmd)
	defer r.client.Close()
	for text, want := range map[string]string{
		`{"policy":{"default":"deny","rules":[{"when":"1","action":"deny"}]}}`: "/srv/mcp.json:1: policy.rules[0].when: ",
		`{"policy":{"default":"deny","approvalTimeout":"2h"}}`: "/srv/mcp.json:1: policy.approvalTimeout " +
			"must not exceed 1h",
		`{"hooks":[{"url":"x"}]}`: "/srv/mcp.json:1: the URL of a hook must " +
			"begin with http",
		`{"hooks":[{"url":"${MISSING}"}]}`: "/srv/mcp.json:1: url: environment " +
			"variable MISSING is not set",
	} {
		must.CheckFails(t, must.Err(r.load(parsed(t, text), &config.Values{})), want, text)
	}
}

// Rules, conditions, webhooks and the audit log have the names of servers as the files have them, whatever they become.
func TestRulesMatchNamesAsTheyAreWritten(t *testing.T) {
	var seen []string
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var event struct{ Server, Event string }
		_ = json.NewDecoder(r.Body).Decode(&event)
		seen = append(seen, event.Event+" "+event.Server)
		w.WriteHeader(http.StatusNoContent)
	}))
	defer hook.Close()
	cmd := &cobra.Command{}
	cmd.SetIn(strings.NewReader(""))
	r := newRules(cmd)
	defer r.client.Close()
	for _, name := range []string{"my server", "a__b", "x.y", "é"} {
		load := func(rule string) *host.Request {
			loaded := parsed(t, `{"mcpServers":{"`+name+`":{"command":"a"},"plain":{"command":"b"}},
				"policy":{"default":"allow","rules":[{`+rule+`,"action":"deny"}]},"hooks":[{"url":"`+hook.URL+
				`","server":"`+name+`"}]}`)
			set := must.Get(r.load(loaded, &config.Values{}))(t)
			r.set(set)
			return &host.Request{Server: loaded.Servers[0].Name, Method: mcp.MethodCallTool, Kind: "tool",
				Name:   "t",
				Caller: new(auth.Info)}
		}
		for _, rule := range []string{`"server":"` + name + `"`, `"when":"server == '` + name + `'"`} {
			request := load(rule)
			must.That(t, request.Server != name, "the host has the name %q", name)
			d := must.Get(r.Decide(t.Context(), request))(t)
			must.CheckEqual(t, d.Action, host.Deny, rule, d)
			hides := r.Hides(principal.Principal{})
			must.CheckThat(t, hides != nil && hides(request), "%s: the tool is not hidden", rule)
			other := *request
			other.Server = "plain"
			if d, err := r.Decide(t.Context(), &other); err != nil || d.Action != host.Allow {
				t.Errorf("%s: the other server: %v %v", rule, d, err)
			}
			seen = nil
			err := r.request(t.Context(), request)
			_, responseErr := r.response(t.Context(), request, json.RawMessage("{}"))
			want := []string{"request " + name, "response " + name}
			must.CheckThat(t, err == nil && responseErr == nil && slices.Equal(seen, want),
				"%s: the webhook has received %q: %v %v", rule, seen, err, responseErr)
			path := filepath.Join(t.TempDir(), "audit.log")
			log := must.Get((&auditFlags{path: path}).open(cmd))(t)
			log.written = r.current.Load().written
			log.record(t.Context(), "denied", principal.Anonymous, "server", request.Server)
			_ = log.Close()
			text, _ := os.ReadFile(path)
			must.CheckThat(t, strings.Contains(string(text), `"server":"`+name+`"`), "the audit log has %s", text)
		}
	}
}

// The strictest of several policies decides. The policy of a file that does not decide is for its own servers only.
func TestStrictestPolicyDecides(t *testing.T) {
	dir := t.TempDir()
	files := &config.Files{Deciding: []string{filepath.Join(dir, "own")}}
	for _, file := range [][2]string{
		{"own",
			`{"mcpServers":{"mine":{"command":"a"}},"policy":{"version":"1","default":"ask","approvalTimeout":"1m",` +
				`"rules":[{"tool":"denied","action":"deny"},{"tool":"allowed","action":"allow"}]}}`},
		{"other",
			`{"mcpServers":{"theirs":{"command":"b"}},"policy":{"version":"2","default":"allow",` +
				`"approvalTimeout":"5s","rules":[{"tool":"allowed","action":"deny"}]}}`},
	} {
		path := filepath.Join(dir, file[0])
		must.Do(t, os.WriteFile(path, []byte(file[1]), 0o600))
		files.Paths = append(files.Paths, path)
	}
	for range 2 { // the order does not matter
		slices.Reverse(files.Paths)
		loaded := must.Get(files.Load())(t)
		cmd := &cobra.Command{}
		cmd.SetIn(strings.NewReader(""))
		r := newRules(cmd)
		defer r.client.Close()
		set := must.Get(r.load(loaded, &config.Values{}))(t)
		r.set(set)
		for _, c := range []struct {
			server, tool string
			want         host.Action
		}{
			{"mine", "allowed", host.Allow}, {"mine", "denied", host.Deny}, {"mine", "any", host.Ask},
			{"theirs", "allowed", host.Deny}, {"theirs", "denied", host.Deny}, {"theirs", "any", host.Ask},
			{"removed", "allowed", host.Deny},
		} {
			request := &host.Request{Server: c.server, Method: mcp.MethodCallTool, Kind: "tool", Name: c.tool,
				Caller: new(auth.Info)}
			d, err := r.Decide(t.Context(), request)
			must.CheckThat(t, err == nil && d.Action == c.want && strings.Contains(d.Version, "1") &&
				strings.Contains(d.Version, "2"), "%s %s: %+v %v, want %v", c.server, c.tool, d, err, c.want)
			if hides := r.Hides(principal.Principal{}); hides == nil || hides(request) != (c.want == host.Deny) {
				t.Errorf("%s %s: hidden is not %v", c.server, c.tool, c.want == host.Deny)
			}
		}
		if mine, theirs := set.timeoutFor("mine"), set.timeoutFor("theirs"); mine != time.Minute ||
			theirs != 5*time.Second {
			t.Errorf("time for an approval: %v and %v", mine, theirs)
		}
	}
}

// An approval for a session counts for the rules of all policies that ask.
func TestAllPoliciesThatAskAreTheRule(t *testing.T) {
	policy := func(version string, action host.Action) scopedPolicy {
		rule := host.Rule{Tool: "a", Action: action, Reason: "policy " + version}
		return scopedPolicy{Rules: host.Rules{Version: version, Rules: []host.Rule{rule}, Default: host.Ask}}
	}
	decide := func(tool string, first, second host.Action) host.Decision {
		set := &ruleSet{policies: []scopedPolicy{policy("1", first), policy("2", second)}}
		d, err := set.decide(t.Context(), &host.Request{Kind: "tool", Name: tool, Caller: new(auth.Info)})
		must.CheckThat(t, err == nil && d.Action == host.Ask, "%+v, %v", d, err)
		return d
	}
	must.CheckEqual(t, decide("a", host.Ask, host.Ask).Reason, "policy 1; policy 2", "the reason")
	rules := make(map[string]bool)
	for _, d := range []host.Decision{
		decide("a", host.Ask, host.Ask), decide("a", host.Ask, host.Allow), decide("a", host.Allow, host.Ask),
		decide("b", host.Ask, host.Ask),
	} {
		rules[d.Rule] = true
	}
	must.CheckEqual(t, len(rules), 4, "the rules", rules)
}

// Clients are then notified, and their subscriptions checked again.
func TestPolicyHasChangedIfItDecidesAboutOtherServers(t *testing.T) {
	set := func(name string, except ...string) *ruleSet {
		policy := scopedPolicy{Rules: host.Rules{Version: "1"}, except: except}
		return &ruleSet{policies: []scopedPolicy{policy}, names: map[string]string{"a-b": name}}
	}
	r := new(rules)
	r.current.Store(set("a b", "one"))
	for i, test := range []struct {
		now     *ruleSet
		changed bool
	}{
		{set("a b", "one"), false}, {set("a b", "one", "two"), true}, {set("a b"), true}, {set("a.b"), true},
		{new(ruleSet), true},
	} {
		must.CheckEqual(t, r.set(test.now), test.changed, i)
	}
}

func TestLockNamesTheReasonOfMissingDefinitions(t *testing.T) {
	flags := &lockFlags{timeout: time.Second}
	for want, status := range map[string]host.ServerStatus{
		`server "files": tools: too many entries`: {Name: "files", State: host.Ready,
			Incomplete: errors.New("tools: too many entries")},
		`server "files": exit status 1`: {Name: "files", State: host.Down, Err: errors.New("exit status 1")},
		"has not started within 1s":     {Name: "files", State: host.Starting},
	} {
		must.CheckFails(t, flags.missing(&status), want, status.State)
	}
	must.Check(t, flags.missing(&host.ServerStatus{Name: "files", State: host.Ready}))
}

func TestRecordThatCannotBeWrittenIsReported(t *testing.T) {
	for _, required := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "audit.log")
		var printed strings.Builder
		cmd := &cobra.Command{}
		cmd.SetErr(&printed)
		a := must.Get((&auditFlags{path: path, required: required}).open(cmd))(t)
		record := slog.NewRecord(time.Now(), slog.LevelInfo, "allowed", 0)
		must.Do(t, a.Handle(t.Context(), record))
		must.Do(t, a.Close()) // later writes fail
		for range 3 {
			err := a.Handle(t.Context(), record)
			must.CheckThat(t, (err != nil) == required, "required is %v: %v", required, err)
		}
		must.CheckEqual(t, strings.Count(printed.String(), "parley: warning: cannot write the audit log: "), 1,
			printed.String())
		must.Do(t, os.Rename(path, path+".1"))
		must.CheckFails(t, a.reopen(), "closed", "reopen") // that of the old file
		must.Check(t, a.Handle(t.Context(), record))
		must.Check(t, a.Close())
		for name, lines := range map[string]int{path: 2, path + ".1": 1} { // the first counts the records that were lost
			text := must.Get(os.ReadFile(name))(t)
			must.CheckEqual(t, strings.Count(string(text), "\n"), lines, name, text)
		}
	}
}
