package main

import (
	"encoding/json"
	"strings"

	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// logLine returns a log message of a server as a line. The line is
// "server: info: logger: text: key=value, …" if the data is a string or an object with a
// message, and contains the JSON of other data.
func logLine(m mcp.LoggingMessageParams) string {
	var b strings.Builder
	b.WriteString("server: " + string(m.Level) + ": ")
	if m.Logger != "" {
		b.WriteString(m.Logger + ": ")
	}
	b.WriteString(logText(m.Data))
	return terminal.Line(b.String())
}

func logText(data json.RawMessage) string {
	var text string
	if schema.Decode(data, &text) == nil {
		return text
	}
	keys, values := members(data)
	var message string
	var rest []string
	for i, key := range keys {
		value := string(values[i])
		if schema.Decode(values[i], &text) == nil {
			value = text
		}
		if key == "message" {
			message = value
		} else {
			rest = append(rest, key+"="+value)
		}
	}
	switch {
	case message == "":
		return string(data)
	case rest == nil:
		return message
	}
	return message + ": " + strings.Join(rest, ", ")
}

// members returns the members of a JSON object in order, as views of it. It returns none for
// other values.
func members(object json.RawMessage) (keys []string, values []json.RawMessage) {
	if len(object) == 0 || object[0] != '{' {
		return nil, nil
	}
	for key, value := range jsonrpc.All(object) {
		keys, values = append(keys, key), append(values, value)
	}
	return keys, values
}
