// Package loginsteps records the HTTP exchanges of a login: each request for metadata, registration and tokens, with its
// response, and without secrets.
package loginsteps

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/parley-mcp/parley/internal/httpurl"
)

// maxBody limits the recorded part of a body, in bytes.
const maxBody = 64 << 10

// Step is one exchange of a login. Credentials are replaced by [Hidden].
type Step struct {
	Number         int         `json:"number"` // 1 for the first one
	Purpose        string      `json:"purpose"`
	Reference      string      `json:"reference,omitempty"` // the specification of the request
	Time           time.Time   `json:"time"`
	Millis         float64     `json:"millis,omitempty"` // from the request to the end of the response; 0 before it
	Method         string      `json:"method"`
	URL            string      `json:"url"`
	RequestHeader  http.Header `json:"requestHeader,omitempty"`
	RequestBody    string      `json:"requestBody,omitempty"`
	Status         int         `json:"status,omitempty"` // 0 without a response
	ResponseHeader http.Header `json:"responseHeader,omitempty"`
	ResponseBody   string      `json:"responseBody,omitempty"`
	Error          string      `json:"error,omitempty"` // why there is no response
}

// Recorder records the exchanges of a login. Its fields must not change after the first exchange.
type Recorder struct {
	// Step is called when an exchange starts, and again with the same number when it ends. Calls may be concurrent.
	Step func(Step)
	// Now returns the time; nil means time.Now.
	Now func() time.Time

	mu   sync.Mutex
	last int
}

// Wrap returns a transport that records the exchanges of next.
func (r *Recorder) Wrap(next http.RoundTripper) http.RoundTripper { return &transport{r, next} }

func (r *Recorder) now() time.Time {
	if r.Now != nil {
		return r.Now()
	}
	return time.Now()
}

func (r *Recorder) number() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	return r.last
}

type transport struct {
	recorder *Recorder
	next     http.RoundTripper
}

// RoundTrip implements http.RoundTripper. It reads the whole response, which is small in a login.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	var body []byte
	if req.Body != nil {
		var err error
		if body, err = io.ReadAll(req.Body); err != nil {
			_ = req.Body.Close()
			return nil, err
		}
		if err := req.Body.Close(); err != nil {
			return nil, err
		}
		req = req.Clone(req.Context())
		req.Body = io.NopCloser(bytes.NewReader(body))
	}
	step := Step{
		Number: t.recorder.number(), Time: t.recorder.now(), Method: req.Method, URL: withoutSecrets(req.URL),
		RequestHeader: redactHeader(req.Header), RequestBody: redactBody(req.Header.Get("Content-Type"), body),
	}
	step.Purpose, step.Reference = purposeOf(req, body)
	t.recorder.Step(step)
	resp, err := t.next.RoundTrip(req)
	if err == nil {
		step.Status, step.ResponseHeader = resp.StatusCode, redactHeader(resp.Header)
		var text []byte
		// The caller has a limit that is larger, and reads the rest from the connection.
		text, err = io.ReadAll(io.LimitReader(resp.Body, maxBody))
		step.ResponseBody = redactBody(resp.Header.Get("Content-Type"), text)
		resp.Body = &replayed{io.MultiReader(bytes.NewReader(text), &failing{resp.Body, err}), resp.Body}
	}
	if err != nil {
		step.Error = httpurl.Redact(err).Error()
	}
	step.Millis = float64(t.recorder.now().Sub(step.Time).Microseconds()) / 1000
	t.recorder.Step(step)
	if resp != nil {
		return resp, nil
	}
	return nil, err
}

// replayed is a body whose beginning has been read.
type replayed struct {
	io.Reader
	io.Closer
}

// failing is the rest of a body. It returns the error of the beginning, if there was one.
type failing struct {
	rest io.Reader
	err  error
}

// Read implements io.Reader.
func (f *failing) Read(p []byte) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	return f.rest.Read(p)
}

// purposeOf returns the purpose of a request, and the specification that describes it.
func purposeOf(req *http.Request, body []byte) (purpose, reference string) {
	path := req.URL.Path
	form := strings.HasPrefix(req.Header.Get("Content-Type"), "application/x-www-form-urlencoded")
	switch {
	case strings.Contains(path, "/.well-known/oauth-protected-resource"):
		return "Get the metadata of the MCP server", "RFC 9728"
	case strings.Contains(path, "/.well-known/oauth-authorization-server"):
		return "Get the metadata of the authorization server", "RFC 8414"
	case strings.Contains(path, "/.well-known/openid-configuration"):
		return "Get the metadata of the authorization server", "OpenID Connect Discovery"
	case form && grantOf(body) == "authorization_code":
		return "Exchange the authorization code for tokens", "RFC 6749, section 4.1.3"
	case form && grantOf(body) == "refresh_token":
		return "Renew the access token", "RFC 6749, section 6"
	case form && grantOf(body) != "":
		return "Request an access token", "RFC 6749, section 4"
	case req.Method == http.MethodPost && bytes.Contains(body, []byte(`"redirect_uris"`)):
		return "Register parley as a client", "RFC 7591"
	case req.Method == http.MethodPost && bytes.Contains(body, []byte(`"jsonrpc"`)):
		return "Ask the MCP server which authorization it requires", "RFC 6750, section 3"
	case form:
		return "Send a form to the authorization server", ""
	}
	return "Ask the MCP server which authorization it requires", "RFC 6750, section 3"
}
