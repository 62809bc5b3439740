package loginsteps

import (
	"mime"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Hidden replaces credentials.
const Hidden = "[hidden]"

// secretHeaders are the names of headers with credentials.
var secretHeaders = []string{"Authorization", "Proxy-Authorization", "Cookie", "Set-Cookie", "DPoP"}

// secretMembers are the names of parameters and of JSON members with credentials. The code, the state and the verifier
// are used once, but a failed exchange may leave them valid.
var secretMembers = map[string]bool{
	"access_token": true, "refresh_token": true, "id_token": true, "client_secret": true, "registration_access_token": true,
	"code": true, "code_verifier": true, "state": true, "assertion": true, "client_assertion": true, "subject_token": true, "actor_token": true,
	"password": true, "device_code": true, "token": true,
}

func redactHeader(header http.Header) http.Header {
	kept := header.Clone()
	for _, name := range secretHeaders {
		if key := textproto.CanonicalMIMEHeaderKey(name); kept[key] != nil {
			kept[key] = []string{Hidden}
		}
	}
	return kept
}

// withoutSecrets returns the text of a URL.
func withoutSecrets(u *url.URL) string {
	shown := *u
	shown.User = nil
	shown.RawQuery = redactForm(u.RawQuery)
	return shown.String()
}

// redactBody returns the text of a body. It returns nothing of a body of another type than JSON, a form or text.
func redactBody(contentType string, body []byte) string {
	if len(body) == 0 {
		return ""
	}
	media, _, _ := mime.ParseMediaType(contentType)
	switch {
	case media == "application/x-www-form-urlencoded":
		return redactForm(string(body))
	case media == "application/json" || strings.HasSuffix(media, "+json"):
		return redactJSON(body)
	case strings.HasPrefix(media, "text/"):
		return strings.ToValidUTF8(string(body), "�")
	}
	return "(" + media + ")"
}

// redactForm hides parameters. Their order stays.
func redactForm(form string) string {
	var kept []string
	for pair := range strings.SplitSeq(form, "&") {
		name, value, _ := strings.Cut(pair, "=")
		if key, err := url.QueryUnescape(name); err != nil || secretMembers[key] {
			value = Hidden
		}
		if pair != "" {
			kept = append(kept, name+"="+value)
		}
	}
	return strings.Join(kept, "&")
}

// redactJSON hides members of an object and its members.
func redactJSON(body []byte) string {
	var value any
	if err := json.Unmarshal(body, &value); err != nil {
		return "(JSON that cannot be parsed)" // it may have secrets
	}
	raw, err := json.Marshal(hideMembers(value), jsontext.WithIndent("  "), json.Deterministic(true))
	if err != nil {
		return "(JSON that cannot be encoded)"
	}
	return string(raw)
}

func hideMembers(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for name, member := range v {
			if secretMembers[name] {
				v[name] = Hidden
			} else {
				v[name] = hideMembers(member)
			}
		}
	case []any:
		for i := range v {
			v[i] = hideMembers(v[i])
		}
	}
	return value
}

// grantOf returns the grant type of a token request.
func grantOf(form []byte) string {
	values, err := url.ParseQuery(string(form))
	if err != nil {
		return ""
	}
	return values.Get("grant_type")
}
