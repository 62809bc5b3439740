package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/mcp"
)

// printResult prints the result of a tool. The last line ends with a newline. Text for a
// terminal is sanitised. The text of a tool error is printed to stderr.
func printResult(cmd *cobra.Command, result *mcp.CallToolResult) error {
	return show(cmd, result, func(w io.Writer) error {
		if result.IsError {
			w = cmd.ErrOrStderr()
		}
		text := render(result)
		if result.IsError && text == "" {
			text = "the tool returned an error without a message\n"
		}
		return printText(w, text)
	})
}

// printText writes text from a server, sanitised if w is a terminal.
func printText(w io.Writer, text string) error {
	if terminal.Is(w) {
		text = terminal.Block(text)
	}
	_, err := io.WriteString(w, text)
	return err
}

// render returns a result as text. Texts are unchanged, other content is described.
// Structured content is shown only if there is no other content, because servers repeat it
// as text.
func render(result *mcp.CallToolResult) string {
	var b strings.Builder
	for _, block := range result.Content {
		writeLines(&b, describe(block))
	}
	if len(result.Content) == 0 && result.StructuredContent != nil {
		var indented bytes.Buffer
		if json.Indent(&indented, result.StructuredContent, "", "  ") == nil {
			b.Write(indented.Bytes())
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// writeLines writes text, and a newline if the last line has none.
func writeLines(b *strings.Builder, text string) {
	b.WriteString(text)
	if !strings.HasSuffix(text, "\n") {
		b.WriteByte('\n')
	}
}

// describe returns a text, or a description of other content in brackets.
func describe(block mcp.Content) string {
	switch c := block.(type) {
	case *mcp.TextContent:
		return c.Text
	case *mcp.ImageContent:
		return binary("image", c.MimeType, len(c.Data))
	case *mcp.AudioContent:
		return binary("audio", c.MimeType, len(c.Data))
	case *mcp.ResourceLink:
		return fmt.Sprintf("[resource %s: %s]", terminal.Line(c.Name), terminal.Line(c.URI))
	case *mcp.EmbeddedResource:
		return describeResource(&c.Resource)
	case *mcp.UnknownContent:
		return fmt.Sprintf("[content of the unknown type %s; use --output json]", terminal.Line(c.Type))
	}
	return fmt.Sprintf("[%T]", block)
}

func binary(kind, mimeType string, n int) string {
	return fmt.Sprintf("[%s, %s, %s; use --output json]", kind, terminal.Line(mimeType), size(n))
}

// size returns a number of bytes in a suitable unit.
func size(n int) string {
	switch {
	case n < 1<<10:
		return count(n, "byte")
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

// describeResource describes a resource, and appends its text.
func describeResource(r *mcp.ResourceContents) string {
	head := "[resource " + terminal.Line(r.URI)
	if r.MimeType != "" {
		head += ", " + terminal.Line(r.MimeType)
	}
	if r.Blob != nil {
		return head + ", " + size(len(r.Blob)) + "; use --output json]"
	}
	return head + "]\n" + r.Text
}
