package mcp_test

import (
	"testing"

	"github.com/parley-mcp/parley/mcp"
)

func use(id string) mcp.Content    { return &mcp.ToolUseContent{ID: id, Name: "weather"} }
func result(id string) mcp.Content { return &mcp.ToolResultContent{ToolUseID: id} }

// Rule Y6: every tool use has a result in the next message, which has no other content.
func TestEveryToolUseHasResult(t *testing.T) {
	user := func(content ...mcp.Content) mcp.SamplingMessage {
		return mcp.SamplingMessage{Role: mcp.RoleUser, Content: content}
	}
	model := func(content ...mcp.Content) mcp.SamplingMessage {
		return mcp.SamplingMessage{Role: mcp.RoleAssistant, Content: content}
	}
	hello := mcp.Text("hello")
	type messages = []mcp.SamplingMessage
	for name, all := range map[string]messages{
		"nothing":    {},
		"no tools":   {user(hello), model(hello), user(hello, hello), user(hello)},
		"one":        {user(hello), model(hello, use("a")), user(result("a"))},
		"two":        {user(hello), model(use("a"), hello, use("b")), user(result("b"), result("a")), model(hello)},
		"twice":      {model(use("a")), user(result("a")), model(use("a")), user(result("a"))},
		"one by one": {model(use("a")), user(result("a")), model(use("b")), user(result("b")), user(hello)},
		"empty id":   {model(use("")), user(result(""))},
	} {
		if err := mcp.CheckToolResults(all); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, all := range map[string]messages{
		"no result":               {user(hello), model(use("a"))},
		"text instead":            {model(use("a")), user(hello)},
		"one of two":              {model(use("a"), use("b")), user(result("a"))},
		"too late":                {model(use("a")), model(hello), user(result("a"))},
		"too early":               {user(result("a")), model(use("a"))},
		"mixed with text":         {model(use("a")), user(result("a"), hello)},
		"mixed, text first":       {model(use("a")), user(hello, result("a"))},
		"a result too many":       {model(use("a")), user(result("a"), result("b"))},
		"a result twice":          {model(use("a")), user(result("a"), result("a"))},
		"of nothing":              {user(result("a"))},
		"again later":             {model(use("a")), user(result("a")), user(result("a"))},
		"by the model":            {model(use("a")), model(result("a"))},
		"used by the user":        {user(use("a")), user(result("a"))},
		"two uses of one id":      {model(use("a"), use("a")), user(result("a"))},
		"use and result together": {model(use("a"), result("a"))},
		"an empty message":        {model(use("a")), user()},
	} {
		if err := mcp.CheckToolResults(all); err == nil {
			t.Errorf("%s: CheckToolResults returns nil", name)
		}
	}
}

func TestUsesToolsReportsToolsAndToolContent(t *testing.T) {
	conversation := func(content ...mcp.Content) []mcp.SamplingMessage {
		return []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: []mcp.Content{mcp.Text("x")}}, {Role: mcp.RoleUser, Content: content}}
	}
	for name, test := range map[string]struct {
		params mcp.CreateMessageParams
		want   bool
	}{
		"text":       {mcp.CreateMessageParams{Messages: conversation(mcp.Text("x"))}, false},
		"tools":      {mcp.CreateMessageParams{Tools: []mcp.Tool{{Name: "a"}}}, true},
		"a choice":   {mcp.CreateMessageParams{ToolChoice: &mcp.ToolChoice{Mode: mcp.ToolChoiceNone}}, true},
		"a use":      {mcp.CreateMessageParams{Messages: conversation(use("a"))}, true},
		"its result": {mcp.CreateMessageParams{Messages: conversation(result("a"))}, true},
	} {
		if got := test.params.UsesTools(); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
