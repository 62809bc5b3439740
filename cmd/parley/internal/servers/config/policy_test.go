package config_test

import (
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/cmd/parley/internal/servers/config"
)

func TestHooksAreRead(t *testing.T) {
	c, err := config.Parse("/", "mcp.json",
		[]byte(`{"hooks":[{"url":"https://a"},{"url":"https://b","on":["response"],"server":"s","tool":"t*",`+
			`"timeout":"90s"}]}`))
	if err != nil || len(c.Hooks) != 2 {
		t.Fatalf("%+v, %v", c, err)
	}
	if a := c.Hooks[0]; a.URL != "https://a" || !a.Request || !a.Response || a.Server != "" || a.Timeout != 0 ||
		a.Source != "mcp.json:1" {
		t.Errorf("%+v", a)
	}
	if b := c.Hooks[1]; b.Request || !b.Response || b.Server != "s" || b.Tool != "t*" || b.Timeout != 90*time.Second {
		t.Errorf("%+v", b)
	}
	for text, want := range map[string]string{
		`{"hooks":{}}`:                          "hooks must be an array",
		`{"hooks":[{}]}`:                        `hooks[0]: "url" is missing`,
		`{"hooks":[{"url":"x","on":[]}]}`:       `hooks[0].on must have "request", "response" or both`,
		`{"hooks":[{"url":"x","on":["all"]}]}`:  `must have only "request" and "response", not "all"`,
		`{"hooks":[{"url":"x","ons":[]}]}`:      "hooks[0].ons is unknown",
		`{"hooks":[{"url":"x","timeout":"5"}]}`: "hooks[0].timeout must be a positive duration",
	} {
		if _, err := config.Parse("/", "mcp.json", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
