package doctor

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/auth/jwt"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal/quoting"
	"github.com/parley-mcp/parley/internal/httpurl"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/schema"
)

// ExplainToken examines the access token that is sent to the server at the URL of Target, and nothing else.
func (e *Examination) ExplainToken(ctx context.Context) {
	target := e.Target.(*client.HTTPTarget)
	found, err := e.discover(ctx, target.URL, "")
	if err != nil && found.Issuer == "" {
		e.report("login", Problem, "see parley login --explain for each request",
			"cannot find the authorization server: %s", e.text(err))
	}
	if !e.token(ctx, target, found) {
		e.report("token", Problem, e.loginCommand(target.URL), "there is no token that is valid")
	}
}

// token examines the access token that is sent to a server: each check that a server makes, with its result. Nothing is
// shown of the token but its issuer, audience, times and scopes. It reports whether there is a token.
func (e *Examination) token(ctx context.Context, target *client.HTTPTarget, found discovered) bool {
	p := e.newProber(target)
	req, err := p.request(ctx, http.MethodPost, pingMessage, nil)
	if err != nil {
		e.report("token", Problem, e.loginCommand(target.URL), "there is no token that is valid: %s", e.text(err))
		return true
	}
	scheme, token, _ := strings.Cut(req.Header.Get("Authorization"), " ")
	if token == "" || !strings.EqualFold(scheme, "Bearer") && !strings.EqualFold(scheme, "DPoP") {
		return false
	}
	accepted := e.verdict(ctx, p)
	payload := payloadOf(token)
	if payload == nil {
		text := "is opaque: only its issuer can check it, by introspection"
		if len(found.issuers) == 0 {
			text = "is no JSON Web Token: only the server can check it"
		}
		e.report("token", Note, "", "%s", text)
		return true
	}
	t := &examinedToken{Examination: e, info: &auth.Info{Claims: payload}, token: token, accepted: accepted,
		url: target.URL, found: found}
	if name := t.claim("iss"); name != found.Issuer && slices.Contains(found.issuers, name) {
		if other, err := e.discover(ctx, target.URL, name); err == nil {
			t.found = other
		}
	}
	trusted := t.issuer()
	t.genuine(ctx, trusted)
	t.audience()
	t.times()
	t.scopes()
	if _, bound := t.info.Claim("cnf.jkt"); bound && strings.EqualFold(scheme, "Bearer") {
		e.report("binding", Problem, "send it with the scheme DPoP and a proof",
			"the token is bound to a key, and is sent without a proof")
	}
	return true
}

func (e *Examination) loginCommand(server string) string {
	return "run " + quoting.OfUser().Command([]string{"login"}, server)
}

// verdict reports whether the server accepts the token.
func (e *Examination) verdict(ctx context.Context, p *prober) bool {
	a, err := p.post(ctx, pingMessage)
	switch {
	case err != nil:
		e.report("token", Problem, "answer every request within seconds", "a request with the token fails: %s",
			e.text(err))
		return false
	case a.status == http.StatusUnauthorized || a.status == http.StatusForbidden:
		reason := ""
		if a.message != nil && a.message.Err != nil {
			reason = ": " + a.message.Err.Message
		}
		e.report("token", Problem, "see the checks below; the log of the server may name the setting that is missing",
			"the server rejects the token with status %d%s", a.status, reason)
		return false
	}
	e.report("token", OK, "", "the server accepts the token")
	return true
}

// payloadOf returns the claims of a JSON Web Token, which it does not verify; nil for other tokens.
func payloadOf(token string) json.RawMessage {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || len(raw) == 0 || raw[0] != '{' || jsonrpc.Check(raw, jsonrpc.Limits{}) != nil {
		return nil
	}
	return raw
}

// examinedToken is a JSON Web Token that is being examined.
type examinedToken struct {
	*Examination
	info     *auth.Info // with the claims only
	token    string
	accepted bool // by the server
	url      string
	found    discovered
}

// deviates reports what a server rejects unless it has a setting for it, which clients do not see.
func (t *examinedToken) deviates(check, fix, format string, args ...any) {
	if t.accepted {
		t.report(check, Note, "", format+"; the server accepts it all the same", args...)
		return
	}
	t.report(check, Problem, fix, format, args...)
}

