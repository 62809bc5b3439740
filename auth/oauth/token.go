package oauth

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Ways to authenticate at a token endpoint.
const (
	methodNone       = "none"
	methodBasic      = "client_secret_basic"
	methodPost       = "client_secret_post"
	methodPrivateKey = "private_key_jwt"

	assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
)

// token is an access token and what belongs to it, as it is used and stored.
type token struct {
	Access  string    `json:"access_token"`
	Type    string    `json:"token_type"` // "Bearer" or "DPoP"
	Refresh string    `json:"refresh_token,omitzero"`
	Expires time.Time `json:"expires,omitzero"`
	Renew   time.Time `json:"renew,omitzero"` // from then on
	// Requested are the scopes that were asked for; Scopes are what was granted.
	Requested []string  `json:"requested,omitzero"`
	Scopes    []string  `json:"scopes,omitzero"`
	Proof     *proofKey `json:"proof_key,omitzero"` // of type DPoP
	// Client is whom it was issued to; nil: one that the program has.
	Client *client `json:"client,omitzero"`

	issued    time.Time // when it was granted to this process
	refreshed time.Time // or merely refreshed
	headers   []string  // the Authorization header
}

const (
	typeBearer = "Bearer"
	typeDPoP   = "DPoP"

	maxToken = 64 << 10 // bytes
)

// expiring reports whether a token ends so soon that it is better renewed first.
func (t *token) expiring(now time.Time) bool { return !t.Expires.IsZero() && !now.Before(t.Renew) }

// renewBefore is how long before its end a token is renewed, unless that is a tenth of
// how long it lasts.
const renewBefore = 10 * time.Second

func (t *token) expired(now time.Time) bool { return !t.Expires.IsZero() && !now.Before(t.Expires) }

// tokenRequest is one request at a token endpoint.
type tokenRequest struct {
	endpoint string
	issuer   string     // the audience of assertions; empty: the endpoint
	form     url.Values // without the client
	client   *client    // nil: none
	methods  []string   // that the server supports
	proof    *proofKey  // nil: bearer tokens
	send     func(*http.Request) (*reply, error)
}

// asked is what the form asks for, for the answer's sake.
func (r *tokenRequest) asked() []string { return strings.Fields(r.form.Get("scope")) }

// do asks for a token. Nonce is the one that the server has sent last, and is changed
// when it sends another; it then asks once more, as the server has done nothing yet.
func (r *tokenRequest) do(ctx context.Context, nonce *string) (*token, error) {
	for attempt := 0; ; attempt++ {
		reply, secrets, err := r.once(ctx, *nonce)
		if err != nil {
			return nil, err
		}
		if n := reply.header.Get(headerDPoPNonce); r.proof != nil && validNonce(n) {
			*nonce = n
		}
		if reply.status == http.StatusOK {
			return r.read(reply)
		}
		failed := reported("token", reply, secrets)
		if failed.Code != errDPoPNonce || r.proof == nil || attempt > 0 {
			return nil, failed
		}
	}
}

// secretParameters are those of a request that no error may repeat.
var secretParameters = []string{
	"client_secret", "client_assertion", "code", "code_verifier", "refresh_token", "assertion", "subject_token",
}

