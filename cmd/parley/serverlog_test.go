package main

import (
	"encoding/json"
	"testing"

	"github.com/parley-mcp/parley/mcp"
)

func TestLogLineReturnsOneLine(t *testing.T) {
	for data, want := range map[string]string{
		`"plain\u001b[2J\ntext"`:                           "server: info: disk: plain␛[2J text",
		`{"message":"full","percent":93,"machine":"carl"}`: "server: info: disk: full: percent=93, machine=carl",
		`{"message":"full"}`:                               "server: info: disk: full",
		`{"percent":93}`:                                   `server: info: disk: {"percent":93}`,
		`[1,2]`:                                            "server: info: disk: [1,2]",
		`null`:                                             "server: info: disk:",
	} {
		if got := logLine(mcp.LoggingMessageParams{Level: mcp.LevelInfo, Logger: "disk", Data: json.RawMessage(data)}); got != want {
			t.Errorf("logLine of %s = %q, want %q", data, got, want)
		}
	}
}
