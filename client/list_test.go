package client_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// Rule J18: cursors are opaque, and may be empty.
func TestListsFollowCursors(t *testing.T) {
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

// pages returns the successive results of tools/list: n pages whose first tools have the
// names 0, 1, … and whose cursors are those numbers.
func pages(n, toolsPerPage, bytesPerTool int) []string {
	all := make([]string, n)
	tool := 0
	for i := range all {
		var tools []string
		for range toolsPerPage {
			tools = append(tools, fmt.Sprintf(`{"name":"%d","description":"%s","inputSchema":{}}`, tool, strings.Repeat("d", bytesPerTool)))
			tool++
		}
		all[i] = fmt.Sprintf(`"result":{"tools":[%s],"nextCursor":"%d"}`, strings.Join(tools, ","), i)
	}
	return all
}

// Rule J18: the entries and bytes of a list are limited, not the number of its pages. The entries
// before the limit are valid.
func TestListsAreLimited(t *testing.T) {
	last := pages(200, 1, 0)
	last[199] = strings.Replace(last[199], `,"nextCursor":"199"`, "", 1)
	for name, test := range map[string]struct {
		pages             []string
		entries, requests int
		reason            string
	}{
		"many pages":       {last, 200, 200, ""},
		"repeated cursor":  {pages(1, 2, 0), 4, 2, "repeats"},
		"cycle of cursors": {append(pages(3, 1, 0), `"result":{"tools":[],"nextCursor":"1"}`), 3, 4, "repeats"},
		"empty pages":      {pages(100, 0, 0), 0, 64, "64 empty pages"},
		"entries":          {pages(102, 1000, 0), 100_000, 100, "100000 entries"},
		"bytes":            {pages(10, 1, 8<<20), 8, 8, "64 MiB"},
	} {
		for era, s := range map[string]*script{"2026-07-28": modernServer(), "2025-06-18": legacyServer()} {
			t.Run(name+"/"+era, func(t *testing.T) {
				s.Answers["tools/list"] = test.pages
				c, rec := dial(t, s)
				entries := 0
				var last error
				for _, err := range c.Tools(t.Context()) {
					if last = err; err == nil {
						entries++
					}
				}
				var incomplete *client.IncompleteListError
				switch {
				case entries != test.entries:
					t.Errorf("%d entries, want %d; the error is %v", entries, test.entries, last)
				case test.reason == "" && last != nil:
					t.Error(last)
				case test.reason != "" && (!errors.As(last, &incomplete) || !errors.Is(last, client.ErrInvalidResponse) ||
					incomplete.Entries != entries || !strings.Contains(incomplete.Reason, test.reason)):
					t.Errorf("got %#v, want the reason %q", last, test.reason)
				}
				c.Close()
				if n := strings.Count(rec.methods(), "tools/list"); n != test.requests {
					t.Errorf("the client requested %d pages, want %d", n, test.requests)
				}
			})
		}
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
