package host_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/host"
)

func TestInvalidExtensionsAreRejected(t *testing.T) {
	for want, extensions := range map[string][]host.Extension{
		"jobs":                                  {{ID: "jobs"}},
		"tasks are forwarded without it":        {{ID: "io.modelcontextprotocol/tasks"}},
		"Settings must be a JSON object":        {{ID: "com.example/a", Settings: json.RawMessage(`[]`)}},
		`must not be listed twice`:              {{ID: "com.example/a"}, {ID: "com.example/a"}},
		"method a/b must not be listed twice":   {{ID: "com.example/a", Requests: []string{"a/b"}}, {ID: "com.example/b", Requests: []string{"a/b"}}},
		"belongs to the protocol":               {{ID: "com.example/a", Requests: []string{"tools/call"}}},
		"must begin with notifications/":        {{ID: "com.example/a", Notifications: []string{"a/b"}}},
		"of no requests, must begin with notif": {{ID: "com.example/a", Requests: []string{"notifications/a"}}},
	} {
		config := inMemory(t, "s")
		config.Extensions = extensions
		if err := config.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", extensions, err, want)
		}
	}
}

// A host sends only the methods that its configuration names.
func TestMethodsMustBeConfigured(t *testing.T) {
	config := inMemory(t, "s")
	config.Extensions = []host.Extension{{ID: "com.example/a", Requests: []string{"a/b"}, Notifications: []string{"notifications/a"}}}
	h := start(t, &host.Host{Servers: []host.ServerConfig{config}})
	if _, err := h.CallExtension(t.Context(), "s", "a/c", nil); !errors.Is(err, host.ErrUnknownMethod) {
		t.Errorf("CallExtension: %v", err)
	}
	if err := h.NotifyExtension(t.Context(), "s", "a/b", nil); !errors.Is(err, host.ErrUnknownMethod) {
		t.Errorf("NotifyExtension: %v", err)
	}
	if err := h.NotifyExtension(t.Context(), "s", "notifications/a", nil); err != nil {
		t.Errorf("NotifyExtension: %v", err)
	}
	if _, err := h.CallExtension(t.Context(), "other", "a/b", nil); !errors.Is(err, host.ErrUnknownServer) {
		t.Errorf("CallExtension: %v", err)
	}
}
