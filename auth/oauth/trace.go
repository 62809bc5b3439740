package oauth

import (
	"bytes"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mcp/parley/auth/internal/secrets"
)

// Step is one step of an authorization: a request of a [Client] and its response, or the authorization page that the
// user opens and the redirect from it. A Step has the text "redacted" in place of secrets, such as tokens and codes,
// and in place of texts of the server that can contain a secret. A Step does not share memory with the Client.
type Step struct {
	// Name tells the purpose: "challenge" (a request without a token), "resource metadata", "authorization
	// server metadata", "registration", "authorization" (the page), "token" or "revocation".
	Name string
	// Method, URL, RequestHeader and RequestBody are the request.
	Method, URL   string
	RequestHeader http.Header
	RequestBody   []byte
	// Status, ResponseHeader and ResponseBody are the response. They are zero values if there was no response.
	// ResponseHeader has only the fields Content-Type, Retry-After and WWW-Authenticate. ResponseBody has at most
	// 256 KiB; it is nil if the body is not JSON. The step "authorization" has the redirect in the field Location,
	// and no Status.
	Status         int
	ResponseHeader http.Header
	ResponseBody   []byte
	// Duration is the time from the request to the end of the response.
	Duration time.Duration
	// Err is the reason why there was no response; otherwise it is nil.
	Err error
}

const redacted = "redacted"

// Names of steps.
const (
	stepChallenge     = "challenge"
	stepResource      = "resource metadata"
	stepServer        = "authorization server metadata"
	stepRegistration  = "registration"
	stepAuthorization = "authorization"
	stepToken         = "token"
	stepRevocation    = "revocation"
)

// tracedHeaders are the fields of responses that a Step contains.
var tracedHeaders = []string{"Content-Type", "Retry-After", "WWW-Authenticate"}

// tracedMembers are the members of responses to requests with secrets that a Step contains. The values of others are
// redacted, because a server can repeat a secret anywhere.
var tracedMembers = []string{
	"token_type", "expires_in", "scope", "issued_token_type", "error", "error_description",
	"client_id", "client_name", "client_secret_expires_at", "redirect_uris", "grant_types", "response_types",
	"token_endpoint_auth_method", "application_type",
}

// traceExchange calls p.trace with a request and its response.
func (p *peers) traceExchange(step string, req *http.Request, r *response, err error, start time.Time) {
	s := Step{Name: step, Duration: time.Since(start), Err: err, Method: req.Method, URL: req.URL.String(),
		RequestHeader: req.Header.Clone()}
	for _, name := range []string{"Authorization", headerDPoP} {
		for i, value := range s.RequestHeader[name] {
			scheme, _, hasScheme := strings.Cut(value, " ")
			s.RequestHeader[name][i] = redacted
			if hasScheme {
				s.RequestHeader[name][i] = scheme + " " + redacted
			}
		}
	}
	if req.GetBody != nil {
		if body, err := req.GetBody(); err == nil {
			s.RequestBody, _ = io.ReadAll(body) // it is in memory
		}
	}
	if req.Header.Get("Content-Type") == contentForm {
		form, _ := secrets.RedactForm(string(s.RequestBody), redacted, secrets.IsParameter)
		s.RequestBody = []byte(form)
	}
	if r != nil {
		hide := r.secrets
		onlyKnown := step != stepChallenge && step != stepResource && step != stepServer
		if onlyKnown {
			hide.Received = unknownStrings(r.body)
		}
		s.Status, s.ResponseHeader = r.status, make(http.Header)
		for _, name := range tracedHeaders {
			for _, value := range r.header.Values(name) {
				s.ResponseHeader.Add(name, hide.Clean(value, redacted))
			}
		}
		s.ResponseBody = redactJSON(r.body, hide, onlyKnown)
	}
	p.trace(s)
}

// traceAuthorization calls the Trace of the client with an authorization page and the redirect from it.
func (s *session) traceAuthorization(page, redirectURI, redirect string, err error, start time.Time) {
	if s.owner.Trace == nil {
		return
	}
	address, sent := redactURL(page, func(name string) bool { return name == "state" })
	step := Step{Name: stepAuthorization, Method: http.MethodGet, URL: address, Duration: time.Since(start), Err: err}
	if err == nil {
		known := []string{"error", "error_description"}
		query := redirectQuery(redirect)
		// no user information
		if values, err := url.ParseQuery(query); err == nil && !strings.Contains(values.Get("iss"), "@") {
			known = append(known, "iss")
		}
		query, received := secrets.RedactForm(query, redacted,
			func(name string) bool { return !slices.Contains(known, name) })
		hide := s.owner.known.With(secrets.Set{Sent: append(sent, received...)})
		step.ResponseHeader = http.Header{"Location": {redirectURI + "?" + hide.Clean(query, redacted)}}
	}
	s.owner.Trace(step)
}

// redactURL replaces the secret parameters of the query of a URL, its user information and its fragment. It returns
// the values of the parameters.
func redactURL(raw string, isSecret func(name string) bool) (clean string, values []string) {
	u, err := url.Parse(raw)
	if err != nil {
		return redacted, nil
	}
	query, values := secrets.RedactForm(u.RawQuery, redacted, isSecret)
	if query != "" {
		query = "?" + query
	}
	return withoutQuery(u) + query, values
}

// redactJSON returns a JSON text without secrets. If onlyKnown is true, it also redacts the strings that are not values
// of tracedMembers. It returns nil if the text is not one JSON value.
func redactJSON(text []byte, hide secrets.Set, onlyKnown bool) []byte {
	return replaceStrings(text, func(member, s string) string {
		if onlyKnown && member != "" && !slices.Contains(tracedMembers, member) {
			return redacted
		}
		return hide.Clean(s, redacted)
	})
}

// unknownStrings returns the strings in a JSON text that are not values of tracedMembers.
func unknownStrings(text []byte) (all []string) {
	replaceStrings(text, func(member, s string) string {
		if member != "" && !slices.Contains(tracedMembers, member) {
			all = append(all, s)
		}
		return s
	})
	return all
}

// replaceStrings returns a JSON text with other strings. Replace gets the name of the member that a string belongs to,
// or an empty name if the string is itself a name. ReplaceStrings returns nil if the text is not one JSON value.
func replaceStrings(text []byte, replace func(member, s string) string) []byte {
	var b bytes.Buffer
	in, out := jsontext.NewDecoder(bytes.NewReader(text)), jsontext.NewEncoder(&b)
	member := ""
	for {
		token, err := in.ReadToken()
		if err == io.EOF {
			return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
		}
		if err != nil {
			return nil
		}
		if token.Kind() == '"' {
			s := token.String()
			if kind, length := in.StackIndex(in.StackDepth()); kind == '{' && length%2 == 1 { // a name
				member = s
				token = jsontext.String(replace("", s))
			} else {
				token = jsontext.String(replace(member, s))
			}
		}
		if out.WriteToken(token) != nil {
			return nil
		}
	}
}
