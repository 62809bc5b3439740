// Package trace records the steps of a login, so that a program can show its user how the login works, or why it fails.
package trace

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mcp/parley/auth/internal/secrets"
	"github.com/parley-mcp/parley/auth/oauth"
	"github.com/parley-mcp/parley/internal/httpurl"
)

// Step is one step of a login: a request of an [oauth.Client] and its response, or the authorization page that the user
// opens and the redirect from it. A Step contains the text "redacted" in place of secrets, such as tokens and codes,
// and in place of texts of the server that can contain a secret. A Step does not share memory with the Client.
type Step struct {
	// Name is the purpose of the step: "challenge" (a request without a token), "resource metadata",
	// "authorization server metadata", "registration", "authorization" (the page), "token" or
	// "revocation".
	Name string
	// Method, URL, RequestHeader and RequestBody are the request.
	Method, URL   string
	RequestHeader http.Header
	RequestBody   []byte
	// Status, ResponseHeader and ResponseBody are the response. They are zero values if there was no response.
	// ResponseHeader contains only the fields Content-Type, Retry-After and WWW-Authenticate. ResponseBody is at
	// most 256 KiB long; it is nil if the body is not JSON. The step "authorization" has the redirect in the field
	// Location, and no Status.
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

// tracedHeaders lists the header fields of responses that a Step contains.
var tracedHeaders = []string{"Content-Type", "Retry-After", "WWW-Authenticate"}

// tracedMembers lists the fields that a Step shows of responses to requests with secrets. The values of other fields
// are redacted, because a server can repeat a secret anywhere.
var tracedMembers = []string{
	"token_type", "expires_in", "scope", "issued_token_type", "error", "error_description",
	"client_id", "client_name", "client_secret_expires_at", "redirect_uris", "grant_types", "response_types",
	"token_endpoint_auth_method", "application_type",
}

// Recorder records the steps of the logins of an [oauth.Client]:
//
//	r := &trace.Recorder{Record: show}
//	c := &oauth.Client{Wrap: r.Wrap, Interaction: r.Interaction(&browser.Loopback{})}
//
// A Recorder is safe for concurrent use and must not be copied.
type Recorder struct {
	// Record is called after each step. Calls can be concurrent. It must not block.
	Record func(Step)

	known secrets.Memory
}

// Wrap returns a transport that records the requests; set [oauth.Client.Wrap] to this method.
func (r *Recorder) Wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) { return r.roundTrip(next, req) })
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// maxBody is the maximum length of a response that an oauth.Client reads, in bytes.
const maxBody = 256 << 10

func (r *Recorder) roundTrip(next http.RoundTripper, req *http.Request) (*http.Response, error) {
	hide := r.known.With(secrets.Of(req))
	s := Step{Method: req.Method, URL: req.URL.String(), RequestHeader: req.Header.Clone()}
	if req.GetBody != nil {
		if body, err := req.GetBody(); err == nil {
			s.RequestBody, _ = io.ReadAll(body) // it is in memory
		}
	}
	s.Name = nameOf(req, string(s.RequestBody))
	start := time.Now()
	resp, err := next.RoundTrip(req)
	var body []byte
	if err == nil {
		body, err = io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
		rest := resp.Body
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(body), rest), rest}
	}
	s.Duration = time.Since(start)
	if err != nil {
		s.Err = hide.CleanError(httpurl.Redact(err))
	}
	for _, name := range []string{"Authorization", "Dpop"} {
		for i, value := range s.RequestHeader[name] {
			scheme, _, hasScheme := strings.Cut(value, " ")
			s.RequestHeader[name][i] = redacted
			if hasScheme {
				s.RequestHeader[name][i] = scheme + " " + redacted
			}
		}
	}
	if req.Header.Get("Content-Type") == contentForm {
		form, _ := secrets.RedactForm(string(s.RequestBody), redacted, secrets.IsParameter)
		s.RequestBody = []byte(form)
	}
	if err == nil {
		s.readResponse(resp, body, hide)
	}
	r.Record(s)
	if resp != nil {
		return resp, nil // the Client will find the error of the body itself
	}
	return nil, err
}

