package client_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// The compatibility matrix of 2026-07-28, basic/versioning, on byte streams
// (basic/transports/stdio, Backward Compatibility).

const (
	probed     = "server/discover"
	shookHands = "initialize notifications/initialized"
)

func refusal(supported string) string {
	return `"error":{"code":-32022,"message":"unsupported protocol version","data":{"supported":[` + supported + `],"requested":"2026-07-28"}}`
}

// compat is one server, and what dialling it comes to.
type compat struct {
	name   string
	server script
	pinned mcp.Revision
	want   mcp.Revision // empty: an error
	fails  func(error) bool
	heard  string        // the methods that the server has heard of, a call of a tool apart
	takes  time.Duration // how long dialling takes
}

func is(target error) func(error) bool { return func(err error) bool { return errors.Is(err, target) } }

func reports(code int64) func(error) bool { return is(&jsonrpc.Error{Code: code}) }

func matrix() []compat {
	dual := answers("server/discover", discovered, "initialize", initialized)
	legacy := func(probe string) script {
		return script{Answers: answers("server/discover", probe, "initialize", initialized), Otherwise: methodNotFound}
	}
	modern := func(probe ...string) script {
		s := script{Answers: answers("initialize", methodNotFound), Otherwise: methodNotFound}
		s.Answers["server/discover"] = probe
		return s
	}
	return []compat{
		{name: "modern", server: *modernServer(), want: mcp.V20260728, heard: probed},
		{name: "both eras", server: script{Answers: dual}, want: mcp.V20260728, heard: probed},

		// Fallback is not keyed to one error code.
		{name: "legacy: -32601", server: legacy(methodNotFound), want: mcp.V20250618, heard: probed + " " + shookHands},
		{name: "legacy: -32602", server: legacy(`"error":{"code":-32602,"message":"Invalid request parameters","data":""}`), want: mcp.V20250618, heard: probed + " " + shookHands},
		{name: "legacy: -32000", server: legacy(`"error":{"code":-32000,"message":"not initialized"}`), want: mcp.V20250618, heard: probed + " " + shookHands},
		{name: "legacy: -32700", server: legacy(`"error":{"code":-32700,"message":"?"}`), want: mcp.V20250618, heard: probed + " " + shookHands},
		{name: "legacy: an empty result", server: legacy(`"result":{}`), want: mcp.V20250618, heard: probed + " " + shookHands},
		{name: "legacy: another result", server: legacy(`"result":{"supportedVersions":7}`), want: mcp.V20250618, heard: probed + " " + shookHands},
		{name: "legacy: a result that is none", server: legacy(`"result":[]`), want: mcp.V20250618, heard: probed + " " + shookHands},
		{name: "legacy: silent before the handshake", server: legacy(""), want: mcp.V20250618, heard: probed + " " + shookHands, takes: 2250 * time.Millisecond},

		{name: "slow, then modern", server: script{Delay: 5 * time.Second, Answers: answers("server/discover", discovered), Otherwise: methodNotFound},
			want: mcp.V20260728, heard: probed + " initialize", takes: 5 * time.Second},
		{name: "slow, then legacy", server: script{Delay: 5 * time.Second, Answers: answers("initialize", initialized), Otherwise: methodNotFound},
			want: mcp.V20250618, heard: probed + " " + shookHands, takes: 5 * time.Second},
		{name: "slow, then legacy and silent", server: script{Delay: 5 * time.Second, Answers: answers("initialize", initialized)},
			want: mcp.V20250618, heard: probed + " " + shookHands, takes: 5250 * time.Millisecond},
		{name: "slow, then of both eras", server: script{Delay: 5 * time.Second, Answers: dual, After: map[string]time.Duration{"server/discover": 200 * time.Millisecond}},
			want: mcp.V20260728, heard: probed + " " + shookHands, takes: 5200 * time.Millisecond},
		{name: "modern, and slow to answer", server: script{Answers: answers("server/discover", discovered), Otherwise: methodNotFound, After: map[string]time.Duration{"server/discover": 9 * time.Second}},
			want: mcp.V20260728, heard: probed + " initialize", takes: 9 * time.Second},
		{name: "modern, and says so too late", server: script{Answers: dual, After: map[string]time.Duration{"server/discover": 9 * time.Second}},
			want: mcp.V20250618, heard: probed + " " + shookHands, takes: 2250 * time.Millisecond},

		// U5: a recognised modern error never leads to an older revision.
		{name: "refuses, and lists an older revision", server: modernAndLegacy(refusal(`"2025-06-18","2024-11-05"`)), want: mcp.V20250618, heard: probed + " " + shookHands},
		{name: "refuses once what it lists", server: modern(refusal(`"2026-07-28"`), discovered), want: mcp.V20260728, heard: probed + " " + probed},
		{name: "refuses always what it lists", server: modernAndLegacy(refusal(`"2026-07-28","2025-06-18"`)), fails: reports(-32022), heard: probed + " " + probed},
		{name: "refuses, with nothing in common", server: modernAndLegacy(refusal(`"2099-01-01"`)), fails: is(client.ErrRevision), heard: probed},
		{name: "refuses, and lists nothing", server: modernAndLegacy(refusal(``)), fails: is(client.ErrRevision), heard: probed},
		{name: "refuses, without data", server: modernAndLegacy(`"error":{"code":-32022,"message":"no"}`), fails: is(client.ErrRevision), heard: probed},
		{name: "refuses, with odd data", server: modernAndLegacy(`"error":{"code":-32022,"message":"no","data":[1]}`), fails: is(client.ErrRevision), heard: probed},
		{name: "wants a capability", server: modernAndLegacy(`"error":{"code":-32021,"message":"no"}`), fails: reports(-32021), heard: probed},
		{name: "sees a mismatch of headers", server: modernAndLegacy(`"error":{"code":-32020,"message":"no"}`), fails: reports(-32020), heard: probed},
		{name: "refuses, slowly", server: script{Answers: answers("server/discover", refusal(`"2099-01-01"`), "initialize", initialized), After: map[string]time.Duration{"server/discover": 2100 * time.Millisecond}},
			fails: is(client.ErrRevision), heard: probed + " " + shookHands, takes: 2100 * time.Millisecond},
		{name: "describes itself, with nothing in common", server: modernAndLegacy(`"result":{"resultType":"complete","supportedVersions":["2099-01-01"],"capabilities":{}}`), fails: is(client.ErrRevision), heard: probed},
		{name: "describes itself, and lists older revisions only", server: modernAndLegacy(`"result":{"resultType":"complete","supportedVersions":["2025-06-18"],"capabilities":{}}`), want: mcp.V20250618, heard: probed + " " + shookHands},

		{name: "answers the handshake with an unknown revision", server: script{Answers: answers("initialize", strings.ReplaceAll(initialized, "2025-06-18", "1999-01-01")), Otherwise: methodNotFound},
			fails: is(client.ErrRevision), heard: probed + " initialize"},
		{name: "answers the handshake with a modern revision", server: script{Answers: answers("initialize", strings.ReplaceAll(initialized, "2025-06-18", "2026-07-28")), Otherwise: methodNotFound},
			fails: is(client.ErrRevision), heard: probed + " initialize"},
		{name: "refuses the handshake", server: script{Otherwise: methodNotFound}, fails: reports(-32601), heard: probed + " initialize"},
		{name: "answers the handshake with nonsense", server: script{Answers: answers("initialize", `"result":{"protocolVersion":7}`), Otherwise: methodNotFound},
			fails: is(client.ErrInvalidResponse), heard: probed + " initialize"},
		{name: "never says anything", server: script{}, fails: is(context.DeadlineExceeded), heard: probed + " initialize", takes: 12 * time.Second},
		{name: "leaves at once", server: script{Otherwise: "!close"}, fails: is(client.ErrConnectionLost), heard: probed},
		{name: "leaves during the handshake", server: script{Answers: answers("initialize", "!close"), Otherwise: methodNotFound}, fails: is(client.ErrConnectionLost), heard: probed + " initialize"},

		// What is no message is passed over (S1), and so is what comes unasked.
		{name: "prints before it speaks", server: script{Greeting: []string{"Listening on stdio", "{}", "\xff", `"id":1`}, Answers: answers("server/discover", discovered)},
			want: mcp.V20260728, heard: probed},
		{name: "notifies before it is asked", server: script{Greeting: []string{
			`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`,
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`,
		}, Answers: answers("server/discover", discovered)}, want: mcp.V20260728, heard: probed},
		{name: "answers what nobody asked", server: script{Greeting: []string{
			`{"jsonrpc":"2.0","id":99,"result":{}}`, `{"jsonrpc":"2.0","id":"1","result":{}}`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"?"}}`,
		}, Answers: answers("server/discover", discovered)}, want: mcp.V20260728, heard: probed},

		// One revision only.
		{name: "pinned to a legacy revision", server: script{Answers: dual}, pinned: mcp.V20250618, want: mcp.V20250618, heard: shookHands},
		{name: "pinned to a legacy revision that is not offered", server: script{Answers: dual}, pinned: mcp.V20251125, fails: is(client.ErrRevision), heard: shookHands},
		{name: "pinned to the modern revision", server: script{Answers: dual}, pinned: mcp.V20260728, want: mcp.V20260728, heard: probed},
		{name: "pinned to the modern revision, which is late", server: script{Answers: dual, After: map[string]time.Duration{"server/discover": 9 * time.Second}},
			pinned: mcp.V20260728, want: mcp.V20260728, heard: probed, takes: 9 * time.Second},
		{name: "pinned to the modern revision that is unknown", server: legacy(methodNotFound), pinned: mcp.V20260728, fails: reports(-32601), heard: probed},
		{name: "pinned to the modern revision that is refused", server: modernAndLegacy(refusal(`"2025-06-18"`)), pinned: mcp.V20260728, fails: is(client.ErrRevision), heard: probed},
	}
}

