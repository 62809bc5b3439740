package revision_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/spec"
	"github.com/parley-mcp/parley/mcp"
)

// row returns the row of a method if revision r has the method, or nil.
func row(r mcp.Revision, name string) *revision.Method {
	if m := revision.Lookup(name); m != nil && m.In(r) {
		return m
	}
	return nil
}

// Input requests of 2026-07-28 are not messages and have no row. Neither do the methods of the tasks extension.
func TestTableHasEveryMethodOfTheSchemas(t *testing.T) {
	for _, r := range mcp.Revisions() {
		for _, want := range spec.Methods(r) {
			got := row(r, want.Name)
			if want.Kind == spec.InputRequest {
				if got != nil {
					t.Errorf("%s: %s is an input request, but has the row %+v", r, want.Name, *got)
				}
				continue
			}
			if got == nil {
				t.Errorf("%s: no row for %s", r, want.Name)
				continue
			}
			must.CheckEqual(t, got.Notification, (want.Kind == spec.Notification), r, want.Name, want.Kind)
			var sender revision.Sender
			if want.FromClient {
				sender |= revision.Client
			}
			if want.FromServer {
				sender |= revision.Server
			}
			must.CheckEqual(t, got.From(r), sender, r, want.Name)
		}
	}
}

func TestTableHasOnlyMethodsOfTheSchemas(t *testing.T) {
	found := make(map[string]bool)
	for _, r := range mcp.Revisions() {
		defined := make(map[string]bool)
		for _, m := range spec.Methods(r) {
			defined[m.Name] = m.Kind != spec.InputRequest
		}
		for _, m := range revision.Methods() {
			found[m.Name] = found[m.Name] || defined[m.Name]
			must.CheckThat(t, !m.In(r) || defined[m.Name], "%s has no %s", r, m.Name)
		}
	}
	for _, m := range revision.Methods() {
		must.CheckThat(t, found[m.Name], "no revision has %s", m.Name)
	}
}

func TestTableHasOneRowPerMethod(t *testing.T) {
	seen := make(map[string]bool)
	for _, m := range revision.Methods() {
		must.CheckThat(t, !seen[m.Name], "%s has two rows", m.Name)
		seen[m.Name] = true
	}
	must.CheckThat(t, revision.Lookup("tools/Call") == nil && revision.Lookup("") == nil,
		"Lookup finds an unknown method")
}

func TestMethodsReturnsACopy(t *testing.T) {
	revision.Methods()[0].Name = "changed"
	must.CheckThat(t, revision.Methods()[0].Name != "changed", "Methods returns the table itself")
}

func TestExtensionsMustNotUseMethodsOfTheProtocol(t *testing.T) {
	for _, m := range revision.Methods() {
		err := revision.CheckExtensionMethod(m.Name, "com.example/x")
		must.CheckThat(t, err != nil, "CheckExtensionMethod accepts %s", m.Name)
	}
	for _, name := range []string{"", "a//b", "/a", "a/", "a b", "ä", "a\n", "rpc.discover", strings.Repeat("x", 129),
		mcp.MethodUpdateTask, mcp.NotificationTasks} {
		err := revision.CheckExtensionMethod(name, "com.example/x")
		must.CheckThat(t, err != nil, "CheckExtensionMethod accepts %q", name)
	}
	for _, name := range []string{"jobs/run", "com.example/jobs/run", "x", "notifications/jobs/done",
		strings.Repeat("x", 128)} {
		must.Check(t, revision.CheckExtensionMethod(name, "com.example/x"), name)
	}
}

// The tasks of 2025-11-25 belong to the protocol. Later ones belong to an extension.
func TestTasksExtensionHasItsMethodsSince2026(t *testing.T) {
	for _, name := range []string{mcp.MethodGetTask, mcp.MethodUpdateTask, mcp.MethodCancelTask,
		mcp.NotificationTasks} {
		must.Check(t, revision.CheckExtensionMethod(name, mcp.ExtensionTasks), name)
		for _, r := range mcp.Revisions() {
			must.CheckEqual(t, revision.LeavesToExtensions(name, r), r.Modern(), name, r)
		}
	}
	err := revision.CheckExtensionMethod(mcp.MethodListTasks, mcp.ExtensionTasks)
	must.CheckThat(t, err != nil, "tasks/list must not be a method of the extension")
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
		must.CheckThat(t, experimental != r.Modern() && tasks == r.Modern() &&
			string(got.Extensions["com.example/x"]) == string(settings) && got.Experimental["mine"] != nil,
			"%s: %+v", r, got)
	}
	must.CheckEqual(t, len(declared.Experimental), 1)
	must.CheckEqual(t, len(declared.Extensions), 2)
}
