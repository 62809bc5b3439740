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

// printResult prints what a tool has returned. Text goes to a file or pipe as it
// is, byte for byte, and to a terminal without what a terminal would act upon. What
// a failed tool says goes to stderr.
func printResult(cmd *cobra.Command, result *mcp.CallToolResult, output output) error {
	if output == outputJSON {
		return printJSON(cmd.OutOrStdout(), result)
	}
	w := cmd.OutOrStdout()
	if result.IsError {
		w = cmd.ErrOrStderr()
	}
	text := render(result)
	if result.IsError && text == "" {
		text = "the tool reported an error and says nothing about it\n"
	}
	switch only := onlyText(result); {
	case terminal.Is(w):
		text = terminal.Block(text)
	case only != nil && !result.IsError:
		text = only.Text
	}
	_, err := io.WriteString(w, text)
	return err
}

// onlyText returns the text that a result consists of, if it does.
func onlyText(result *mcp.CallToolResult) *mcp.TextContent {
	if len(result.Content) != 1 {
		return nil
	}
	text, _ := result.Content[0].(*mcp.TextContent)
	return text
}

// render returns a result as text: its texts as they are, its images and the like
// described. Structured content is left to the text that goes with it, if there is any.
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

// writeLines writes text, and ends its last line.
func writeLines(b *strings.Builder, text string) {
	b.WriteString(text)
	if !strings.HasSuffix(text, "\n") {
		b.WriteByte('\n')
	}
}

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
		return fmt.Sprintf("[content of the type %s, which parley does not know: --output json shows it]", terminal.Line(c.Type))
	}
	return fmt.Sprintf("[%T]", block)
}

func binary(what, mimeType string, size int) string {
	return fmt.Sprintf("[%s, %s, %s: --output json shows it]", what, terminal.Line(mimeType), bytesOf(size))
}

// bytesOf says how much n bytes are.
func bytesOf(n int) string {
	switch {
	case n < 1<<10:
		return count(n, "byte")
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

func describeResource(r *mcp.ResourceContents) string {
	head := "[resource " + terminal.Line(r.URI)
	if r.MimeType != "" {
		head += ", " + terminal.Line(r.MimeType)
	}
	if r.Blob != nil {
		return head + ", " + bytesOf(len(r.Blob)) + ": --output json shows it]"
	}
	return head + "]\n" + r.Text
}
