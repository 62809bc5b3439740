package recording

import (
	"crypto/sha256"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mcp/parley/cmd/parley/internal/program/secretname"
)

// maxSecrets is the number of secrets that a redactor tells apart.
const maxSecrets = 10_000

// redactor replaces secrets. Equal secrets have equal replacements, such as "redacted-1", so that the messages of
// a session can still be recognised. It is safe for concurrent use.
type redactor struct {
	headers func() []string // the names of further headers with secrets; may be nil

	mu      sync.Mutex
	numbers map[[sha256.Size]byte]int
}

func newRedactor(headers func() []string) *redactor {
	return &redactor{headers: headers, numbers: make(map[[sha256.Size]byte]int)}
}

// replacement returns the replacement of a secret.
func (r *redactor) replacement(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.numbers[sum]
	if n == 0 {
		if len(r.numbers) == maxSecrets {
			return "redacted"
		}
		n = len(r.numbers) + 1
		r.numbers[sum] = n
	}
	return fmt.Sprintf("redacted-%d", n)
}

// event replaces the secrets of an event. It changes nothing that e refers to.
func (r *redactor) event(e *Event) {
	var header http.Header
	if e.Request != nil {
		e.Request = &Request{Method: e.Request.Method, URL: r.url(e.Request.URL), Header: r.header(e.Request.Header)}
		header = e.Request.Header
	}
	if e.Response != nil {
		e.Response = &Response{Status: e.Response.Status, Header: r.header(e.Response.Header)}
		header = e.Response.Header
	}
	media, _, _ := mime.ParseMediaType(header.Get("Content-Type"))
	switch {
	case len(e.Message) == 0:
	case media == "application/x-www-form-urlencoded":
		e.Message = []byte(r.query(string(e.Message)))
	case e.Stream != nil && e.Stream.Name == "endpoint":
		e.Message = []byte(r.url(string(e.Message)))
	default:
		e.Message = r.message(e.Message)
	}
}

// header returns a copy of a header without secrets.
func (r *redactor) header(header http.Header) http.Header {
	if header == nil {
		return nil
	}
	out := make(http.Header, len(header))
	for name, values := range header {
		values = slices.Clone(values)
		for i, value := range values {
			values[i] = r.headerValue(http.CanonicalHeaderKey(name), value)
		}
		out[name] = values
	}
	return out
}

func (r *redactor) headerValue(name, value string) string {
	switch name {
	case "Authorization", "Proxy-Authorization":
		if scheme, rest, ok := strings.Cut(value, " "); ok {
			return scheme + " " + r.replacement(rest)
		}
		return r.replacement(value)
	case "Mcp-Session-Id":
		return r.replacement(value)
	case "Location", "Referer":
		return r.url(value)
	}
	var further []string
	if r.headers != nil {
		further = r.headers()
	}
	if secretname.IsHeader(name, further) {
		return r.replacement(value)
	}
	return value
}

// url replaces the password and secret parameters of a URL or of a reference. The rest is unchanged.
func (r *redactor) url(text string) string {
	if scheme, rest, ok := strings.Cut(text, "://"); ok {
		authority, path := rest, ""
		if i := strings.IndexAny(rest, "/?#"); i >= 0 {
			authority, path = rest[:i], rest[i:]
		}
		if i := strings.LastIndexByte(authority, '@'); i >= 0 {
			text = scheme + "://" + r.replacement(authority[:i]) + authority[i:] + path
		}
	}
	base, fragment, hasFragment := strings.Cut(text, "#")
	path, query, ok := strings.Cut(base, "?")
	if ok {
		base = path + "?" + r.query(query)
	}
	if hasFragment {
		base += "#" + r.query(fragment)
	}
	return base
}

// query replaces the values of secret parameters.
func (r *redactor) query(query string) string {
	parameters := strings.Split(query, "&")
	for i, p := range parameters {
		escaped, value, ok := strings.Cut(p, "=")
		name, err := url.QueryUnescape(escaped)
		if ok && value != "" && (err != nil || isSecretParameter(name)) {
			if plain, err := url.QueryUnescape(value); err == nil {
				value = plain
			}
			parameters[i] = escaped + "=" + r.replacement(value)
		}
	}
	return strings.Join(parameters, "&")
}

