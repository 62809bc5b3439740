package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// redPixel is a PNG image of one red pixel.
const redPixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"

// noTerminal are the variables by which terminals and multiplexers are detected, without values.
var noTerminal = []string{"TMUX=", "STY=", "ZELLIJ=", "TERM_PROGRAM=", "LC_TERMINAL=", "KITTY_WINDOW_ID=", "KONSOLE_VERSION="}

// A terminal that can show images receives them after their descriptions, in its own protocol. Other terminals, files and pipes
// receive the descriptions only, and so does each terminal for an image that is broken.
func TestImagesAreShownAtTerminalsThatCan(t *testing.T) {
	program, err := exec.LookPath("parley")
	if err != nil {
		t.Fatal(err)
	}
	pixel, err := base64.StdEncoding.DecodeString(redPixel)
	if err != nil {
		t.Fatal(err)
	}
	broken := append(bytes.Clone(pixel[:40]), "\x1b]0;title\a"...)
	s := &server.Server{Name: "images"}
	server.AddTool(s, mcp.Tool{Name: "draw"}, func(context.Context, struct{}) ([]mcp.Content, error) {
		return []mcp.Content{
			&mcp.TextContent{Text: "A pixel:"},
			&mcp.ImageContent{Data: pixel, MimeType: "image/png"},
			&mcp.ImageContent{Data: broken, MimeType: "image/png"},
		}, nil
	})
	server.AddResource(s, mcp.Resource{URI: "image://pixel", Name: "pixel", MimeType: "image/png"}, func(context.Context) ([]byte, error) {
		return pixel, nil
	})
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	var shown strings.Builder
	for _, c := range []struct{ variable, arguments string }{
		{"TERM=xterm-256color", "call URL draw"},
		{"TERM=xterm-kitty", "call URL draw"},
		{"TERM_PROGRAM=iTerm.app", "call URL draw"},
		{"TERM=foot", "call URL draw"},
		{"TERM=xterm-kitty", "call URL draw --images off"},
		{"TERM=xterm-256color", "read URL image://pixel --images sixel"},
	} {
		cmd := exec.CommandContext(ctx, program, strings.Fields(strings.Replace(c.arguments, "URL", h.URL, 1))...)
		cmd.Env = append(append(terminalEnv(t.TempDir()), noTerminal...), c.variable)
		p := startAtTerminal(t, cmd, true)
		if err := p.wait(); err != nil {
			t.Errorf("%s: %v", c.variable, err)
		}
		fmt.Fprintf(&shown, "%s parley %s\n", c.variable, c.arguments)
		for line := range strings.Lines(p.shown.String()) {
			fmt.Fprintf(&shown, "%q\n", line)
		}
	}
	golden(t, "testdata/images.golden", shown.String())

	piped := exec.CommandContext(ctx, program, "call", h.URL, "draw", "--images", "kitty")
	piped.Env = append(terminalEnv(t.TempDir()), "TERM=xterm-kitty")
	if output, err := piped.Output(); err != nil || bytes.Contains(output, []byte("\x1b_G")) || !bytes.Contains(output, []byte("[image, image/png, ")) {
		t.Errorf("a pipe receives %q, %v", output, err)
	}
}
