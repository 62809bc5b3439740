package host_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/host"
)

func TestQuestionShowsAllMembersOfArgumentsWithMuchWhiteSpace(t *testing.T) {
	space := strings.Repeat(" ", 8<<10)
	for arguments, want := range map[string]string{
		`{"text":"x",` + space + `"path":"/etc"}`: `{"path":"/etc","text":"x"}`,
		`{"b":1,"a":9007199254740993}`:            `{"a":9007199254740993,"b":1}`,
		`{"a":"x\u202ey"}`:                        "{\"a\":\"x\uFFFDy\"}",
	} {
		a := host.Approval{Request: &host.Request{Kind: host.KindTool, Name: "write", Server: "up", Arguments: json.RawMessage(arguments)}}
		if got := a.Question(); got != "Allow the tool \"write\" of the server \"up\"?\n\nArguments: "+want {
			t.Errorf("%.40s: %q", arguments, got)
		}
	}
	a := host.Approval{Request: &host.Request{Arguments: json.RawMessage(`{"a":"` + strings.Repeat("x", 8<<10) + `"}`)}}
	if got := a.Question(); len(got) > 5<<10 || !strings.HasSuffix(got, "… (8200 bytes in all)") {
		t.Errorf("the question has %d bytes and ends with %q", len(got), got[len(got)-40:])
	}
}