// claim returns a claim that is a text, or "".
func (t *examinedToken) claim(name string) string {
	raw, ok := t.info.Claim(name)
	if !ok || raw[0] != '"' {
		return ""
	}
	return jsonrpc.Unquote(raw)
}

// texts returns a claim that is a text or an array of texts.
func (t *examinedToken) texts(name string) (texts []string) {
	if one := t.claim(name); one != "" {
		return []string{one}
	}
	raw, ok := t.info.Claim(name)
	if !ok || schema.Decode(raw, &texts) != nil {
		return nil
	}
	return texts
}

// time returns a claim that is a time; zero if there is none.
func (t *examinedToken) time(name string) time.Time {
	raw, _ := t.info.Claim(name)
	seconds, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || math.Abs(seconds) > 1<<40 {
		return time.Time{}
	}
	return time.Unix(int64(seconds), 0)
}

// issuer reports whether the issuer of the token is the authorization server whose metadata was found.
func (t *examinedToken) issuer() (trusted bool) {
	name := t.claim("iss")
	switch {
	case name == "":
		t.deviates("issuer", "let the authorization server add the claim iss", "the token names no issuer")
	case name == t.found.Issuer:
		t.report("issuer", OK, "", "%s, the authorization server of the server", name)
		return true
	case len(t.found.issuers) == 0:
		t.report("issuer", Note, "", "%s; the server names no authorization server", name)
	case slices.Contains(t.found.issuers, name):
		t.report("issuer", OK, "", "%s, one of the authorization servers of the server, whose metadata cannot be read",
			name)
	default:
		t.deviates("issuer", t.loginCommand(t.url)+", or add --auth issuer=URL to the server if this is "+
			"another name of its issuer", "the token is of %s, but the server names %s", name,
			strings.Join(t.found.issuers, ", "))
	}
	return false
}

// The beginnings of the errors of jwt.Verifier before it has verified the signature.
const (
	noToken      = "the token must be a signed"
	noClaim      = "a claim of the token is malformed"
	noExpiry     = "the token has no expiry time"
	noAlgorithm  = "the token is signed with the algorithm"
	noKey        = "the token is not signed with a key"
	badSignature = "the signature of the token"
)

// genuine checks keys, signature and type as a server does, at a time at which the token is valid.
func (t *examinedToken) genuine(ctx context.Context, trusted bool) {
	if !trusted {
		t.report("signature", Note, "", "not checked, because the server does not name the issuer, or that has no "+
			"metadata")
		return
	}
	at, expiry := t.Examination.time(), t.time("exp")
	if !expiry.IsZero() && !at.Before(expiry) {
		at = expiry.Add(-time.Second)
	}
	for _, name := range []string{"nbf", "iat"} {
		if begin := t.time(name); begin.After(at) {
			at = begin
		}
	}
	v := &jwt.Verifier{Issuers: []string{t.found.Issuer}, Now: func() time.Time { return at }, HTTP: t.keysClient()}
	_, err := v.Verify(ctx, t.token)
	var invalid *auth.InvalidTokenError
	switch {
	case errors.Is(err, auth.ErrUnavailable):
		t.report("keys", Problem, "let the metadata of the issuer name a JWK Set with jwks_uri",
			"the keys of the issuer cannot be found: %s", httpurl.Redact(err))
		return
	case !errors.As(err, &invalid):
	case strings.HasPrefix(invalid.Reason, noKey):
		t.report("keys", Problem, t.loginCommand(t.url)+"; the issuer may have changed its keys",
			"found, but none of them has signed the token")
		return
	case strings.HasPrefix(invalid.Reason, badSignature), strings.HasPrefix(invalid.Reason, noAlgorithm),
		strings.HasPrefix(invalid.Reason, noToken), strings.HasPrefix(invalid.Reason, noClaim):
		t.report("keys", OK, "", "found at the issuer")
		t.report("signature", Problem, t.loginCommand(t.url), "%s", invalid.Reason)
		return
	case strings.HasPrefix(invalid.Reason, noExpiry):
		t.report("signature", Note, "", "not checked, because the token has no expiry time")
		return
	}
	t.report("keys", OK, "", "found at the issuer")
	t.report("signature", OK, "", "valid")
	if invalid != nil {
		fix := invalid.Remedy
		if fix != "" {
			fix = "on the server: " + fix
		}
		if profile := profileName.FindStringSubmatch(invalid.Remedy); t.accepted && profile != nil {
			t.report("type", OK, "", "an access token by the profile %s", profile[1])
		} else {
			t.deviates("type", fix, "%s", invalid.Reason)
		}
		return
	}
	t.report("type", OK, "", "an access token (RFC 9068)")
}

