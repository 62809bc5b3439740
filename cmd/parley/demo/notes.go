package demo

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

const (
	notesURI = "demo://notes"
	maxNotes = 20
)

// notes is a resource that tools update. Everybody sees the same.
type notes struct {
	server *server.Server

	mu  sync.Mutex
	all []string // the last ones
}

func addNotes(s *server.Server, toLeave ...server.ToolOption) {
	n := &notes{server: s}
	server.AddResource(s, mcp.Resource{URI: notesURI, Name: "notes", Title: "Notes", Description: "The last 20 notes that anybody has left", MimeType: "text/plain"}, n.read)
	server.AddTool(s, mcp.Tool{Name: "note", Title: "Note", Description: "Leave a note at demo://notes, for everybody to read", Annotations: &mcp.ToolAnnotations{OpenWorldHint: new(bool)}}, n.leave, toLeave...)
}

func (n *notes) read(context.Context) (string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.all) == 0 {
		return "There are no notes yet.\n", nil
	}
	return strings.Join(n.all, "\n") + "\n", nil
}

// leave leaves a note, and tells those who have subscribed to the notes.
func (n *notes) leave(_ context.Context, in struct {
	Text string `json:"text" minLength:"1" maxLength:"200"`
}) (string, error) {
	n.mu.Lock()
	n.all = append(n.all, "- "+strings.Join(strings.Fields(in.Text), " "))
	n.all = slices.Clone(n.all[max(0, len(n.all)-maxNotes):])
	left := len(n.all)
	n.mu.Unlock()
	n.server.ResourceUpdated(notesURI)
	return fmt.Sprintf("Noted: %d of %d at %s.", left, maxNotes, notesURI), nil
}
