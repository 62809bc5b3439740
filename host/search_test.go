package host

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
)

// hostOf returns a Host whose servers are ready with these lists. It has no connections.
func hostOf(lists map[string][]mcp.Tool, order ...string) *Host {
	h := &Host{}
	r := &roster{byName: make(map[string]*supervisor)}
	for _, name := range order {
		s := &supervisor{host: h, name: name, naming: namer(name, maxMergedName), logger: slog.New(slog.DiscardHandler)}
		s.status.State = Ready
		s.setTools(lists[name])
		r.supervisors, r.byName[name] = append(r.supervisors, s), s
	}
	h.roster.Store(r)
	return h
}

// setTools replaces the list of tools of a server.
func (s *supervisor) setTools(tools []mcp.Tool) {
	s.publish(func(l *lists, _ *client.ServerDetails) client.ChangeKind {
		*l = l.replaced(client.ToolsChanged, &lists{tools: tools})
		return client.ToolsChanged
	}, func(*ServerStatus) bool { return true })
}

// office is a host with tools of several servers.
func office() *Host {
	return hostOf(map[string][]mcp.Tool{
		"crm": {
			{Name: "updateRecord", Description: "Update fields on a Salesforce object"},
			{Name: "upsertRecord", Description: "Insert or update an object based on an external ID"},
			{Name: "run_report", Title: "Quarterly numbers", Description: "Run a report"},
		},
		"files": {
			{Name: "read_text_file", Description: "Read a file",
				InputSchema: json.RawMessage(`{"type":"object","properties":{"path":{},"max_bytes":{}}}`)},
			{Name: "delete_file", Description: "Remove a file for ever"},
			{Name: "listHTTPServers", Description: "Servers that are known"},
		},
		"odd": {
			{Name: "a", InputSchema: json.RawMessage(`true`)},
			{Name: "b", InputSchema: json.RawMessage(`{"properties":7}`)},
			{Name: "c", Description: "天気予報を返す"}, {Name: "d",
				Annotations: &mcp.ToolAnnotations{Title: "Weather forecast"}},
		},
	}, "crm", "files", "odd")
}

func namesOf(tools []Tool) string {
	names := make([]string, len(tools))
	for i := range tools {
		names[i] = tools[i].Name
	}
	return strings.Join(names, " ")
}

func TestSearchRanksToolsByTheirWords(t *testing.T) {
	h := office()
	for query, best := range map[string]string{
		"update salesforce record":       "crm__updateRecord",
		"Which tool deletes FILES?":      "files__delete_file",
		"quarterly":                      "crm__run_report",
		"max bytes":                      "files__read_text_file",
		"http server":                    "files__listHTTPServers",
		"reporting":                      "crm__run_report",
		"天気":                             "odd__c",
		"weather":                        "odd__d",
		"crm":                            "crm__updateRecord",
		"no_such_word":                   "",
		strings.Repeat("x ", 70) + "crm": "", // beyond the limit on terms
	} {
		must.CheckEqual(t, namesOf(h.Search(t.Context(), query, 1)), best, query)
	}
	must.CheckEqual(t, namesOf(h.Search(t.Context(), "update salesforce record", 0)),
		"crm__updateRecord crm__upsertRecord", "all tools that match")
}

// MCP Apps, Visibility: the list for a model leaves out tools that only pages may call. The status of the server
// contains them.
func TestToolsOfPagesAreNotForModels(t *testing.T) {
	tool := func(name, ui string) mcp.Tool {
		return mcp.Tool{Name: name, Description: "vote", Meta: mcp.Meta{"ui": json.RawMessage(ui)}}
	}
	h := hostOf(map[string][]mcp.Tool{"s": {
		tool("both", `{"resourceUri":"ui://a"}`), tool("model", `{"visibility":["model"]}`),
		tool("page", `{"visibility":["app"]}`), tool("none", `{"visibility":[]}`), tool("invalid", `{"visibility":"model"}`), tool("null", `{"visibility":null}`),
		tool("other", `[]`),
	}}, "s")
	const want = "s__both s__model s__null s__other"
	must.CheckEqual(t, namesOf(h.Tools()), want)
	must.CheckEqual(t, namesOf(h.Search(t.Context(), "vote", 0)), want)
	must.CheckEqual(t, namesOf(h.Search(t.Context(), "", 0)), want)
	must.CheckEqual(t, len(h.Status()[0].Tools), 7)
	for _, name := range []string{"s__page", "s__none", "s__invalid"} {
		must.CheckIs(t, must.Err(h.Call(t.Context(), name, nil)), ErrUnknown, name)
	}
}

