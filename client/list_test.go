package client_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// J18: cursors are opaque, and may be empty.
func TestJ18ListsFollowCursors(t *testing.T) {
	s := modernServer()
	page := func(name, next string) string {
		return `"result":{"tools":[{"name":"` + name + `","inputSchema":{"type":"object"}}]` + next + `}`
	}
	s.Answers["tools/list"] = []string{page("a", `,"nextCursor":""`), page("b", `,"nextCursor":" \n\"x"`), page("c", "")}
	to, _ := target(s)
	var cursors []string
	d := quiet()
	d.Trace = func(sent bool, message []byte) {
		if m, err := jsonrpc.Parse(message, jsonrpc.Limits{}); sent && err == nil && m.Method == mcp.MethodListTools {
			raw, _ := m.Params.Get("cursor")
			cursors = append(cursors, string(raw))
		}
	}
	c, err := d.Dial(t.Context(), to)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var names []string
	for tool, err := range c.Tools(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, tool.Name)
	}
	if got := strings.Join(names, " "); got != "a b c" {
		t.Errorf("tools: %s", got)
	}
	if got := strings.Join(cursors, "; "); got != `; ""; " \n\"x"` {
		t.Errorf("cursors: %s", got)
	}
}

func TestJ18PagesOfAListAreLimited(t *testing.T) {
	s := modernServer()
	s.Answers["tools/list"] = []string{`"result":{"tools":[],"nextCursor":"again"}`}
	c, rec := dial(t, s)
	var last error
	for _, err := range c.Tools(t.Context()) {
		last = err
	}
	if !errors.Is(last, client.ErrInvalidResponse) {
		t.Errorf("got %v", last)
	}
	c.Close()
	if n := strings.Count(rec.methods(), "tools/list"); n != 64 {
		t.Errorf("the client requested %d pages", n)
	}
}

func TestLeavingTheLoopStopsTheList(t *testing.T) {
	s := modernServer()
	s.Answers["tools/list"] = []string{`"result":{"tools":[{"name":"a","inputSchema":{}},{"name":"b","inputSchema":{}}],"nextCursor":"x"}`}
	c, rec := dial(t, s)
	for range c.Tools(t.Context()) {
		break
	}
	c.Close()
	if n := strings.Count(rec.methods(), "tools/list"); n != 1 {
		t.Errorf("the client requested %d pages", n)
	}
}
