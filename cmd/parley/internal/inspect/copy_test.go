package inspect

import (
	"go/format"
	"net/http"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/jsonrpc"
)

func parsed(t *testing.T, text string) *jsonrpc.Message {
	t.Helper()
	m, err := jsonrpc.Parse([]byte(text), jsonrpc.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return &m
}

func TestCopiesAsParleyAreCommandsOfAShell(t *testing.T) {
	for _, test := range []struct{ params, want string }{
		{`"method":"tools/call","params":{"name":"greet","arguments":{ "name": "Ada's" }}`, `parley call --json '{"name":"Ada'\''s"}' http://host/mcp greet`},
		{`"method":"tools/call","params":{"name":"greet","arguments":{}}`, `parley call http://host/mcp greet`},
		{`"method":"tools/call","params":{"name":"$(rm x)"}`, `parley call http://host/mcp '$(rm x)'`},
		{`"method":"tools/call","params":{"name":"--config=x","arguments":{"a":1}}`, `parley call --json '{"a":1}' http://host/mcp -- --config=x`},
		{`"method":"prompts/get","params":{"name":"card","arguments":{"b":"2 3","a":"1"}}`, `parley prompt http://host/mcp card a=1 'b=2 3'`},
		{`"method":"resources/read","params":{"uri":"demo://a?b=c&d"}`, `parley read http://host/mcp 'demo://a?b=c&d'`},
		{`"method":"tools/list"`, `parley ls http://host/mcp`},
		{`"method":"ping"`, `parley ping http://host/mcp`},
		{`"method":"tasks/get","params":{"taskId":"T1"}`, `parley task get http://host/mcp T1`},
	} {
		got, err := asParley(&Server{Words: []string{"http://host/mcp"}}, parsed(t, `{"jsonrpc":"2.0","id":1,`+test.params+`}`))
		if err != nil || got != test.want {
			t.Errorf("%s: %s, %v; want %s", test.params, got, err, test.want)
		}
	}
	for want, s := range map[string]*Server{
		`parley call greet -- npx 'my server'`:                        {Words: []string{"--", "npx", "my server"}},
		`parley call --config a.json --config 'b c.json' files greet`: {Words: []string{"files"}, Flags: []string{"--config", "a.json", "--config", "b c.json"}},
		`parley call --config a.json -- -files greet`:                 {Words: []string{"-files"}, Flags: []string{"--config", "a.json"}},
	} {
		got, err := asParley(s, parsed(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"greet"}}`))
		if err != nil || got != want {
			t.Errorf("%s, %v; want %s", got, err, want)
		}
	}
	if _, err := asParley(&Server{}, parsed(t, `{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{}}`)); err == nil {
		t.Error("there is a command for logging/setLevel")
	}
}

func TestCopiesAsCurlHaveNoCredentials(t *testing.T) {
	x := &exchange{Method: "POST", URL: "http://host/mcp", RequestHeader: http.Header{"Content-Type": {"application/json"}, "Authorization": {hidden}, "X-Api-Key": {hidden}, "X-`Id`": {hidden}}}
	got, err := asCurl([]byte(`{"a":"it's"}`), x)
	want := `curl -sS -X POST http://host/mcp \
  -H "Authorization: Bearer $TOKEN" \
  -H 'Content-Type: application/json' \
  -H "X-Api-Key: $X_API_KEY" \
  -H 'X-` + "`Id`: " + hidden + `' \
  --data-raw '{"a":"it'\''s"}'
`
	if err != nil || got != want {
		t.Errorf("%s, %v; want %s", got, err, want)
	}
	if _, err := asCurl(nil, nil); err == nil {
		t.Error("there is a command of curl for a message over stdio")
	}
}

func TestCopiesAsGoAreFormattedPrograms(t *testing.T) {
	for _, params := range []string{
		"\"method\":\"tools/call\",\"params\":{\"name\":\"greet\",\"arguments\":{\"name\":\"a`b\"}}", `"method":"tools/list"`, `"method":"prompts/list"`,
		`"method":"prompts/get","params":{"name":"card","arguments":{"a":"1"}}`, `"method":"resources/read","params":{"uri":"demo://a"}`,
		`"method":"resources/list"`, `"method":"resources/templates/list"`,
	} {
		for _, target := range []client.Target{client.URL("http://host/mcp"), client.Command("npx", "-y", `a"b`)} {
			got, err := asGo(target, parsed(t, `{"jsonrpc":"2.0","id":1,`+params+`}`))
			if err != nil {
				t.Errorf("%s: %v", params, err)
				continue
			}
			formatted, err := format.Source([]byte(got))
			if err != nil || string(formatted) != got {
				t.Errorf("%s: %v\n%s", params, err, got)
			}
		}
	}
}