func TestSearchIsBoundedAndStable(t *testing.T) {
	h := office()
	all := h.Search(t.Context(), " \t", 0)
	must.CheckEqual(t, namesOf(all), namesOf(h.Tools()))
	must.CheckEqual(t, namesOf(h.Search(t.Context(), "", 2)), namesOf(all[:2]))
	if got := h.Search(t.Context(), "a file", 1); len(got) != 1 {
		t.Errorf("one tool: %s", namesOf(got))
	}
	same := make([]mcp.Tool, 50)
	for i := range same {
		same[i] = mcp.Tool{Name: fmt.Sprintf("tool%02d", i), Description: "the same words"}
	}
	h = hostOf(map[string][]mcp.Tool{"s": same}, "s")
	must.CheckEqual(t, namesOf(h.Search(t.Context(), "words", 0)), namesOf(h.Tools()))
	all = h.Search(t.Context(), "", 0)
	all[0].Name = "changed by the caller"
	must.CheckEqual(t, h.Search(t.Context(), "", 1)[0].Name, "s__tool00")
}

// The index and the version follow the lists of the servers.
func TestToolsVersionChangesWithTheTools(t *testing.T) {
	h, same := office(), office()
	before := h.ToolsVersion(t.Context())
	if before == "" || before != same.ToolsVersion(t.Context()) || before != h.ToolsVersion(t.Context()) {
		t.Errorf("versions %q and %q of the same tools", before, same.ToolsVersion(t.Context()))
	}
	versions := map[string]bool{before: true}
	for _, tools := range [][]mcp.Tool{nil, {{Name: "read_text_file"}},
		{{Name: "read_text_file", Description: "Fetch a document"}}} {
		h.find("files").setTools(tools)
		if v := h.ToolsVersion(t.Context()); versions[v] {
			t.Errorf("the version stays %q", v)
		} else {
			versions[v] = true
		}
	}
	must.CheckEqual(t, namesOf(h.Search(t.Context(), "document", 0)), "files__read_text_file")
	if got := h.Search(t.Context(), "delete", 0); len(got) != 0 {
		t.Errorf("found a tool that was removed: %s", namesOf(got))
	}
}

// The ranking of the tools of several servers does not depend on how they are distributed.
func TestRankingDoesNotDependOnTheServers(t *testing.T) {
	words := []string{"read", "write", "file", "record", "report", "delete", "list", "weather"}
	tools := make([]Tool, 60)
	for i := range tools {
		tools[i].Definition = mcp.Tool{Name: fmt.Sprintf("%s_%d", words[i%8], i),
			Description: strings.Repeat(words[i*7%8]+" ", i%5) + words[i*3%8]}
	}
	one := catalogs{newCatalog(tools)}
	several := catalogs{newCatalog(tools[:7]), newCatalog(nil), newCatalog(tools[7:40]), newCatalog(tools[40:])}
	for _, query := range []string{"read a file", "weather report", "list", "delete the record 41", "none"} {
		if a, b := one.rank(query), several.rank(query); !slices.Equal(a, b) {
			t.Errorf("%q: %v of one catalog, %v of several", query, a, b)
		}
	}
	if got := several.document(40); got != &tools[40] {
		t.Errorf("the tool 40 is %s", got.Definition.Name)
	}
}
