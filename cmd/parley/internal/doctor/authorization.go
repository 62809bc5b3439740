package doctor

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/parley-mcp/parley/auth/oauth"
	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/quoting"
	"github.com/parley-mcp/parley/internal/challenge"
	"github.com/parley-mcp/parley/internal/httpurl"
	"github.com/parley-mcp/parley/schema"
)

// errDiscovered ends a login after the discovery, before anything is registered or opened.
var errDiscovered = errors.New("the discovery has succeeded")

// discoverOnly is an interaction at which a login ends.
type discoverOnly struct{}

// Begin implements oauth.Interaction.
func (discoverOnly) Begin(context.Context, string) (oauth.Flow, error) { return nil, errDiscovered }

// authorization examines what the server requires of requests without a token, how clients find its authorization
// server, and the stored login. Failed is the error of the connection, if there is one.
func (e *Examination) authorization(ctx context.Context, target *client.HTTPTarget, failed error) {
	p := e.newProber(target)
	p.auth = nil
	p.target = &client.HTTPTarget{URL: target.URL} // without the user's headers
	a, err := p.post(ctx, pingMessage)
	if err != nil {
		e.report("login", Problem, "answer requests without a token with status 401", "a request without a token fails: %s", e.text(err))
		return
	}
	if a.status != http.StatusUnauthorized {
		if u, err := url.Parse(target.URL); err == nil && !httpurl.IsLoopback(u.Hostname()) && failed == nil && a.status != http.StatusForbidden {
			e.report("login", Note, "", "answers requests without a token; every client that can reach the server can use it")
		}
		if !isUnauthorized(failed) {
			return
		}
	}
	if issuer, err := e.discover(ctx, target.URL); err == nil && issuer.Issuer == "" {
		e.report("login", Note, "", "requires credentials, and names no authorization server, so clients cannot log in; they send a token that users give them")
	} else {
		e.challenge(a)
		e.discovery(issuer, err)
		e.login(ctx, target)
	}
}

func isUnauthorized(err error) bool {
	var status *call.StatusError
	return errors.Is(err, call.ErrUnauthorized) || errors.As(err, &status) && status.Status == http.StatusUnauthorized
}

// challenge examines the challenge of a response with status 401.
func (e *Examination) challenge(a *answer) {
	for _, c := range challenge.Parse(a.header.Values("Www-Authenticate")) {
		switch {
		case !c.Is("Bearer") && !c.Is("DPoP"):
		case c.Params["resource_metadata"] == "":
			e.report("login", Warning, "add resource_metadata to the challenge, for clients that do not look at well-known URLs",
				"the challenge does not name the metadata of the server")
			return
		default:
			e.report("login", OK, "", "requires a token; the challenge names the metadata at %s", c.Params["resource_metadata"])
			return
		}
	}
	e.report("login", Problem, "add the header WWW-Authenticate: Bearer resource_metadata=\"…\" to responses with status 401",
		"the response with status %d has no challenge, so clients cannot find out how to log in", a.status)
}

// issuerMetadata is a part of the metadata of an authorization server.
type issuerMetadata struct {
	Issuer       string `json:"issuer"`
	Registration string `json:"registration_endpoint"`
	Documents    bool   `json:"client_id_metadata_document_supported"`
}

// discover finds the authorization server as a login does. The result is zero without an error if there is none.
func (e *Examination) discover(ctx context.Context, server string) (issuer issuerMetadata, err error) {
	c := &oauth.Client{Interaction: discoverOnly{}, Logger: slog.New(slog.DiscardHandler), Proxy: e.proxyOf, Trace: func(s oauth.Step) {
		if s.Name == "authorization server metadata" && s.Status == http.StatusOK {
			_ = schema.Decode(s.ResponseBody, &issuer) // the login reports invalid metadata
		}
	}}
	if err = c.Login(ctx, server); errors.Is(err, errDiscovered) {
		err = nil
	}
	return issuer, err
}

// discovery reports the result of discover.
func (e *Examination) discovery(issuer issuerMetadata, err error) {
	if err != nil {
		e.report("login", Problem, "see parley login --explain for each request", "clients cannot log in: %s", e.text(err))
		return
	}
	e.report("login", OK, "", "the authorization server is %s", issuer.Issuer)
	switch {
	case issuer.Documents:
		e.report("login", OK, "", "the authorization server accepts client ID metadata documents")
	case issuer.Registration != "":
		e.report("login", OK, "", "clients can register with the authorization server")
	default:
		e.report("login", Warning, "support client ID metadata documents, or let users pass --client-id to parley login",
			"clients must be registered with the authorization server by hand")
	}
}

// login examines the stored login.
func (e *Examination) login(ctx context.Context, target *client.HTTPTarget) {
	if target.Header.Get("Authorization") != "" || e.Status == nil {
		return
	}
	status, err := e.Status(ctx)
	fix := "run " + quoting.OfUser().Command([]string{"login"}, target.URL)
	switch {
	case err != nil:
		e.report("login", Warning, "run parley whoami", "cannot read the stored logins: %s", e.text(err))
	case status == nil:
		e.report("login", Problem, fix, "you are not logged in")
	case status.Expires.IsZero():
		e.report("login", OK, "", "you are logged in%s", userOf(status))
	case e.time().After(status.Expires) && !status.Renewable:
		e.report("login", Problem, fix, "your login has expired")
	case !status.Renewable:
		e.report("login", Note, "", "you are logged in%s until %s; then a new login is necessary, because the authorization server gave no refresh token",
			userOf(status), status.Expires.Local().Format(time.DateTime))
	default:
		e.report("login", OK, "", "you are logged in%s; the token is refreshed when it expires", userOf(status))
	}
}

func userOf(s *oauth.Status) string {
	if s.Subject == "" {
		return ""
	}
	return " as " + strings.TrimSpace(s.Subject)
}
