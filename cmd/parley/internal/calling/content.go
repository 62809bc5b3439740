package calling

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/cmd/parley/internal/output"
	"github.com/parley-mcp/parley/cmd/parley/internal/picture"
	"github.com/parley-mcp/parley/cmd/parley/internal/savedir"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/mcp"
)

// contentWriter collects the contents of a result as text for people. Text for a terminal is sanitised.
type contentWriter struct {
	b        strings.Builder
	terminal bool
	saved    savedFiles
	images   picture.Protocol
	screen   picture.Screen
	shown    int // images
}

// maxImages limits the images of a result that the terminal shows.
const maxImages = 20

// newContentWriter returns a writer for a stream. It shows images only at a terminal.
func newContentWriter(w io.Writer, saved savedFiles, images picture.Protocol) *contentWriter {
	c := &contentWriter{terminal: terminal.Is(w), saved: saved, images: picture.Off}
	if f, ok := w.(*os.File); ok && c.terminal && images != picture.Off {
		c.images, c.screen = images, picture.ScreenOf(f)
	}
	return c
}

// line writes text, and a newline if the last line has none.
func (c *contentWriter) line(text string) {
	if c.terminal {
		text = terminal.Block(text)
	}
	c.b.WriteString(text)
	if !strings.HasSuffix(text, "\n") {
		c.b.WriteByte('\n')
	}
}

// block writes a text, or a description of other content in brackets.
func (c *contentWriter) block(block mcp.Content) {
	switch b := block.(type) {
	case *mcp.TextContent:
		c.line(b.Text)
	case *mcp.ImageContent:
		c.binary(b, "image, "+b.MimeType, b.MimeType, b.Data)
	case *mcp.AudioContent:
		c.binary(b, "audio, "+b.MimeType, b.MimeType, b.Data)
	case *mcp.ResourceLink:
		c.line(fmt.Sprintf("[resource %s: %s]", terminal.Line(b.Name), terminal.Line(b.URI)))
	case *mcp.EmbeddedResource:
		c.resource(&b.Resource)
	case *mcp.UnknownContent:
		c.line(fmt.Sprintf("[content of the unknown type %s; use --output json]", terminal.Line(b.Type)))
	default:
		c.line(fmt.Sprintf("[%T]", block))
	}
}

// resource writes a description of a resource, and its text.
func (c *contentWriter) resource(r *mcp.ResourceContents) {
	head := "resource " + r.URI
	if r.MimeType != "" {
		head += ", " + r.MimeType
	}
	if r.Blob != nil {
		c.binary(r, head, r.MimeType, r.Blob)
		return
	}
	c.line("[" + terminal.Line(head) + "]")
	if r.Text != "" {
		c.line(r.Text)
	}
}

// binary writes a description of data, and the image if the terminal can show it. of is its key in saved.
func (c *contentWriter) binary(of any, head, mimeType string, data []byte) {
	advice := "save it with --save DIR"
	if path := c.saved[of]; path != "" {
		advice = "saved as " + path
	}
	c.line(fmt.Sprintf("[%s, %s; %s]", terminal.Line(head), size(len(data)), advice))
	if c.images != picture.Off && c.shown < maxImages && strings.HasPrefix(mimeType, "image/") {
		c.shown++
		if sequence, err := c.images.Encode(data, c.screen); err == nil {
			c.b.WriteString(sequence)
		}
	}
}

// size returns a number of bytes in a suitable unit.
func size(n int) string {
	switch {
	case n < 1<<10:
		return terminal.Count(n, "byte")
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

// savedFiles are the paths of saved contents. A key is a *mcp.ImageContent, *mcp.AudioContent or *mcp.ResourceContents.
type savedFiles map[any]string

// save saves the binary contents among blocks to the directory of --save, if there is one. Files of contents without a
// URI are called name.
func (s *session) save(cmd *cobra.Command, name string, blocks ...mcp.Content) (savedFiles, error) {
	if s.saveDir == "" {
		return nil, nil
	}
	dir, err := savedir.Open(s.saveDir)
	if err != nil {
		return nil, fmt.Errorf("--save: %w", err)
	}
	defer dir.Close()
	saved := make(savedFiles)
	for _, block := range blocks {
		var of any = block
		var data []byte
		name, mimeType := name, ""
		switch b := block.(type) {
		case *mcp.ImageContent:
			data, mimeType = b.Data, b.MimeType
		case *mcp.AudioContent:
			data, mimeType = b.Data, b.MimeType
		case *mcp.EmbeddedResource:
			of, data, mimeType, name = &b.Resource, b.Resource.Blob, b.Resource.MimeType, b.Resource.URI
		}
		if data == nil {
			continue
		}
		if saved[of], err = dir.Save(name, mimeType, data); err != nil {
			return nil, fmt.Errorf("--save: %w", err)
		}
		if output.Of(cmd) != output.Table { // otherwise the description of the content has the path
			cmd.PrintErrln("parley: saved " + terminal.Line(saved[of]))
		}
	}
	return saved, nil
}

// saveContents is like save for the contents of a resource.
func (s *session) saveContents(cmd *cobra.Command, contents []mcp.ResourceContents) (savedFiles, error) {
	var blocks []mcp.Content
	for i := range contents {
		blocks = append(blocks, &mcp.EmbeddedResource{Resource: contents[i]})
	}
	saved, err := s.save(cmd, "", blocks...)
	for i, block := range blocks {
		if path := saved[&block.(*mcp.EmbeddedResource).Resource]; path != "" {
			saved[&contents[i]] = path
		}
	}
	return saved, err
}

// printResult prints the result of a tool. The last line ends with a newline. The text of a tool error is printed to
// stderr.
func printResult(cmd *cobra.Command, result *mcp.CallToolResult, saved savedFiles, images picture.Protocol) error {
	return output.Show(cmd, result, func(w io.Writer) error {
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
