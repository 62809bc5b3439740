package revision_test

import (
	"testing"

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

// Input requests of 2026-07-28 are not messages and have no row. The methods of the tasks
// extension have none either.
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
			if got.Notification != (want.Kind == spec.Notification) {
				t.Errorf("%s: %s: notification %v, and is a %s", r, want.Name, got.Notification, want.Kind)
			}
			var sender revision.Sender
			if want.FromClient {
				sender |= revision.Client
			}
			if want.FromServer {
				sender |= revision.Server
			}
			if got.From(r) != sender {
				t.Errorf("%s: %s: sender %b, want %b", r, want.Name, got.From(r), sender)
			}
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
			if m.In(r) && !defined[m.Name] {
				t.Errorf("%s has no %s", r, m.Name)
			}
		}
	}
	for _, m := range revision.Methods() {
		if !found[m.Name] {
			t.Errorf("no revision has %s", m.Name)
		}
	}
}

func TestTableHasOneRowPerMethod(t *testing.T) {
	seen := make(map[string]bool)
	for _, m := range revision.Methods() {
		if seen[m.Name] {
			t.Errorf("%s has two rows", m.Name)
		}
		seen[m.Name] = true
	}
	if revision.Lookup("tools/Call") != nil || revision.Lookup("") != nil {
		t.Error("Lookup finds an unknown method")
	}
}

func TestMethodsReturnsACopy(t *testing.T) {
	revision.Methods()[0].Name = "changed"
	if revision.Methods()[0].Name == "changed" {
		t.Error("Methods returns the table itself")
	}
}
