package traffic

import (
	"net/http"
	"strings"
	"testing"
)

// recorded returns the event that a recording of e has.
func recorded(t *testing.T, o WriterOptions, e Event) Event {
	t.Helper()
	_, entries, err := ReadAll(strings.NewReader(write(t, o, e)))
	if err != nil {
		t.Fatal(err)
	}
	return entries[0].Event
}

func TestSecretsInMessagesAreRedacted(t *testing.T) {
	for message, want := range map[string]string{
		`{"jsonrpc":"2.0","method":"tools/call","params":{"arguments":{"password": "p\"\\" , "x":[{"api_key":12}]},` +
			`"_meta":{"progressToken":"t"}}}`: `{"jsonrpc":"2.0","method":"tools/call",` +
			`"params":{"arguments":{"password": "redacted-1" , "x":[{"api_key":"redacted-2"}]},` +
			`"_meta":{"progressToken":"t"}}}`,
		`{"jsonrpc":"2.0","id":1,"result":{"content":{"accessToken":"a","note":"token"}}}`: `{"jsonrpc":"2.0","id":1,"result":{"content":{"accessToken":"redacted-1","note":"token"}}}`,
		`[{"jsonrpc":"2.0","params":{"arguments":{"secret":"a"}}}]`:                        `[{"jsonrpc":"2.0","params":{"arguments":{"secret":"redacted-1"}}}]`,
		`{"jsonrpc":"2.0","params":{"inputResponses":{"a":{"content":{"pin":1234,` +
			`"pwd":1234}}}}}`: `{"jsonrpc":"2.0","params":{"inputResponses":{"a":{"content":{"pin":"redacted-1",` +
			`"pwd":"redacted-1"}}}}}`,
		`{"access_token":"a","token_type":"Bearer","expires_in":3600,"refresh_token":"r"}`: `{"access_token":"redacted-1","token_type":"Bearer","expires_in":3600,"refresh_token":"redacted-2"}`,
		`{"jsonrpc":"2.0","id":1,"result":{"tools":[{"inputSchema":{"properties":{"password":{"type":"string"}}}}],` +
			`"nextCursor":"c","token":"x"}}`: ``,
		`{"jsonrpc":"2.0","method":"tools/call","params":{"arguments":{"tokens":5,"maxTokens":5,"key":"k",` +
			`"monkey":"m","progressToken":1}}}`: ``,
		`password=x`: ``,
	} {
		if want == "" {
			want = message
		}
		if got := string(recorded(t, WriterOptions{}, Event{From: Client, Wire: Stdio,
			Message: []byte(message)}).Message); got != want {
			t.Errorf("recorded %s\nwant     %s", got, want)
		}
		if got := string(recorded(t, WriterOptions{KeepSecrets: true},
			Event{From: Client, Wire: Stdio, Message: []byte(message)}).Message); got != message {
			t.Errorf("with secrets: recorded %s\nwant     %s", got, message)
		}
	}
}

func TestSecretsInHTTPAreRedacted(t *testing.T) {
	e := Event{From: Client, Wire: HTTP, Exchange: 1, Request: &Request{"POST",
		"https://u:p@h/token?code=a%20b&x=1#access_token=t", http.Header{
			"Authorization": {"Bearer s3cret"}, "Cookie": {"a=b"}, "Mcp-Session-Id": {"s"}, "X-Api-Key": {"k"},
			"Mcp-Name": {"password"}, "Content-Type": {"application/x-www-form-urlencoded"},
		}}, Message: []byte("grant_type=authorization_code&code=a+b&client_id=c&code_verifier=v")}
	got := recorded(t, WriterOptions{}, e)
	for name, value := range map[string]string{
		"Authorization": "Bearer redacted-", "Cookie": "redacted-", "Mcp-Session-Id": "redacted-",
		"X-Api-Key": "redacted-", "Mcp-Name": "password", "Content-Type": "application/x-www-form-urlencoded",
	} {
		if !strings.HasPrefix(got.Request.Header.Get(name), value) {
			t.Errorf("%s: %s, want %s…", name, got.Request.Header.Get(name), value)
		}
	}
	if want := "https://redacted-1@h/token?code=redacted-2&x=1#access_token=redacted-3"; got.Request.URL != want {
		t.Errorf("URL %s, want %s", got.Request.URL, want)
	}
	if form := string(got.Message); !strings.HasPrefix(form,
		"grant_type=authorization_code&code=redacted-2&client_id=c&code_verifier=redacted-") {
		t.Error(form)
	}
	if strings.Contains(e.Request.URL, "redacted") || e.Request.Header.Get("Cookie") != "a=b" {
		t.Error("the event of the caller has changed")
	}
}

// The endpoint of HTTP+SSE has the session in its URL.
func TestASessionHasOneReplacement(t *testing.T) {
	text := write(t, WriterOptions{},
		Event{From: Server, Wire: HTTP, Exchange: 1, Stream: &StreamPart{Name: "endpoint"},
			Message: []byte("/messages?sessionId=abc")},
		Event{From: Client, Wire: HTTP, Exchange: 2, Request: &Request{"POST", "http://h/messages?sessionId=abc",
			http.Header{"Mcp-Session-Id": {"abc"}}}},
	)
	if strings.Contains(text, "abc") || strings.Count(text, "redacted-1") != 3 {
		t.Error(text)
	}
}

func TestSecretNamesAreRecognised(t *testing.T) {
	for name, want := range map[string]bool{
		"password": true, "userPassword": true, "DB_PASSWORD": true, "client-secret": true, "apiKey": true,
		"APIKey": true, "api_key": true, "apikey": true,
		"X-Auth-Token": true, "githubToken": true, "privateKey": true, "otp": true, "authorization": true,
		"": false, "key": false, "keyboard": false, "token_type": false, "progressToken": false, "tokens": false,
		"secretary": false, "Mcp-Protocol-Version": false, "author": false,
	} {
		if got := isSecretName(name); got != want {
			t.Errorf("%q: %v, want %v", name, got, want)
		}
	}
}