func (r *tokenRequest) once(ctx context.Context, nonce string) (*reply, []string, error) {
	form := url.Values{}
	for name, values := range r.form {
		form[name] = values
	}
	var basic string
	if r.client != nil {
		var err error
		if basic, err = r.client.authenticate(form, r.methods, r.audience()); err != nil {
			return nil, nil, err
		}
	}
	var secrets []string
	for _, name := range secretParameters {
		secrets = append(secrets, form[name]...)
	}
	if basic != "" {
		secrets = append(secrets, basic, r.client.Secret)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.endpoint, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, nil, fmt.Errorf("%w: token endpoint", ErrInsecureURL)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if basic != "" {
		req.Header.Set("Authorization", "Basic "+basic)
	}
	if r.proof != nil {
		proof, err := r.proof.proof(http.MethodPost, req.URL, nonce, "")
		if err != nil {
			return nil, nil, err
		}
		req.Header.Set(headerDPoP, proof)
	}
	reply, err := r.send(req)
	return reply, secrets, err
}

func (r *tokenRequest) audience() string {
	if r.issuer != "" {
		return r.issuer
	}
	return r.endpoint
}

// authenticate adds who the client is to a form, or returns what goes into the header.
func (c *client) authenticate(form url.Values, supported []string, audience string) (basic string, err error) {
	method := c.Method
	if method == "" {
		method = c.chooseMethod(supported)
	}
	switch method {
	case methodBasic:
		// Both are encoded first (RFC 6749, section 2.3.1).
		return base64.StdEncoding.EncodeToString([]byte(url.QueryEscape(c.ID) + ":" + url.QueryEscape(c.Secret))), nil
	case methodPost:
		form.Set("client_id", c.ID)
		form.Set("client_secret", c.Secret)
	case methodPrivateKey:
		if c.key == nil {
			return "", fmt.Errorf("%w: the method is private_key_jwt and there is no key", ErrRegistration)
		}
		assertion, err := c.key.assertion(c.ID, audience)
		if err != nil {
			return "", err
		}
		form.Set("client_assertion_type", assertionType)
		form.Set("client_assertion", assertion)
	case methodNone:
		if c.ID != "" {
			form.Set("client_id", c.ID)
		}
	default:
		return "", fmt.Errorf("%w: a client cannot authenticate by %.64q here", ErrRegistration, method)
	}
	return "", nil
}

// chooseMethod takes the safest that the credentials allow and the server supports. A
// server that lists none supports client_secret_basic (RFC 8414, section 2).
func (c *client) chooseMethod(supported []string) string {
	switch {
	case c.key != nil:
		return methodPrivateKey
	case c.Secret == "":
		return methodNone
	case len(supported) == 0 || slices.Contains(supported, methodBasic):
		return methodBasic
	case slices.Contains(supported, methodPost):
		return methodPost
	case slices.Contains(supported, methodNone):
		return methodNone
	}
	return methodBasic
}

// read takes the token from a response (RFC 6749, section 5.1).
func (r *tokenRequest) read(reply *reply) (*token, error) {
	var answer struct {
		Access  string         `json:"access_token"`
		Type    string         `json:"token_type"`
		Expires jsontext.Value `json:"expires_in"`
		Refresh string         `json:"refresh_token"`
		Scope   *string        `json:"scope"`
	}
	if decode(reply.body, &answer) != nil || !validToken(answer.Access) || answer.Refresh != "" && !validToken(answer.Refresh) {
		return nil, fmt.Errorf("%w: of the token endpoint: there is no usable access_token in it", ErrInvalidResponse)
	}
	t := &token{Access: answer.Access, Refresh: answer.Refresh, Requested: r.asked(), Scopes: r.asked()}
	switch {
	case r.proof != nil && strings.EqualFold(answer.Type, typeDPoP):
		t.Type, t.Proof = typeDPoP, r.proof
	case r.proof == nil && strings.EqualFold(answer.Type, typeBearer):
		t.Type = typeBearer
	default: // which must not be used (RFC 6749, section 7.1)
		return nil, fmt.Errorf("%w: of the token endpoint: a token of type %.32q was not asked for", ErrInvalidResponse, answer.Type)
	}
	if answer.Scope != nil {
		t.Scopes = splitScopes(*answer.Scope)
	}
	if seconds, ok := readSeconds(answer.Expires); ok {
		t.Expires = time.Now().Add(seconds)
		t.Renew = t.Expires.Add(-min(renewBefore, seconds/10))
	}
	return t, nil
}

// readSeconds takes a number, also as a string, which some servers send.
func readSeconds(v jsontext.Value) (time.Duration, bool) {
	n, err := strconv.ParseFloat(strings.Trim(string(v), `"`), 64)
	if err != nil || !(n >= 0) {
		return 0, false
	}
	return time.Duration(min(n, maxLifetime.Seconds()) * float64(time.Second)), true
}

// validToken reports whether a token may go into a header.
func validToken(s string) bool {
	if s == "" || len(s) > maxToken {
		return false
	}
	for i := range len(s) {
		if s[i] < 0x21 || s[i] > 0x7E {
			return false
		}
	}
	return true
}

// reported reads the error in a response.
func reported(endpoint string, r *reply, secrets []string) *ServerError {
	var e struct {
		Code        string `json:"error"`
		Description string `json:"error_description"`
	}
	if decode(r.body, &e) != nil {
		e.Code, e.Description = "", ""
	}
	return newServerError(endpoint, r.status, e.Code, e.Description, secrets)
}

// isServerError reports whether an authorization server has refused with one of some
// codes.
func isServerError(err error, codes ...string) bool {
	var e *ServerError
	return errors.As(err, &e) && slices.Contains(codes, e.Code)
}
