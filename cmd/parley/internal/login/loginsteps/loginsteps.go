// Package loginsteps describes the steps of a login to the user: each request for metadata, registration and tokens,
// with its purpose, its response, and the specification. Package trace has removed the secrets.
package loginsteps

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/parley-mcp/parley/auth/oauth/trace"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/schema"
)

// Step is one step of a login, as JSON.
type Step struct {
	Number         int         `json:"number"` // 1 for the first one
	Purpose        string      `json:"purpose"`
	Reference      string      `json:"reference,omitempty"` // the specification of the request
	Time           time.Time   `json:"time"`                // of the request
	Millis         float64     `json:"millis,omitempty"`    // from the request to the end of the response
	Method         string      `json:"method"`
	URL            string      `json:"url"`
	RequestHeader  http.Header `json:"requestHeader,omitempty"`
	RequestBody    string      `json:"requestBody,omitempty"`
	Status         int         `json:"status,omitempty"` // 0 without a response
	ResponseHeader http.Header `json:"responseHeader,omitempty"`
	ResponseBody   string      `json:"responseBody,omitempty"`
	Error          string      `json:"error,omitempty"` // why there is no response
	Note           string      `json:"note,omitempty"`  // how it deviates from the specification
}

// New returns a step that has ended now.
func New(number int, s trace.Step) Step {
	step := Step{
		Number: number, Time: time.Now().Add(-s.Duration), Millis: float64(s.Duration.Microseconds()) / 1000,
		Method: s.Method, URL: s.URL, RequestHeader: s.RequestHeader, RequestBody: string(s.RequestBody),
		Status: s.Status, ResponseHeader: s.ResponseHeader, ResponseBody: string(s.ResponseBody),
	}
	if s.Err != nil {
		step.Error = s.Err.Error()
	}
	step.Purpose, step.Reference = purposeOf(s)
	step.Note = noteOf(s)
	return step
}

// noteOf returns how a step deviates from the specification, as the settings of a login allow; see oauth.Client.
func noteOf(s trace.Step) string {
	parameters, _ := url.ParseQuery(string(s.RequestBody)) // parley has written it
	if at, err := url.Parse(s.URL); err == nil && s.Name == "authorization" {
		parameters = at.Query()
	}
	var metadata struct {
		Methods []string `json:"code_challenge_methods_supported"`
	}
	switch {
	case (s.Name == "authorization" || s.Name == "token") && !parameters.Has("resource"):
		return "The request has no parameter resource: --no-resource leaves it out, or the server has no metadata."
	case s.Name == "authorization server metadata" && s.Status == http.StatusOK &&
		schema.Decode(s.ResponseBody, &metadata) == nil && !slices.Contains(metadata.Methods, "S256"):
		return "The metadata does not list S256 in code_challenge_methods_supported; --assume-pkce logs in " +
			"all the same."
	}
	return ""
}

// purposeOf returns the purpose of a step, and the specification that describes it.
func purposeOf(s trace.Step) (purpose, reference string) {
	switch s.Name {
	case "challenge":
		return "Ask the MCP server which authorization it requires", "RFC 6750, section 3"
	case "resource metadata":
		return "Get the metadata of the MCP server", "RFC 9728"
	case "authorization server metadata":
		if strings.Contains(s.URL, "/.well-known/openid-configuration") {
			return "Get the metadata of the authorization server", "OpenID Connect Discovery"
		}
		return "Get the metadata of the authorization server", "RFC 8414"
	case "registration":
		return "Register parley as a client", "RFC 7591"
	case "authorization":
		return "Let the user log in and allow the access", "RFC 6749, section 4.1.1"
	case "revocation":
		return "Revoke a token", "RFC 7009"
	}
	form, _ := url.ParseQuery(string(s.RequestBody)) // parley has written it
	switch form.Get("grant_type") {
	case "authorization_code":
		return "Exchange the authorization code for tokens", "RFC 6749, section 4.1.3"
	case "refresh_token":
		return "Renew the access token", "RFC 6749, section 6"
	}
	return "Request an access token", "RFC 6749, section 4"
}

// Print prints a step for people: its purpose, the request, and the response or the error.
func Print(w io.Writer, s Step) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%d. %s (%s)\n   %s %s\n", s.Number, s.Purpose, s.Reference, s.Method, terminal.Line(s.URL))
	writeHeader(&b, s.RequestHeader)
	writeBody(&b, s.RequestBody)
	took := terminal.Duration(time.Duration(s.Millis * float64(time.Millisecond)))
	switch {
	case s.Error != "":
		fmt.Fprintf(&b, "   No response after %v: %s\n", took, terminal.Line(s.Error))
	case s.Status == 0:
		fmt.Fprintf(&b, "   The browser returned after %v\n", took)
	default:
		fmt.Fprintf(&b, "   Response: %d %s, after %v\n", s.Status, http.StatusText(s.Status), took)
	}
	writeHeader(&b, s.ResponseHeader)
	writeBody(&b, s.ResponseBody)
	if s.Note != "" {
		fmt.Fprintf(&b, "   %s\n", s.Note)
	}
	_, err := io.WriteString(w, b.String()+"\n")
	return err
}

// writeHeader writes the fields of a header in alphabetical order.
func writeHeader(b *strings.Builder, header http.Header) {
	for _, name := range slices.Sorted(maps.Keys(header)) {
		for _, value := range header[name] {
			fmt.Fprintf(b, "   %s\n", terminal.Line(name+": "+value))
		}
	}
}

// writeBody writes JSON with indentation, and each parameter of a form on its own line.
func writeBody(b *strings.Builder, body string) {
	if body == "" {
		return
	}
	var indented bytes.Buffer
	text := strings.ReplaceAll(body, "&", "\n&")
	if json.Indent(&indented, []byte(body), "", "  ") == nil {
		text = terminal.JSON(indented.String())
	}
	for line := range strings.SplitSeq(text, "\n") {
		fmt.Fprintf(b, "      %s\n", terminal.Block(line))
	}
}
