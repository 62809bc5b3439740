package outbound

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/schema"
)

// MaxRetryAfter is the longest wait that a client accepts from a server.
const MaxRetryAfter = 24 * time.Hour

// maxLimitName is the longest name of a limit that a client accepts from a server, in bytes.
const maxLimitName = 200

// ClientError returns err, the error of a client's request, wrapped in a *call.OverloadError if the response reports
// overload: status 429 or 503, or retryAfterMs in the data of a JSON-RPC error.
func ClientError(err error) error {
	overload := &call.OverloadError{Limit: "requests", Err: err}
	isOverload := false
	if response, ok := errors.AsType[*call.StatusError](err); ok {
		isOverload = response.Status == http.StatusTooManyRequests || response.Status == http.StatusServiceUnavailable
		overload.RetryAfter = response.RetryAfter
	}
	if reported, ok := errors.AsType[*jsonrpc.Error](err); ok && readOverload(reported.Data, overload) {
		isOverload = true
	}
	if !isOverload {
		return err
	}
	return overload
}

// readOverload sets the fields of overload from the data of a JSON-RPC error. It reports whether
// the data contains retryAfterMs.
func readOverload(data json.RawMessage, overload *call.OverloadError) bool {
	var members struct {
		Limit        json.RawMessage `json:"limit"`
		RetryAfterMs *int64          `json:"retryAfterMs"`
	}
	if schema.Decode(data, &members) != nil || members.RetryAfterMs == nil || *members.RetryAfterMs < 0 {
		return false
	}
	overload.RetryAfter = time.Duration(min(*members.RetryAfterMs, MaxRetryAfter.Milliseconds())) * time.Millisecond
	if limit := jsonrpc.Unquote(members.Limit); limit != "" && len(limit) <= maxLimitName {
		overload.Limit = limit
	}
	return true
}
