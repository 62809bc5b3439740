package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/parley-mcp/parley/internal/httpwire"
	"github.com/parley-mcp/parley/internal/legacy"
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
	text := reportedText(err)
	if !strings.Contains(strings.ToLower(text), "version") {
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

// reportedText returns what a server reports in an error: the message and the data of a JSON-RPC error, or the body of
// a response over HTTP. It is empty for other errors.
func reportedText(err error) string {
	var reported *jsonrpc.Error
	var rejection *httpwire.Rejection
	switch {
	case errors.As(err, &reported):
		return reported.Message + " " + string(reported.Data)
	case errors.As(err, &rejection):
		return rejection.Body
	}
	return ""
}

// checkRevision checks the revision in the result of the handshake.
func (d *Dialer) checkRevision(found *mcp.InitializeResult) error {
	if d.Revision != "" && found.ProtocolVersion != d.Revision {
		return fmt.Errorf("%w: the server chose %s", ErrRevision, found.ProtocolVersion)
	}
	return nil
}
