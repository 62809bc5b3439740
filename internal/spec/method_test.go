package spec_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-mcp/parley/internal/spec"
	"github.com/parley-mcp/parley/mcp"
)

func TestMethodsHaveSenders(t *testing.T) {
	for _, c := range []struct {
		rev  mcp.Revision
		want spec.Method
	}{
		{mcp.V20241105, spec.Method{Name: "tools/call", Definition: "CallToolRequest", Kind: spec.Request, FromClient: true}},
		{mcp.V20241105, spec.Method{Name: "ping", Definition: "PingRequest", Kind: spec.Request, FromClient: true, FromServer: true}},
		{mcp.V20250618, spec.Method{Name: "elicitation/create", Definition: "ElicitRequest", Kind: spec.Request, FromServer: true}},
		{mcp.V20251125, spec.Method{Name: "tasks/get", Definition: "GetTaskRequest", Kind: spec.Request, FromClient: true, FromServer: true}},
		{mcp.V20251125, spec.Method{Name: "notifications/tasks/status", Definition: "TaskStatusNotification", Kind: spec.Notification, FromClient: true, FromServer: true}},
		{mcp.V20260728, spec.Method{Name: "elicitation/create", Definition: "ElicitRequest", Kind: spec.InputRequest, FromServer: true}},
		{mcp.V20260728, spec.Method{Name: "notifications/cancelled", Definition: "CancelledNotification", Kind: spec.Notification, FromClient: true, FromServer: true}},
		{spec.Tasks, spec.Method{Name: "tasks/update", Definition: "UpdateTaskRequest", Kind: spec.Request, FromClient: true}},
		{spec.Tasks, spec.Method{Name: "notifications/tasks", Definition: "TaskStatusNotification", Kind: spec.Notification, FromServer: true}},
	} {
		methods := spec.Methods(c.rev)
		i := slices.IndexFunc(methods, func(m spec.Method) bool { return m.Name == c.want.Name })
		if i < 0 {
			t.Errorf("%s: method %s is missing", c.rev, c.want.Name)
			continue
		}
		if diff := cmp.Diff(c.want, methods[i]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.rev, diff)
		}
	}
}

func TestMethodsAreComplete(t *testing.T) {
	for rev, want := range map[mcp.Revision]int{
		mcp.V20241105: 24, mcp.V20250326: 24, mcp.V20250618: 25, mcp.V20251125: 31, mcp.V20260728: 21, spec.Tasks: 7,
	} {
		if got := spec.Methods(rev); len(got) != want {
			t.Errorf("%s has %d methods, want %d: %v", rev, len(got), want, got)
		}
	}
}
