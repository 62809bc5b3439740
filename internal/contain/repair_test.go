package contain_test

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/internal/contain"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
)

func TestBinaryDataIsDecodedInEveryNotationOfBase64(t *testing.T) {
	for text, want := range map[string]string{
		`-_8=`: "+/8=", `-_8`: "+/8=", `+/8`: "+/8=", `-\u002f8=`: "+/8=", `+/\r\n8=\r\n`: "+/8=", ` +/8= `: "+/8=",
		`data:image/png;base64,+/8=`: "+/8=", `data:;base64,-_8`: "+/8=", `Y`: "", `Y===`: "",
		`YQ=`: "YQ==", `Y=Q=`: "", `!!!`: "", `data:image/png,YQ==`: "", `data:image/png;base64`: "",
		`data:text/plain;base64,a,b`: "", `Y\u0000Q`: "", `YQ==YQ==`: "", `YQ======`: "", `Y\ufffdQ`: "",
	} {
		var read mcp.ReadResourceResult
		var called mcp.CallToolResult
		var blob, data []byte
		if _, _, err := contain.Decode(json.RawMessage(`{"contents":[{"uri":"a:b","blob":"`+text+`"}]}`),
			&read); err == nil && len(read.Contents) == 1 {
			blob = read.Contents[0].Blob
		}
		if _, _, err := contain.Decode(json.RawMessage(`{"content":[{"type":"image","mimeType":"a/b","data":"`+text+
			`"}]}`), &called); err == nil && len(called.Content) == 1 {
			data = called.Content[0].(*mcp.ImageContent).Data
		}
		for _, got := range [][]byte{blob, data} {
			must.CheckEqual(t, base64.StdEncoding.EncodeToString(got), want, text)
		}
	}
}

func TestMalformedIsErrorIsAFailure(t *testing.T) {
	var r mcp.CallToolResult
	_, faults, err := contain.Decode(json.RawMessage(`{"content":[{"type":"tool_result","toolUseId":"a","content":[],`+
		`"isError":"no"}],"isError":7}`), &r)
	must.CheckThat(t, err == nil && faults != nil && r.IsError && len(r.Content) == 1 &&
		r.Content[0].(*mcp.ToolResultContent).IsError, "%+v, %v", r, err)
}

// A value that other parts depend on is not left out.
func TestWhatDecidesStaysStrict(t *testing.T) {
	for raw, into := range map[string]any{
		`{"tools":[],"nextCursor":7}`:               new(mcp.ListToolsResult),
		`{"tools":7}`:                               new(mcp.ListToolsResult),
		`{"tools":{"a":{"name":"a"}}}`:              new(mcp.ListToolsResult),
		`{"tools":[],"resultType":7}`:               new(mcp.ListToolsResult),
		`{"content":[],"resultType":{}}`:            new(mcp.CallToolResult),
		`{"contents":"text"}`:                       new(mcp.ReadResourceResult),
		`{"completion":7}`:                          new(mcp.CompleteResult),
		`{"messages":7}`:                            new(mcp.GetPromptResult),
		`{"protocolVersion":7,"capabilities":{}}`:   new(mcp.InitializeResult),
		`{"supportedVersions":7,"capabilities":{}}`: new(mcp.DiscoverResult),
	} {
		kept, _, err := contain.Decode(json.RawMessage(raw), into)
		must.CheckThat(t, err != nil, "%s becomes %s", raw, kept)
	}
}

// After 1,000 faults, an entry with another fault is left out as a whole. Other
// entries are kept.
func TestTheWorkOfRepairsIsBounded(t *testing.T) {
	entry := `{"name":"a","title":7,"annotations":{"title":7,"readOnlyHint":7},"icons":[7,{"src":7}],"_meta":[],` +
		`"inputSchema":{}},`
	raw := json.RawMessage(`{"tools":[` + strings.Repeat(entry, 2000) + `{"name":"b","inputSchema":{}}]}`)
	var r mcp.ListToolsResult
	_, _, err := contain.Decode(raw, &r)
	must.CheckThat(t, err == nil && len(r.Tools) >= 100 && len(r.Tools) <= 1000 && r.Tools[0].Name == "a" &&
		r.Tools[len(r.Tools)-1].Name == "b", "%d tools, %v", len(r.Tools), err)
}
