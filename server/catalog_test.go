package server_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// names lists the names of the tools after a cursor, "" for the first page.
func names(t *testing.T, l *line, cursor string) (page []string, next string) {
	t.Helper()
	params := ""
	if cursor != "" {
		params = fmt.Sprintf(`"cursor":%q`, cursor)
	}
	raw, err := l.ask(mcp.MethodListTools, params)
	if err != nil {
		t.Fatalf("tools/list from %q: %v", cursor, err)
	}
	var result mcp.ListToolsResult
	if err := json.Unmarshal(raw, &result); err != nil {
		t.Fatal(err)
	}
	for _, tool := range result.Tools {
		page = append(page, tool.Name)
	}
	if result.NextCursor != nil {
		next = *result.NextCursor
		if next == "" {
			t.Error("the next cursor is empty")
		}
	}
	return page, next
}

func withTools(t *testing.T, pageSize int, names ...string) *server.Server {
	s := &server.Server{PageSize: pageSize}
	for _, name := range names {
		if err := s.RegisterTool(mcp.Tool{Name: name}, raw); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func TestToolsAreListedInOrder(t *testing.T) {
	for size, want := range map[int]string{
		0: "A B a b c", 1: "A|B|a|b|c", 2: "A B|a b|c", 5: "A B a b c", 6: "A B a b c",
	} {
		l := connectLine(t, withTools(t, size, "b", "A", "c", "a", "B"))
		var pages []string
		page, next := names(t, l, "")
		for pages = append(pages, strings.Join(page, " ")); next != ""; pages = append(pages, strings.Join(page, " ")) {
			page, next = names(t, l, next)
		}
		if got := strings.Join(pages, "|"); got != want {
			t.Errorf("pages of %d: %s, want %s", size, got, want)
		}
	}
}

// Rule J18: cursors stay valid when tools are added and removed. No tool is listed twice, and no tool
// that remains is left out.
func TestCursorsStayValidWhenToolsChange(t *testing.T) {
	s := withTools(t, 2, "b", "d", "f", "h")
	s.Keys = [][]byte{[]byte(strings.Repeat("k", 32))}
	l := connectLine(t, s)
	_, next := names(t, l, "") // behind d
	s.RemoveTool("d")
	for _, name := range []string{"a", "c", "e"} {
		if err := s.RegisterTool(mcp.Tool{Name: name}, raw); err != nil {
			t.Fatal(err)
		}
	}
	page, next := names(t, l, next)
	if got := strings.Join(page, " "); got != "e f" {
		t.Errorf("the second page is %s", got)
	}
	s.RemoveTool("h")
	if page, next = names(t, l, next); len(page) > 0 || next != "" {
		t.Errorf("the third page is %v, and then %q", page, next)
	}
	replica := withTools(t, 2, "a", "e", "f")
	replica.Keys = s.Keys
	_, next = names(t, connectLine(t, replica), "")
	if page, _ := names(t, l, next); strings.Join(page, " ") != "f" {
		t.Errorf("a replica's cursor leads to %v", page)
	}
}

// Rule J18: an invalid cursor is an error that gives the reason.
func TestInvalidCursorsAreRejected(t *testing.T) {
	s := withTools(t, 1, "a", "b")
	s.DeclarePrompts()
	l := connectLine(t, s)
	_, next := names(t, l, "")
	for cursor, reason := range map[string]string{
		`""`: "modified", `"x"`: "modified", `7`: "must be a string", `null`: "must be a string", `{}`: "must be a string", `[]`: "must be a string", `true`: "must be a string",
		`"` + next + `="`: "modified", `"` + next + ` "`: "modified", `"` + next + `\n"`: "modified", `"` + next[1:] + `"`: "modified",
		`"` + strings.Repeat("x", 17<<10) + `"`: "too long",
	} {
		l.wantError(mcp.MethodListTools, `"cursor":`+cursor, jsonrpc.CodeInvalidParams, "invalid cursor: ")
		l.wantError(mcp.MethodListTools, `"cursor":`+cursor, jsonrpc.CodeInvalidParams, reason)
	}
	l.wantError(mcp.MethodListPrompts, fmt.Sprintf(`"cursor":%q`, next), jsonrpc.CodeInvalidParams, "for another purpose")
	l.wantError(mcp.MethodListTools, `"Cursor":"x"`, jsonrpc.CodeInvalidParams, `must be written "cursor"`)
}

// FuzzCursor (rule J18) checks that a modified cursor is rejected.
func FuzzCursor(f *testing.F) {
	s := &server.Server{PageSize: 1, Logger: slog.New(slog.DiscardHandler)}
	for _, name := range []string{"a", "b"} {
		if err := s.RegisterTool(mcp.Tool{Name: name}, raw); err != nil {
			f.Fatal(err)
		}
	}
	l := connectLine(f, s)
	cursor := s.CursorAfter(mcp.MethodListTools, "a")
	f.Add(0, []byte{1}, "")
	f.Add(len(cursor)-1, []byte{1}, "")
	f.Add(3, []byte{}, "\n")
	f.Fuzz(func(t *testing.T, at int, flip []byte, inserted string) {
		changed := []byte(cursor)
		for i, b := range flip {
			changed[(max(at, 0)+i)%len(changed)] ^= b
		}
		at = max(at, 0) % len(cursor)
		text := string(changed[:at]) + inserted + string(changed[at:])
		params, err := json.Marshal(text)
		if err != nil || !utf8.ValidString(text) || text == cursor {
			return
		}
		l := &line{t: t, conn: l.conn}
		if result, rejected := l.ask(mcp.MethodListTools, `"cursor":`+string(params)); rejected == nil || rejected.Code != jsonrpc.CodeInvalidParams {
			t.Fatalf("%q was taken for %q: %s %v", text, cursor, result, rejected)
		}
	})
}

// A page is encoded once for each revision, and again when the tools have changed. Forged cursors
// do not fill the memory.
func TestCachedPagesAreBounded(t *testing.T) {
	var all []string
	for i := range 100 {
		all = append(all, fmt.Sprintf("t%03d", i))
	}
	s := withTools(t, 10, all...)
	l := connectLine(t, s)
	walk := func() {
		for _, next := names(t, l, ""); next != ""; {
			_, next = names(t, l, next)
		}
	}
	walk()
	walk()
	if n := s.ToolPages(); n != 10 {
		t.Errorf("%d pages are kept", n)
	}
	for i := range 200 {
		names(t, l, s.CursorAfter(mcp.MethodListTools, fmt.Sprintf("t%03dx", i))) // a cursor of an older list
	}
	if n := s.ToolPages(); n > 11 {
		t.Errorf("%d pages are kept", n)
	}
	if s.RemoveTool("unknown"); s.ToolPages() == 0 {
		t.Error("pages were dropped though nothing has changed")
	}
	s.RemoveTool("t000")
	if n := s.ToolPages(); n != 0 {
		t.Errorf("%d pages are kept of a list that has changed", n)
	}
	if page, _ := names(t, l, ""); page[0] != "t001" {
		t.Errorf("the first page begins with %s", page[0])
	}
}

func TestListensAreLimitedToDeclaredCapabilities(t *testing.T) {
	var s server.Server
	l := connectLine(t, &s)
	capabilities := func() string {
		raw, err := l.ask(mcp.MethodDiscover, "")
		if err != nil {
			t.Fatal(err)
		}
		found, _ := jsonrpc.Get(raw, "capabilities")
		tools, _ := jsonrpc.Get(found, "tools")
		return string(tools)
	}
	if got := capabilities(); got != "" {
		t.Errorf("without tools: %s", got)
	}
	l.wantError(mcp.MethodListTools, "", jsonrpc.CodeMethodNotFound, "tools/list")
	l.wantError(mcp.MethodCallTool, `"name":"a"`, jsonrpc.CodeMethodNotFound, "tools/call")
	s.DeclareTools()
	if got := capabilities(); got == "" {
		t.Error("tools that are offered are not declared")
	}
	if len(list(t, l)) != 0 {
		t.Error("there is a tool")
	}
	l.wantError(mcp.MethodCallTool, `"name":"a"`, jsonrpc.CodeInvalidParams, "unknown tool")
}
