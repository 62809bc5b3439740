package main

import (
	"encoding/json"
	"strings"

	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/mcp"
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
	if json.Unmarshal(data, &text) == nil {
		return text
	}
	keys, values := members(data)
	var message string
	var rest []string
	for i, key := range keys {
		value := string(values[i])
		if json.Unmarshal(values[i], &text) == nil {
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

// members returns the members of a JSON object in order. It returns none for other values.
func members(object json.RawMessage) (keys []string, values []json.RawMessage) {
	decoder := json.NewDecoder(strings.NewReader(string(object)))
	if start, err := decoder.Token(); err != nil || start != json.Delim('{') {
		return nil, nil
	}
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return nil, nil
		}
		var value json.RawMessage
		if decoder.Decode(&value) != nil {
			return nil, nil
		}
		keys, values = append(keys, key.(string)), append(values, value)
	}
	return keys, values
}
