package client_test

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
)

// Servers that reject the revision of initialize name the ones that they support in several ways, or not at all. The
// client offers the newest of them, or the next older one.
func TestRejectedRevisionIsFollowedByOneThatTheServerSupports(t *testing.T) {
	offered := regexp.MustCompile(`"method":"initialize","params":\{"protocolVersion":"([^"]*)"`)
	rejection := func(code int, message, data string) string {
		return fmt.Sprintf(`"error":{"code":%d,"message":%q,"data":%s}`, code, message, data)
	}
	for name, test := range map[string]struct {
		answers []string // to initialize
		pinned  mcp.Revision
		offers  string
		fails   bool
	}{
		"data.supported":      {answers: []string{rejection(-32602, "Unsupported protocol version", `{"supported":["2024-11-05","2025-03-26"],"requested":"2025-11-25"}`), initialized}, offers: "2025-11-25 2025-03-26"},
		"-32022":              {answers: []string{rejection(-32022, "Unsupported protocol version", `{"supported":["2026-07-28","2025-06-18"],"requested":"2025-11-25"}`), initialized}, offers: "2025-11-25 2025-06-18"},
		"data.expected":       {answers: []string{rejection(-32602, "Unsupported protocol version", `{"code":"INCOMPATIBLE","expected":"2025-06-18"}`), initialized}, offers: "2025-11-25 2025-06-18"},
		"message":             {answers: []string{rejection(-32602, "Unsupported protocol version: 2025-11-25. Supported: 2024-11-05", "null"), initialized}, offers: "2025-11-25 2024-11-05"},
		"none":                {answers: []string{rejection(-32000, "Unsupported protocol version: 2025-11-25", "null"), rejection(-32000, "Unsupported protocol version: 2025-06-18", "null"), initialized}, offers: "2025-11-25 2025-06-18 2025-03-26"},
		"rejects all":         {answers: []string{rejection(-32602, "Unsupported protocol version", `{"supported":["2024-10-07"]}`)}, offers: "2025-11-25 2025-06-18 2025-03-26 2024-11-05", fails: true},
		"only modern":         {answers: []string{rejection(-32022, "Unsupported protocol version", `{"supported":["2026-07-28"],"requested":"2025-11-25"}`)}, offers: "2025-11-25", fails: true},
		"newer ones":          {answers: []string{rejection(-32602, "version 2025-11-25 or newer is required", "null")}, offers: "2025-11-25 2025-06-18 2025-03-26 2024-11-05", fails: true},
		"code":                {answers: []string{rejection(-32022, "Not supported", `{"supported":["2025-06-18"]}`), initialized}, offers: "2025-11-25 2025-06-18"},
		"version of params":   {answers: []string{rejection(-32602, "Unsupported version", "null"), initialized}, offers: "2025-11-25 2025-06-18"},
		"another version":     {answers: []string{rejection(-32603, "server version 1.2 of the database failed", "null")}, offers: "2025-11-25", fails: true},
		"another error":       {answers: []string{rejection(-32603, "the database is not available since 2024-11-05", "null")}, offers: "2025-11-25", fails: true},
		"Dialer.Revision":     {answers: []string{rejection(-32602, "Unsupported protocol version", `{"supported":["2024-11-05"]}`), initialized}, pinned: mcp.V20250618, offers: "2025-06-18", fails: true},
		"an unknown revision": {answers: []string{strings.Replace(initialized, "2025-06-18", "2024-10-07", 1)}, offers: "2025-11-25", fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := legacyServer()
				s.Answers["initialize"] = test.answers
				d := quiet()
				d.Revision = test.pinned
				var mu sync.Mutex
				var offers []string
				d.Trace = func(sent bool, message []byte) {
					mu.Lock()
					defer mu.Unlock()
					if m := offered.FindSubmatch(message); sent && m != nil {
						offers = append(offers, string(m[1]))
					}
				}
				to, _ := target(s)
				c, err := d.Dial(t.Context(), to)
				if err == nil {
					callTwice(t, c)
					c.Close()
				}
				if got := strings.Join(offers, " "); got != test.offers || (err != nil) != test.fails {
					t.Errorf("offered %s, want %s; error %v", got, test.offers, err)
				}
				if err != nil && name == "rejects all" && !strings.Contains(err.Error(), "Unsupported protocol version") {
					t.Error(err)
				}
			})
		})
	}
}

// Over HTTP, the rejection may be a status with a text.
func TestRejectedRevisionOverHTTP(t *testing.T) {
	m := &mock{answers: map[string][]reply{
		"server/discover": {status(400, "Bad Request: Unsupported protocol version (supported versions: 2025-06-18, 2025-03-26)")},
		"initialize": {
			status(400, "Bad Request: Unsupported protocol version (supported versions: 2025-06-18, 2025-03-26)"),
			ok(strings.Replace(initialized, "2025-06-18", "2025-03-26", 1)),
		},
		"notifications/initialized": {status(202, "")}, "tools/call": {ok(called)},
	}}
	c := dialHTTP(t, m)
	if text, err := client.CallTool[string](t.Context(), c, "a", nil); err != nil || text != "called" || c.Revision() != mcp.V20250326 {
		t.Errorf("%s: %q, %v", c.Revision(), text, err)
	}
}

func TestStatusAboutAnotherVersionIsNotFollowedByOlderRevisions(t *testing.T) {
	m := &mock{answers: map[string][]reply{"initialize": {status(400, "cannot use server version 1.2 of the database")}}, otherwise: status(400, "")}
	d := quiet()
	if _, err := m.dial(t, d); err == nil || m.counts["initialize"] != 1 {
		t.Errorf("%v, received %s", err, m.methods())
	}
}