func modernAndLegacy(probe string) script {
	return script{Answers: answers("server/discover", probe, "initialize", initialized), Otherwise: methodNotFound}
}

func TestDiallingFindsTheEra(t *testing.T) {
	for _, test := range matrix() {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				to, played := target(&test.server)
				d := quiet()
				d.Revision = test.pinned
				start := time.Now()
				c, err := d.Dial(t.Context(), to)
				if took := time.Since(start); took != test.takes {
					t.Errorf("dialling took %v, not %v", took, test.takes)
				}
				test.check(t, c, err)
				heard := strings.TrimSuffix(played.methods(), " tools/call")
				if heard != test.heard {
					t.Errorf("the server heard %s, not %s", heard, test.heard)
				}
			})
		})
	}
}

// check holds what Dial returned against the expectation, and calls a tool.
func (test *compat) check(t *testing.T, c *client.Client, err error) {
	t.Helper()
	if err != nil {
		if test.want != "" || !test.fails(err) {
			t.Errorf("got %v", err)
		}
		return
	}
	defer c.Close()
	if test.want == "" {
		t.Fatalf("dialled, in %s", c.Revision())
	}
	if c.Revision() != test.want {
		t.Errorf("revision %s, not %s", c.Revision(), test.want)
	}
	name := "old"
	if test.want.Modern() {
		name = "new"
	}
	if got := c.Server().Info.Name; got != name && got != "" {
		t.Errorf("the server's name is %q, not %q", got, name)
	}
	if text, err := client.CallTool[string](t.Context(), c, "a", nil); err != nil || text != "called" {
		t.Errorf("calling a tool: %q, %v", text, err)
	}
}

