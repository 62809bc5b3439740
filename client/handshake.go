package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/dial/httpclient"
	"github.com/parley-mcp/parley/internal/dial/legacy"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// offer returns the revision to offer first in a handshake.
func (d *Dialer) offer() mcp.Revision { return cmp.Or(d.Revision, mcp.LatestLegacy) }

// handshake performs the handshake. It offers a revision and, while the server rejects it, older ones. It returns the
// revision that it has offered last, too. initialize has no effect that lasts, so it may be sent again.
func (d *Dialer) handshake(ctx context.Context, era *legacy.Client, offer mcp.Revision) (*mcp.InitializeResult, mcp.Revision, error) {
	var rejection error // the first one
	for {
		found, err := era.Handshake(ctx, offer, d.info(), d.sessionCapabilities(), d.handshakeRequest())
		if err == nil {
			err = d.checkRevision(found)
		}
		older, rejected := d.rejected(err, offer)
		if rejected {
			rejection = cmp.Or(rejection, err)
			err = rejection
		}
		if older == "" {
			return found, offer, err
		}
		offer = older
	}
}

// rejected reports whether the error of initialize rejects the revision that was offered, and returns the best older
// one: the newest of those that the error names, or the next one if it names none. Servers name them in the data of the
// error (2025-11-25, basic/lifecycle, Error Handling) or in its text. The result is empty if Dialer.Revision allows no
// other one, or if the error names only revisions without sessions.
func (d *Dialer) rejected(err error, offer mcp.Revision) (older mcp.Revision, rejected bool) {
	code, text := reported(err)
	if !mayRejectRevision(code, text) {
		return "", false
	}
	namesModern := false
	for _, r := range mcp.Revisions() { // the newest first
		switch named := strings.Contains(text, string(r)); {
		case r.Modern():
			namesModern = namesModern || named
		case r >= offer:
		case named:
			return d.unlessFixed(r), true
		case older == "":
			older = r
		}
	}
	if namesModern {
		older = ""
	}
	return d.unlessFixed(older), true
}

func (d *Dialer) unlessFixed(r mcp.Revision) mcp.Revision {
	if d.Revision != "" {
		return ""
	}
	return r
}

// mayRejectRevision reports whether the error of initialize can mean that the server rejects the revision: its code says
// so, or its text has the word version and is about the protocol, the params or a revision.
func mayRejectRevision(code int64, text string) bool {
	if code == mcp.CodeUnsupportedVersion {
		return true
	}
	text = strings.ToLower(text)
	return strings.Contains(text, "version") && (code == jsonrpc.CodeInvalidParams || strings.Contains(text, "protocol") ||
		slices.ContainsFunc(mcp.Revisions(), func(r mcp.Revision) bool { return strings.Contains(text, string(r)) }))
}

// reported returns what a server reports in an error: the code, the message and the data of a JSON-RPC error, or the
// body of a response over HTTP. The text is empty for other errors.
func reported(err error) (code int64, text string) {
	var reported *jsonrpc.Error
	var rejection *httpclient.Rejection
	switch {
	case errors.As(err, &reported):
		return reported.Code, reported.Message + " " + string(reported.Data)
	case errors.As(err, &rejection):
		return 0, rejection.Body
	}
	return 0, ""
}

// checkRevision checks the revision in the result of the handshake.
func (d *Dialer) checkRevision(found *mcp.InitializeResult) error {
	if d.Revision != "" && found.ProtocolVersion != d.Revision {
		return fmt.Errorf("%w: the server chose %s", call.ErrRevision, found.ProtocolVersion)
	}
	return nil
}
