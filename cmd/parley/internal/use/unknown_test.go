package use

import "testing"

// The SDKs for TypeScript, Python, Go, C#, Kotlin and Java write these texts.
func TestErrorsAboutUnknownToolsAreRecognized(t *testing.T) {
	for text, want := range map[string]bool{
		"MCP error -32602: Tool gret not found": true, "Tool gret not found": true, "Unknown tool: gret": true,
		`unknown tool "gret"`: true, "Unknown tool: 'gret'": true, "Unknown tool: invalid tool name gret": true,
		"No such tool: gret": true, "The tool gret does not exist": true,
		"the file /tmp/a was not found": false, "gret failed: out of memory": false, "Unknown city Oslo": false, "": false,
	} {
		if got := saysUnknown(text, "gret"); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}
