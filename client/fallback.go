package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/dial/httpclient"
	"github.com/parley-mcp/parley/internal/dial/modern"
)

// dialNewest connects over HTTP in the newest revision that the server supports: it tries 2026-07-28 first, then a
// session, then HTTP+SSE, and the answer to each attempt decides whether the next one is made (2026-07-28,
// basic/transports/streamable-http, Backward Compatibility). On a byte stream, probe.find does this.
func (d *Dialer) dialNewest(ctx context.Context, options httpclient.Options) (*link, error) {
	l, err := d.dialModern(ctx, options)
	if err == nil || d.Revision != "" {
		return l, err
	}
	if older, rejection := d.rejectsRevision(err); rejection != nil {
		return nil, at(StageDiscover, rejection)
	} else if !older && !mayFallBack(ctx, err) {
		return nil, err
	}
	modernErr := err
	if l, err = d.dialSession(ctx, options); err == nil || !isEndpointMissing(err) {
		return l, err
	}
	sessionErr := err
	if l, err = d.dialSSE(ctx, options); err != nil {
		return nil, at(StageDiscover,
			fmt.Errorf("the URL is not an MCP endpoint in any revision: 2026-07-28: %w; 2025-11-25: %w; 2024-11-05: %w",
				modernErr, sessionErr, err))
	}
	return l, nil
}

// mayFallBack reports whether an error of the attempt in 2026-07-28 indicates an older
// server. Errors that only modern servers report do not, nor do errors that are independent
// of the era: the server cannot be reached, is overloaded, does not answer or requires
// credentials.
func mayFallBack(ctx context.Context, err error) bool {
	if ctx.Err() != nil || modern.IsModernError(err) || errors.Is(err, call.ErrRevision) ||
		errors.Is(err, call.ErrConnectionLost) || errors.Is(err, call.ErrUnauthorized) ||
		errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	var status *call.StatusError
	return !errors.As(err, &status) || isLegacyStatus(status.Status)
}

// isLegacyStatus reports whether an older server may answer a request of 2026-07-28 with a
// status (2026-07-28, basic/versioning, Compatibility Matrix).
func isLegacyStatus(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired,
		http.StatusRequestTimeout, http.StatusTooManyRequests:
		return false
	}
	return 400 <= status && status < 500
}

// isEndpointMissing reports whether the URL may belong to an HTTP+SSE server, which answers
// a POST with an error.
func isEndpointMissing(err error) bool {
	var status *call.StatusError
	if !errors.As(err, &status) || modern.IsModernError(err) {
		return false
	}
	switch status.Status {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed:
		return true
	}
	return false
}
