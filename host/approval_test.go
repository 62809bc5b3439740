package host_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/host"
)

func TestQuestionShowsAllMembersOfArgumentsWithMuchWhiteSpace(t *testing.T) {
	space := strings.Repeat(" ", 8<<10)
	for arguments, want := range map[string]string{
		`{"text":"x",` + space + `"path":"/etc"}`: `{"path":"/etc","text":"x"}`,
		`{"b":1,"a":9007199254740993}`:            `{"a":9007199254740993,"b":1}`,
		`{"a":"x\u202ey"}`:                        `{"a":"x<U+202E>y"}`,
	} {
		a := host.Approval{Request: &host.Request{Kind: host.KindTool, Name: "write", Server: "up", Arguments: json.RawMessage(arguments)}}
		if got := a.Question(); got != "Allow the tool \"write\" of the server \"up\"?\n\nArguments: "+want {
			t.Errorf("%.40s: %q", arguments, got)
		}
	}
}

// A question shortens values, and leaves no member and no element out.
func TestQuestionShowsAllMembersOfLongArguments(t *testing.T) {
	var many []string
	for i := range 500 {
		many = append(many, fmt.Sprintf(`"m%03d":1`, i))
	}
	long := strings.Repeat("x", 8<<10)
	for arguments, want := range map[string]string{
		`{"a":"` + long + `","b":{"c":[1,"` + long + `é",true,null,{}],"d":[]},"z":"rm -rf /"}`: `{"a":"` + long[:512] + `" … 8192 bytes … "` + long[:512] +
			`","b":{"c":[1,"` + long[:512] + `" … 8194 bytes … "` + long[:510] + `é",true,null,{}],"d":[]},"z":"rm -rf /"}`,
		`{"` + long + `":1,"n":` + strings.Repeat("1", 5000) + `,"z":"\u202e"}`: `{"n":` + strings.Repeat("1", 512) + ` … 5000 bytes … ` + strings.Repeat("1", 512) +
			`,"` + long[:512] + `" … 8192 bytes … "` + long[:512] + `":1,"z":"<U+202E>"}`,
		`{` + strings.Join(many, ",") + `,"n":"` + long + `"}`: `{` + strings.Join(many, ",") + `,"n":"xxxxxxxx" … 8192 bytes … "xxxxxxxx"}`,
	} {
		a := host.Approval{Request: &host.Request{Kind: host.KindTool, Arguments: json.RawMessage(arguments)}}
		if _, got, _ := strings.Cut(a.Question(), "Arguments: "); got != want {
			t.Errorf("the question has %d bytes: %s", len(got), got)
		}
	}
}
