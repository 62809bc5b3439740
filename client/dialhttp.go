package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/httpwire"
	"github.com/parley-mcp/parley/internal/legacy"
	"github.com/parley-mcp/parley/internal/modern"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/mcp"
)

// String implements Target.
func (t *HTTPTarget) String() string {
	u, err := url.Parse(t.URL)
	if err != nil {
		return "malformed URL"
	}
	u.RawQuery, u.Fragment = "", "" // tokens are found there
	return u.Redacted()
}

func (t *HTTPTarget) dial(ctx context.Context, d *Dialer, memory *Discovery) (*link, error) {
	u, err := url.Parse(t.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, at(StageTarget, errors.New("the URL of a server begins with http:// or https:// and names a host"))
	}
	options := httpwire.Options{
		URL: t.URL, HTTP: d.HTTPClient, Header: t.Header.Clone(), Logger: d.Logger, MaxMessage: d.MaxMessage, Trace: d.Trace,
		Beats: d.KeepAlive >= 0,
	}
	if d.Auth != nil {
		options.Auth = d.Auth
	}
	if l, err := d.recallHTTP(ctx, options, memory); l != nil || err != nil {
		return l, err
	}
	switch {
	case d.Revision == mcp.V20241105:
		return d.dialPair(ctx, options)
	case d.Revision != "" && !d.Revision.Modern():
		return d.dialSession(ctx, options)
	}
	// Attempt a modern request, and look at what comes before falling back (2026-07-28,
	// basic/transports/streamable-http, Backward Compatibility).
	l, err := d.dialModern(ctx, options)
	if err == nil || d.Revision != "" {
		return l, err
	}
	if older, refusal := d.refused(err); refusal != nil {
		return nil, at(StageDiscover, refusal)
	} else if !older && !fallBack(ctx, err) {
		return nil, err
	}
	modernErr := err
	if l, err = d.dialSession(ctx, options); err == nil || !isEndpointMissing(err) {
		return l, err
	}
	sessionErr := err
	if l, err = d.dialPair(ctx, options); err != nil {
		return nil, at(StageDiscover, fmt.Errorf("not an MCP endpoint in any revision: 2026-07-28: %w; 2025-11-25: %w; 2024-11-05: %w", modernErr, sessionErr, err))
	}
	return l, nil
}

// fallBack reports whether an error of the modern attempt says that the server is
// of an older era. An error that only modern servers report says that it is not,
// and a server that cannot be reached, is overloaded, does not answer or wants
// credentials says nothing.
func fallBack(ctx context.Context, err error) bool {
	if ctx.Err() != nil || modern.IsModernError(err) || errors.Is(err, ErrRevision) ||
		errors.Is(err, call.ErrConnectionLost) || errors.Is(err, call.ErrUnauthorized) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	var status *call.StatusError
	return !errors.As(err, &status) || isOlder(status.Status)
}

// isOlder reports whether a status is one with which a server answers a request of
// an era that it does not know (2026-07-28, basic/versioning, Compatibility Matrix).
func isOlder(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired,
		http.StatusRequestTimeout, http.StatusTooManyRequests:
		return false
	}
	return 400 <= status && status < 500
}

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

func (d *Dialer) dialModern(ctx context.Context, options httpwire.Options) (*link, error) {
	era, _, err := d.newEras(false)
	if err != nil {
		return nil, err
	}
	wire := httpwire.NewClient(options, true, era)
	era.Wire = wire
	found, info, err := era.Discover(ctx, d.discovery())
	if err == nil {
		var r mcp.Revision
		if r, err = d.choose(found.SupportedVersions); err == nil && r.Modern() {
			l := modernLink(era, wire.Close).discovered(found, info)
			l.mirrors = true
			return l, nil
		}
	}
	wire.Close()
	if err == nil { // it can be asked in this era, and lists older ones only
		err = fmt.Errorf("%w: server/discover lists no modern revision", call.ErrInvalidResponse)
	}
	return nil, at(StageDiscover, err)
}

func (d *Dialer) dialSession(ctx context.Context, options httpwire.Options) (*link, error) {
	_, era, err := d.newEras(true)
	if err != nil {
		return nil, err
	}
	return d.beginSession(ctx, era, httpwire.NewClient(options, false, era))
}

func (d *Dialer) dialPair(ctx context.Context, options httpwire.Options) (*link, error) {
	_, era, err := d.newEras(true)
	if err != nil {
		return nil, err
	}
	wire, err := httpwire.DialPair(ctx, d.Timeouts.Initialize, options, era)
	if err != nil {
		era.Close()
		return nil, at(StageConnect, err)
	}
	l, err := d.beginSession(ctx, era, wire)
	if err == nil {
		l.pair = true
	}
	return l, err
}

// beginSession begins a session over a wire, which it closes if that fails.
func (d *Dialer) beginSession(ctx context.Context, era *legacy.Client, wire rpc.Wire) (*link, error) {
	era.Wire = wire
	closeAll := func() error {
		err := wire.Close()
		era.Close()
		return err
	}
	found, err := era.Handshake(ctx, d.offer(), d.info(), d.sessionCapabilities(), d.handshake())
	if err == nil {
		err = d.accept(found)
	}
	if err != nil {
		closeAll()
		return nil, at(StageInitialize, err)
	}
	return legacyLink(era, found, closeAll), nil
}

// accept checks the revision a server answered the handshake with.
func (d *Dialer) accept(found *mcp.InitializeResult) error {
	if d.Revision != "" && found.ProtocolVersion != d.Revision {
		return fmt.Errorf("%w: the server answers with %s", ErrRevision, found.ProtocolVersion)
	}
	return nil
}
