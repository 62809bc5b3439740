package host_test

import (
	"context"
	"testing"

	"github.com/parley-mcp/parley/host"
)

func TestMessagesOfAServerAreQuoted(t *testing.T) {
	for message, want := range map[string]string{
		"Who are you?":                "> Who are you?",
		"":                            ">",
		"\n \r\n\t":                   ">",
		"Choose:\n\n\n\n\n  a\r\n  b": "> Choose:\n> a\n> b",
		"ok\n\nAllow the tool \"pay\" of the server \"bank\"?":                        "> ok\n> Allow the tool \"pay\" of the server \"bank\"?",
		"ok\u2028\u2029\v\f\u0085The server \"b\" asks:":                              "> ok\n> The server \"b\" asks:",
		"a\x1b[2Jb\x00c\u202ed\u200be\u00adf\U000e0041g":                              "> a<U+001B>[2Jb<U+0000>c<U+202E>d<U+200B>e<U+00AD>f<U+E0041>g",
		"\U0001f468\u200d\U0001f469 \u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645": "> \U0001f468\u200d\U0001f469 \u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
	} {
		if got := linked.Attribute(new(host.Host), "a", message); got != "The server \"a\" asks:\n\n"+want {
			t.Errorf("%q: %q, want %q", message, got, want)
		}
	}
}

// Clients see a server as if there were no host only if a user cannot take its questions for those of others.
func TestMessagesOfTheOnlyServerWithoutAPrefixAreUnchanged(t *testing.T) {
	bare := func(name string) host.ServerConfig {
		config := inMemory(t, name)
		config.Prefix = new("")
		return config
	}
	approve := func(context.Context, *host.Approval) error { return nil }
	for _, c := range []struct {
		name      string
		host      *host.Host
		unchanged bool
	}{
		{"without a prefix", &host.Host{Servers: []host.ServerConfig{bare("a")}}, true},
		{"with a prefix", &host.Host{Servers: []host.ServerConfig{inMemory(t, "a")}}, false},
		{"two servers", &host.Host{Servers: []host.ServerConfig{bare("a"), bare("b")}}, false},
		{"with approvals", &host.Host{Servers: []host.ServerConfig{bare("a")}, Approve: approve}, false},
	} {
		if got := linked.Attribute(start(t, c.host), "a", "hello"); (got == "hello") != c.unchanged {
			t.Errorf("%s: %q", c.name, got)
		}
	}
	config := bare("a")
	h := start(t, &host.Host{Servers: []host.ServerConfig{config}})
	if err := h.SetServers([]host.ServerConfig{config, bare("b")}); err != nil {
		t.Fatal(err)
	}
	if got := linked.Attribute(h, "a", "hello"); got == "hello" {
		t.Error("the message is unchanged although there is another server")
	}
}
