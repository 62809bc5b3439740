package main

import (
	"bytes"
	"encoding/json"
	"io"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/cmd/parley/internal/picture"
	"github.com/parley-mcp/parley/mcp"
)

// printResult prints the result of a tool. The last line ends with a newline. The text of a tool error is printed to
// stderr.
func printResult(cmd *cobra.Command, result *mcp.CallToolResult, saved savedFiles, images picture.Protocol) error {
	return show(cmd, result, func(w io.Writer) error {
		if result.IsError {
			w = cmd.ErrOrStderr()
		}
		c := newContentWriter(w, saved, images)
		c.result(result)
		if result.IsError && c.b.Len() == 0 {
			c.line("the tool returned an error without a message")
		}
		_, err := io.WriteString(w, c.b.String())
		return err
	})
}

// result writes a result. Texts are unchanged, other content is described. Structured content is written only if there
// is no other content, because servers repeat it as text.
func (c *contentWriter) result(result *mcp.CallToolResult) {
	for _, block := range result.Content {
		c.block(block)
	}
	if len(result.Content) == 0 && result.StructuredContent != nil {
		var indented bytes.Buffer
		if json.Indent(&indented, result.StructuredContent, "", "  ") == nil {
			c.line(indented.String())
		}
	}
}
