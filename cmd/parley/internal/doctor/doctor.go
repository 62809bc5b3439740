// Package doctor examines an MCP server: whether it can be reached, which revisions it supports, whether it obeys the
// rules of the specification that clients depend on, and whether models can use its definitions. Each finding says what
// to do.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/parley-mcp/parley/auth/oauth"
	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// Level is the importance of a finding.
type Level string

// The levels.
const (
	OK      Level = "ok"      // the server does what clients expect
	Note    Level = "note"    // worth knowing
	Warning Level = "warning" // some clients or models will have trouble
	Problem Level = "problem" // the server cannot be used, or is unsafe
)

// Finding is the result of one check.
type Finding struct {
	Check string `json:"check"` // the subject, such as "revisions" or "origin"
	Level Level  `json:"level"`
	Text  string `json:"text"`
	Fix   string `json:"fix,omitempty"` // what to do
}

// Examination examines one server. Its methods must not be called concurrently.
type Examination struct {
	// Dialer connects to the server. The Examination changes Revision, Timeouts and Logger of copies only.
	Dialer client.Dialer
	Target client.Target
	// Report is called with each finding, in the order of the checks.
	Report func(Finding)
	// Explain returns the text of an error, with advice. Nil: the error's own text.
	Explain func(error) string
	// Status returns the stored login for the URL of the server; nil means that the user is not logged in. Without
	// Status, the login is not examined.
	Status func(ctx context.Context) (*oauth.Status, error)

	// For tests.
	now   func() time.Time                      // nil: time.Now
	grace time.Duration                         // 0: exitGrace
	proxy func(*http.Request) (*url.URL, error) // nil: http.ProxyFromEnvironment
}

// requestTimeout limits each request of an examination.
const requestTimeout = 10 * time.Second

// Run examines the server. It returns an error if it cannot connect, and the error of ctx if that ends. Other faults are
// findings only.
func (e *Examination) Run(ctx context.Context) error {
	web, isURL := e.Target.(*client.HTTPTarget)
	if isURL && !e.address(ctx, web.URL) {
		return errors.New("the server cannot be reached")
	}
	c, err := e.connect(ctx)
	if isURL {
		e.authorization(ctx, web, err)
	}
	if err != nil {
		if ctx.Err() == nil && !isURL {
			e.process(ctx, nil)
		}
		return err
	}
	defer c.Close()
	supported := e.revisions(ctx, c)
	if isURL {
		e.endpoint(ctx, web, supported)
	} else {
		e.process(ctx, supported)
	}
	e.catalogue(ctx, c)
	return ctx.Err()
}

// report reports a finding. Fix is empty for findings that need none.
func (e *Examination) report(check string, level Level, fix, format string, args ...any) {
	e.Report(Finding{check, level, fmt.Sprintf(format, args...), fix})
}

// text returns the text of an error.
func (e *Examination) text(err error) string {
	if e.Explain != nil {
		return e.Explain(err)
	}
	return err.Error()
}

// connect connects as every client does, and reports how long that took.
func (e *Examination) connect(ctx context.Context) (*client.Client, error) {
	start := time.Now()
	c, err := e.Dialer.Dial(ctx, e.Target)
	took := time.Since(start)
	if err != nil {
		e.report("connect", Problem, "", "%s", e.text(err)) // Explain says what to do
		return nil, err
	}
	info := c.Server().Info
	e.report("connect", OK, "", "%s %s answers in revision %s after %v", info.Name, info.Version, c.Revision(), terminal.Duration(took))
	if took > 5*time.Second {
		e.report("connect", Warning, "start the server in advance, for example with parley connect or parley up",
			"the first answer takes %v; many clients wait 10 seconds or less", terminal.Duration(took))
	}
	if info.Name == "" || info.Version == "" {
		e.report("connect", Warning, "set name and version in the information about the server", "the server has no name or no version")
	}
	if err := c.Ping(ctx); err != nil {
		e.report("connect", Problem, "answer a ping with an empty result", "ping fails: %s", e.text(err))
	}
	return c, nil
}

// revisions dials the server in each revision, and returns those that it supports, the newest first.
func (e *Examination) revisions(ctx context.Context, c *client.Client) (supported []mcp.Revision) {
	var names, slow []string
	for _, r := range mcp.Revisions() {
		if r == c.Revision() {
			supported, names = append(supported, r), append(names, string(r))
			continue
		}
		d := e.Dialer
		d.Revision = r
		start := time.Now()
		other, err := d.Dial(ctx, e.Target)
		took := terminal.Duration(time.Since(start))
		switch {
		case ctx.Err() != nil:
			return supported
		case err == nil:
			other.Close()
			supported, names = append(supported, r), append(names, string(r))
		case !errors.Is(err, client.ErrRevision) && !isRejection(err):
			e.report("revisions", Warning, "answer requests in revisions that the server does not support with an error that names the supported ones",
				"a client that supports only %s gets no proper answer: %s", r, e.text(err))
		}
		if took > 5*time.Second {
			slow = append(slow, fmt.Sprintf("%s (%v)", r, took))
		}
	}
	e.report("revisions", OK, "", "supports %s", strings.Join(names, ", "))
	if len(slow) > 0 {
		e.report("revisions", Warning, "answer requests with an unknown revision at once", "takes long in %s", strings.Join(slow, ", "))
	}
	if len(supported) > 0 && supported[0] < mcp.V20250618 {
		e.report("revisions", Warning, "update the library of the server", "supports no revision since %s; new clients will stop supporting it", mcp.V20250618)
	}
	return supported
}

// isRejection reports whether an error is an answer of the server, as opposed to silence or garbage.
func isRejection(err error) bool {
	var status *call.StatusError
	var reported *jsonrpc.Error
	return errors.As(err, &status) || errors.As(err, &reported)
}