// The same with real processes, whose timing nobody knows: what is found must not
// depend on it.
func TestDiallingFindsTheEraOfAProcess(t *testing.T) {
	for _, test := range matrix() {
		if test.takes > 0 || strings.Contains(test.name, "leaves") || strings.HasPrefix(test.name, "legacy: ") && test.name != "legacy: -32601" {
			continue // takes real time, or has a test of its own, or is much like another
		}
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			d := quiet()
			d.Revision = test.pinned
			d.Timeouts.Probe = -1 // or a slow machine would change what the server hears
			c, err := d.Dial(t.Context(), child(t, &test.server))
			test.check(t, c, err)
		})
	}
}

func TestASilentProcessIsOfTheLegacyEra(t *testing.T) {
	t.Parallel()
	d := quiet()
	d.Timeouts.Probe = 10 * time.Millisecond
	c, err := d.Dial(t.Context(), child(t, &script{Answers: answers("initialize", initialized)}))
	(&compat{want: mcp.V20250618}).check(t, c, err)
}

func TestASlowProcessOfBothErasIsModern(t *testing.T) {
	t.Parallel()
	d := quiet()
	d.Timeouts.Probe = time.Millisecond // over before the process has started
	c, err := d.Dial(t.Context(), child(t, &script{Delay: 10 * time.Millisecond, Answers: answers("server/discover", discovered, "initialize", initialized)}))
	(&compat{want: mcp.V20260728}).check(t, c, err)
}

// S7: a legacy server's requests are answered, a modern server's are not.
func TestRequestsOfTheServerAreAnsweredInTheLegacyEraOnly(t *testing.T) {
	asking := `!lines {"jsonrpc":"2.0","id":"p","method":"ping"}
{"jsonrpc":"2.0","id":"s","method":"sampling/createMessage","params":{}}
{"jsonrpc":"2.0","id":"u","method":"unheard/of"}
{"jsonrpc":"2.0","id":$id,` + called + `}`
	for _, test := range []struct {
		server *script
		want   []string
	}{
		{modernServer(), nil},
		{legacyServer(), []string{
			`response {"jsonrpc":"2.0","id":"p","result":{}}`,
			`response {"jsonrpc":"2.0","id":"s","error":{"code":-32601,`,
			`response {"jsonrpc":"2.0","id":"u","error":{"code":-32601,`,
		}},
	} {
		synctest.Test(t, func(t *testing.T) {
			test.server.Answers["tools/call"] = []string{asking}
			to, played := target(test.server)
			d := quiet()
			c, err := d.Dial(t.Context(), to)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := c.CallTool(t.Context(), "a", nil); err != nil {
				t.Error(err)
			}
			synctest.Wait() // the replies are on their way
			revision := c.Revision()
			c.Close()
			heard := played.methods()
			for _, want := range test.want {
				if !strings.Contains(heard, want) {
					t.Errorf("%s: %s was not sent", revision, want)
				}
			}
			if n := strings.Count(heard, "response "); n != len(test.want) {
				t.Errorf("%s: %d responses were sent: %s", revision, n, heard)
			}
		})
	}
}
