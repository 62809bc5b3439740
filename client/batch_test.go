package client_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
)

// Only 2025-03-26 has batches. In other revisions, a response in an array is invalid, and its call
// does not wait until its time-out.
func TestResponseInABatchOfAnotherRevisionEndsItsCall(t *testing.T) {
	const batch = `[{"jsonrpc":"2.0","method":"notifications/x"},{"jsonrpc":"2.0","id":$id,` + called + `}]`
	check := func(t *testing.T, c *client.Client, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err = c.CallTool(ctx, "a", nil); !errors.Is(err, call.ErrInvalidResponse) || !strings.Contains(err.Error(), "must be a JSON object") {
			t.Error(err)
		}
	}
	for _, r := range mcp.Revisions() {
		if r == mcp.V20250326 {
			continue
		}
		s := &script{Answers: answers("initialize", strings.ReplaceAll(initialized, "2025-06-18", string(r))), Otherwise: methodNotFound}
		if r.Modern() {
			s = modernServer()
		}
		t.Run("stream, "+string(r), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s.Answers["tools/call"] = []string{"!lines " + batch}
				to, _ := target(s)
				d := patient()
				c, err := d.Dial(t.Context(), to)
				check(t, c, err)
			})
		})
	}
	for how, m := range answeringCalls(batch) {
		t.Run(how, func(t *testing.T) {
			c, err := m.dial(t, patient())
			check(t, c, err)
		})
	}
}
