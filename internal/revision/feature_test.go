package revision_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/mcp"
)

func TestExtensionsMustNotUseMethodsOfTheProtocol(t *testing.T) {
	for _, m := range revision.Methods() {
		if err := revision.CheckExtensionMethod(m.Name, "com.example/x"); err == nil {
			t.Errorf("CheckExtensionMethod accepts %s", m.Name)
		}
	}
	for _, name := range []string{"", "a//b", "/a", "a/", "a b", "ä", "a\n", "rpc.discover", strings.Repeat("x", 129), mcp.MethodUpdateTask, mcp.NotificationTasks} {
		if err := revision.CheckExtensionMethod(name, "com.example/x"); err == nil {
			t.Errorf("CheckExtensionMethod accepts %q", name)
		}
	}
	for _, name := range []string{"jobs/run", "com.example/jobs/run", "x", "notifications/jobs/done", strings.Repeat("x", 128)} {
		if err := revision.CheckExtensionMethod(name, "com.example/x"); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// The tasks of 2025-11-25 belong to the protocol. Later ones belong to an extension.
func TestTasksExtensionHasItsMethodsSince2026(t *testing.T) {
	for _, name := range []string{mcp.MethodGetTask, mcp.MethodUpdateTask, mcp.MethodCancelTask, mcp.NotificationTasks} {
		if err := revision.CheckExtensionMethod(name, mcp.ExtensionTasks); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, r := range mcp.Revisions() {
			if got := revision.LeavesToExtensions(name, r); got != r.Modern() {
				t.Errorf("%s in %s: %v", name, r, got)
			}
		}
	}
	if err := revision.CheckExtensionMethod(mcp.MethodListTasks, mcp.ExtensionTasks); err == nil {
		t.Error("tasks/list must not be a method of the extension")
	}
}

func TestHandshakesDeclareExtensionsInBothPlaces(t *testing.T) {
	settings := json.RawMessage(`{"a":1}`)
	declared := mcp.ClientCapabilities{
		Experimental: map[string]json.RawMessage{"mine": json.RawMessage(`{}`)},
		Extensions:   map[string]json.RawMessage{"com.example/x": settings, mcp.ExtensionTasks: json.RawMessage(`{}`)},
	}
	for _, r := range mcp.Revisions() {
		got := revision.DowngradeClientCapabilities(r, declared)
		_, experimental := got.Experimental["com.example/x"]
		_, tasks := got.Extensions[mcp.ExtensionTasks]
		if experimental == r.Modern() || tasks != r.Modern() || string(got.Extensions["com.example/x"]) != string(settings) || got.Experimental["mine"] == nil {
			t.Errorf("%s: %+v", r, got)
		}
	}
	if len(declared.Experimental) != 1 || len(declared.Extensions) != 2 {
		t.Error("the declared capabilities were modified")
	}
}