// readResponse adds a response to a step, without secrets.
func (s *Step) readResponse(resp *http.Response, body []byte, hide secrets.Set) {
	onlyKnown := s.Name != stepChallenge && s.Name != stepResource && s.Name != stepServer
	if onlyKnown {
		hide.Received = unknownStrings(body)
	}
	s.Status, s.ResponseHeader = resp.StatusCode, make(http.Header)
	for _, name := range tracedHeaders {
		for _, value := range resp.Header.Values(name) {
			s.ResponseHeader.Add(name, hide.Clean(value, redacted))
		}
	}
	s.ResponseBody = redactJSON(body, hide, onlyKnown)
}

const contentForm = "application/x-www-form-urlencoded"

// nameOf returns the name of the step for a request.
func nameOf(req *http.Request, body string) string {
	form, err := url.ParseQuery(body)
	switch isForm := req.Header.Get("Content-Type") == contentForm && err == nil; {
	case isForm && form.Has("token"):
		return stepRevocation
	case isForm:
		return stepToken
	case req.Method == http.MethodPost && strings.Contains(req.Header.Get("Accept"), "text/event-stream"):
		return stepChallenge
	case req.Method == http.MethodPost:
		return stepRegistration
	case strings.Contains(req.URL.Path, "/.well-known/oauth-authorization-server"),
		strings.Contains(req.URL.Path, "/.well-known/openid-configuration"):
		return stepServer
	}
	return stepResource
}

// Interaction returns an Interaction that also records the step "authorization".
func (r *Recorder) Interaction(i oauth.Interaction) oauth.Interaction { return &interaction{r, i} }

type interaction struct {
	recorder *Recorder
	next     oauth.Interaction
}

// Begin implements oauth.Interaction.
func (i *interaction) Begin(ctx context.Context, previous string) (oauth.Flow, error) {
	f, err := i.next.Begin(ctx, previous)
	if err != nil {
		return nil, err
	}
	return &flow{f, i.recorder}, nil
}

type flow struct {
	oauth.Flow
	recorder *Recorder
}

// Authorize implements oauth.Flow.
func (f *flow) Authorize(ctx context.Context, page string) (redirect string, err error) {
	start := time.Now()
	redirect, err = f.Flow.Authorize(ctx, page)
	f.recorder.authorized(page, f.RedirectURI(), redirect, err, start)
	return redirect, err
}

// authorized records an authorization page and the redirect from it.
func (r *Recorder) authorized(page, redirectURI, redirect string, err error, start time.Time) {
	address, sent := redactURL(page, func(name string) bool { return name == "state" })
	step := Step{Name: stepAuthorization, Method: http.MethodGet, URL: address, Duration: time.Since(start), Err: err}
	if err == nil {
		known := []string{"error", "error_description"}
		query := redirect[strings.IndexByte(redirect, '?')+1:] // redirect may be the query itself
		query, _, _ = strings.Cut(query, "#")
		// contains no user information
		if values, err := url.ParseQuery(query); err == nil && !strings.Contains(values.Get("iss"), "@") {
			known = append(known, "iss")
		}
		query, received := secrets.RedactForm(query, redacted,
			func(name string) bool { return !slices.Contains(known, name) })
		hide := r.known.With(secrets.Set{Sent: append(sent, received...)})
		step.ResponseHeader = http.Header{"Location": {redirectURI + "?" + hide.Clean(query, redacted)}}
	}
	r.Record(step)
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
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String() + query, values
}

// redactJSON returns a JSON text without secrets. If onlyKnown is true, it also redacts strings that are not values of
// tracedMembers. It returns nil if the text is not one JSON value.
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

// replaceStrings returns a JSON text with its strings replaced. replace receives the key that a string belongs to, or
// "" if the string is itself a key. replaceStrings returns nil if the text is not a single JSON value.
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
			if kind, length := in.StackIndex(in.StackDepth()); kind == '{' && length%2 == 1 { // a key
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
