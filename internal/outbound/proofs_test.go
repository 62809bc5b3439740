package outbound_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/outbound"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// A request may have run unless each exchange proves the contrary. A response proves nothing, whatever its code.
func TestOnlyAProofShowsThatARequestHasNotRun(t *testing.T) {
	status := func(code int) error { return &call.StatusError{Status: code} }
	for name, test := range map[string]struct {
		err    error // error of the Wire
		code   int64 // error code of the response
		proven bool
	}{
		"nothing sent":                 {err: fmt.Errorf("%w: %w", call.ErrNotSent, call.ErrConnectionLost), proven: true},
		"rejected before the dispatch": {err: &outbound.Rejected{Err: jsonrpc.Errorf(-32022, "x")}, proven: true},
		"no credentials":               {err: fmt.Errorf("x: %w", call.ErrUnauthorized), proven: true},
		"status 400":                   {err: status(400), proven: true},
		"status 429":                   {err: status(429), proven: true},
		"status 408, also of a proxy":  {err: status(408)},
		"status 502":                   {err: status(502)},
		"connection lost":              {err: call.ErrConnectionLost},
		"result":                       {},
		"error of an unknown revision": {code: mcp.CodeUnsupportedVersion},
		"error of headers":             {code: mcp.CodeHeaderMismatch},
		"error of an unknown method":   {code: jsonrpc.CodeMethodNotFound},
		"error of params":              {code: jsonrpc.CodeInvalidParams},
		"error of a message":           {code: jsonrpc.CodeInvalidRequest},
		"error of JSON":                {code: jsonrpc.CodeParseError},
	} {
		w := newWire(t)
		o := &outbound.Requests{Wire: w}
		w.send = func(_ context.Context, out *outbound.Outgoing) error {
			switch {
			case test.err != nil:
				return test.err
			case test.code != 0:
				o.Receive(message(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"x"}}`, out.ID,
					test.code)))
			default:
				o.Receive(result(t, out.ID, "x"))
			}
			return nil
		}
		req := &outbound.Request{Method: mcp.MethodCallTool, Timeout: time.Minute}
		_, err := o.Do(t.Context(), req)
		must.CheckEqual(t, req.MayHaveRun, !test.proven, name)
		must.CheckIs(t, err, test.err, name)
		w.send = nil // a later exchange does not prove anything about an earlier one
		if !test.proven {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			_, _ = o.Do(ctx, req)
			must.CheckEqual(t, req.MayHaveRun, true, name)
		}
	}
}