// oauthSecrets are the parameters of OAuth and of sessions whose names do not say that they are secret.
var oauthSecrets = []string{"code", "codeverifier", "assertion", "clientassertion", "state", "nonce", "sessionid",
	"session", "sig", "signature", "key", "auth", "jwt"}

// isSecretParameter reports whether a parameter of a URL or form is secret.
func isSecretParameter(name string) bool {
	return secretname.IsSetting(name) || slices.Contains(oauthSecrets, strings.Join(secretname.Words(name), ""))
}

// message replaces the secrets in a message, and keeps all other bytes. In a message of MCP these are the members
// with secret names in arguments of tools and prompts, and in answers of users. In other JSON, such as a response
// of an authorization server, these are all members with secret names. Text that is not JSON has none.
func (r *redactor) message(message []byte) []byte {
	isMCP := IsMessage(message)
	return Edit(message, func(place jsontext.Pointer, value string) ([]byte, bool) {
		if !isSecretMember(place.LastToken(), isMCP) || isMCP && !mayHaveSecrets(place) {
			return nil, false
		}
		return []byte(`"` + r.replacement(value) + `"`), true
	})
}

func isSecretMember(name string, isMCP bool) bool {
	return secretname.IsField(name) || !isMCP &&
		slices.Contains([]string{"code_verifier", "device_code", "user_code", "assertion", "client_assertion",
			"registration_access_token"}, name)
}

// IsMessage reports whether a text is a message of JSON-RPC, or a batch.
func IsMessage(text []byte) bool {
	d := jsontext.NewDecoder(strings.NewReader(string(text)), jsontext.AllowDuplicateNames(true),
		jsontext.AllowInvalidUTF8(true))
	for {
		token, err := d.ReadToken()
		if err != nil {
			return false
		}
		if depth := d.StackDepth(); depth <= 2 && token.Kind() == '"' && token.String() == "jsonrpc" {
			return true
		}
	}
}

// mayHaveSecrets reports whether a place in a message is in the arguments of a request or in the answer of a user.
func mayHaveSecrets(place jsontext.Pointer) bool {
	names := slices.Collect(place.Tokens())
	if len(names) > 0 && strings.Trim(names[0], "0123456789") == "" { // of a batch
		names = names[1:]
	}
	if len(names) < 3 {
		return false
	}
	switch names[0] + "/" + names[1] {
	case "params/arguments", "params/inputResponses", "result/content":
		return true
	}
	return false
}

// Edit replaces strings and numbers in JSON text, and keeps all other bytes. It calls edit for each with its place and
// its value: a string without quotation marks and escapes, or a number as it is spelled. The replacement is JSON. Edit
// returns text itself if nothing is replaced. In text that is not JSON, it replaces nothing after the first error.
func Edit(text []byte, edit func(place jsontext.Pointer, value string) (replacement []byte, ok bool)) []byte {
	d := jsontext.NewDecoder(strings.NewReader(string(text)), jsontext.AllowDuplicateNames(true),
		jsontext.AllowInvalidUTF8(true))
	var out []byte
	copied := 0
	for {
		parent, length := d.StackIndex(d.StackDepth())
		kind := d.PeekKind()
		if parent == '{' && length%2 == 0 || kind != '"' && kind != '0' { // the name of a member, or no text or number
			if _, err := d.ReadToken(); err != nil {
				break // the end
			}
			continue
		}
		raw, err := d.ReadValue()
		if err != nil {
			break
		}
		end, value := int(d.InputOffset()), []byte(raw)
		if kind == '"' {
			value, _ = jsontext.AppendUnquote(nil, raw) // invalid UTF-8 is replaced
		}
		if replacement, ok := edit(d.StackPointer(), string(value)); ok {
			out = append(append(out, text[copied:end-len(raw)]...), replacement...)
			copied = end
		}
	}
	if copied == 0 {
		return text
	}
	return append(out, text[copied:]...)
}
