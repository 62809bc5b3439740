package loginsteps

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
)

// Print prints a step for people: its purpose, the request, and the response or the error.
func Print(w io.Writer, s Step) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%d. %s (%s)\n   %s %s\n", s.Number, s.Purpose, s.Reference, s.Method, terminal.Line(s.URL))
	writeHeader(&b, s.RequestHeader)
	writeBody(&b, s.RequestBody)
	took := terminal.Duration(time.Duration(s.Millis * float64(time.Millisecond)))
	switch {
	case s.Error != "":
		fmt.Fprintf(&b, "   No response after %v: %s\n", took, terminal.Line(s.Error))
	case s.Status == 0:
		fmt.Fprintf(&b, "   The browser returned after %v\n", took)
	default:
		fmt.Fprintf(&b, "   Response: %d %s, after %v\n", s.Status, http.StatusText(s.Status), took)
	}
	writeHeader(&b, s.ResponseHeader)
	writeBody(&b, s.ResponseBody)
	_, err := io.WriteString(w, b.String()+"\n")
	return err
}

// writeHeader writes the fields of a header in alphabetical order.
func writeHeader(b *strings.Builder, header http.Header) {
	for _, name := range slices.Sorted(maps.Keys(header)) {
		for _, value := range header[name] {
			fmt.Fprintf(b, "   %s\n", terminal.Line(name+": "+value))
		}
	}
}

// writeBody writes JSON with indentation, and each parameter of a form on its own line.
func writeBody(b *strings.Builder, body string) {
	if body == "" {
		return
	}
	var indented bytes.Buffer
	text := strings.ReplaceAll(body, "&", "\n&")
	if json.Indent(&indented, []byte(body), "", "  ") == nil {
		text = terminal.JSON(indented.String())
	}
	for line := range strings.SplitSeq(text, "\n") {
		fmt.Fprintf(b, "      %s\n", terminal.Block(line))
	}
}