var profileName = regexp.MustCompile(`--auth profile=([a-z0-9]+) `)

// keysClient returns a client for the metadata and the keys of the issuer. The server has named it, so its addresses
// must be public, unless the server is on this machine, or a proxy connects to them.
func (t *examinedToken) keysClient() *http.Client {
	local := false
	if u, err := url.Parse(t.url); err == nil {
		local = httpurl.IsLoopback(u.Hostname())
	}
	dialer := &net.Dialer{Timeout: requestTimeout, Control: func(_, address string, _ syscall.RawConn) error {
		a, err := netip.ParseAddrPort(address)
		if err == nil && (local && a.Addr().IsLoopback() || a.Addr().IsGlobalUnicast() && !a.Addr().IsPrivate()) {
			return nil
		}
		return fmt.Errorf("the address %s is not public", address)
	}}
	transport := &http.Transport{Proxy: t.proxyOf, DisableKeepAlives: true, DialContext: dialer.DialContext}
	if req, err := http.NewRequest(http.MethodGet, t.found.Issuer, nil); err == nil {
		if proxy, err := t.proxyOf(req); err == nil && proxy != nil {
			transport.DialContext = nil
		}
	}
	return &http.Client{Transport: transport}
}

// audience checks that the token is for the server.
func (t *examinedToken) audience() {
	want := cmp.Or(t.found.resource, t.url)
	audience := t.texts("aud")
	canonical, _ := httpurl.Canonical(want)
	switch {
	case slices.ContainsFunc(audience, func(one string) bool {
		same, err := httpurl.Canonical(one)
		return one == want || err == nil && same == canonical
	}):
		t.report("audience", OK, "", "%s", want)
	case len(audience) == 0:
		t.deviates("audience", "let the issuer put "+want+" into the claim aud; on the server, --auth profile "+
			"may say which claim takes its place", "the token has no audience")
	default:
		t.deviates("audience", "let the issuer put "+want+" into the claim aud, or, if this is the server's "+
			"name at the issuer, add --auth audience="+audience[0]+" to the server", "the token is for %s, not for %s",
			strings.Join(audience, ", "), want)
	}
}

// times checks that the token is valid now.
func (t *examinedToken) times() {
	now, expiry, begin := t.Examination.time(), t.time("exp"), t.time("nbf")
	switch {
	case expiry.IsZero():
		t.deviates("expiry", "let the issuer add the claim exp", "the token has no expiry time")
	case !now.Before(expiry):
		t.report("expiry", Problem, t.loginCommand(t.url), "the token has expired at %s",
			expiry.Local().Format(time.DateTime))
	case now.Before(begin):
		t.report("expiry", Problem, "correct the clock of this machine or of the issuer",
			"the token is not valid before %s", begin.Local().Format(time.DateTime))
	default:
		t.report("expiry", OK, "", "valid until %s", expiry.Local().Format(time.DateTime))
	}
}

// scopes checks that the token has the scopes of the challenge.
func (t *examinedToken) scopes() {
	granted := strings.Fields(t.claim("scope"))
	if len(granted) == 0 {
		for _, words := range t.texts("scp") {
			granted = append(granted, strings.Fields(words)...)
		}
	}
	missing := slices.DeleteFunc(slices.Clone(t.found.challenged), func(needed string) bool {
		return slices.ContainsFunc(granted, func(have string) bool {
			return have == needed || strings.HasSuffix(needed, "/"+have) // as Microsoft Entra ID writes it
		})
	})
	switch {
	case len(missing) > 0:
		t.deviates("scopes", "run "+quoting.OfUser().Command([]string{"login", "--scope",
			strings.Join(missing, " ")}, t.url), "the token does not have the scopes %s", strings.Join(missing, " "))
	case len(granted) == 0:
		t.report("scopes", OK, "", "none, and the server requires none")
	default:
		t.report("scopes", OK, "", "%s", strings.Join(granted, " "))
	}
}
