package revision_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/mcp"
)

func TestExtensionsHaveNoMethodsOfTheProtocol(t *testing.T) {
	for _, m := range revision.Methods() {
		if err := revision.CheckExtensionMethod(m.Name, "com.example/x"); err == nil {
			t.Errorf("an extension may have %s", m.Name)
		}
	}
	for _, name := range []string{"", "a//b", "/a", "a/", "a b", "ä", "a\n", "rpc.discover", strings.Repeat("x", 129), mcp.MethodUpdateTask, mcp.NotificationTasks} {
		if err := revision.CheckExtensionMethod(name, "com.example/x"); err == nil {
			t.Errorf("an extension may have %q", name)
		}
	}
	for _, name := range []string{"jobs/run", "com.example/jobs/run", "x", "notifications/jobs/done", strings.Repeat("x", 128)} {
		if err := revision.CheckExtensionMethod(name, "com.example/x"); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// The tasks of 2025-11-25 are the protocol's, those since an extension's.
func TestTheTasksExtensionHasItsMethodsSince2026(t *testing.T) {
	for _, name := range []string{mcp.MethodGetTask, mcp.MethodUpdateTask, mcp.MethodCancelTask, mcp.NotificationTasks} {
		if err := revision.CheckExtensionMethod(name, mcp.ExtensionTasks); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, r := range mcp.Revisions() {
			if got := revision.Extends(name, r); got != r.Modern() {
				t.Errorf("%s in %s: %v", name, r, got)
			}
		}
	}
	if err := revision.CheckExtensionMethod(mcp.MethodListTasks, mcp.ExtensionTasks); err == nil {
		t.Error("tasks/list is no method of the extension")
	}
}

func TestExtensionsAreDeclaredInHandshakesWhereEitherPeerLooks(t *testing.T) {
	settings := json.RawMessage(`{"a":1}`)
	declared := mcp.ClientCapabilities{
		Experimental: map[string]json.RawMessage{"mine": json.RawMessage(`{}`)},
		Extensions:   map[string]json.RawMessage{"com.example/x": settings, mcp.ExtensionTasks: json.RawMessage(`{}`)},
	}
	for _, r := range mcp.Revisions() {
		got := revision.SpeakClient(r, declared)
		_, experimental := got.Experimental["com.example/x"]
		_, tasks := got.Extensions[mcp.ExtensionTasks]
		if experimental == r.Modern() || tasks != r.Modern() || string(got.Extensions["com.example/x"]) != string(settings) || got.Experimental["mine"] == nil {
			t.Errorf("%s: %+v", r, got)
		}
	}
	if len(declared.Experimental) != 1 || len(declared.Extensions) != 2 {
		t.Error("what was declared has been changed")
	}
}
