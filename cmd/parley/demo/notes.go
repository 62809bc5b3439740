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

// notes is a resource that a tool updates. All clients share it.
type notes struct {
	server *server.Server

	mu  sync.Mutex
	all []string // the most recent maxNotes
}

func addNotes(s *server.Server, noteOptions ...server.ToolOption) {
	n := &notes{server: s}
	server.AddResource(s, mcp.Resource{URI: notesURI, Name: "notes", Title: "Notes", Description: "The last 20 notes of all clients", MimeType: "text/plain"}, n.read)
	server.AddTool(s, mcp.Tool{Name: "note", Title: "Note", Description: "Add a note to demo://notes, which all clients can read", Annotations: &mcp.ToolAnnotations{OpenWorldHint: new(bool)}}, n.add, noteOptions...)
}

func (n *notes) read(context.Context) (string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.all) == 0 {
		return "There are no notes yet.\n", nil
	}
	return strings.Join(n.all, "\n") + "\n", nil
}

// add adds a note, and notifies the subscribers of the resource.
func (n *notes) add(_ context.Context, in struct {
	Text string `json:"text" minLength:"1" maxLength:"200" doc:"the note, as one line"`
}) (string, error) {
	n.mu.Lock()
	n.all = append(n.all, "- "+strings.Join(strings.Fields(in.Text), " "))
	n.all = slices.Clone(n.all[max(0, len(n.all)-maxNotes):])
	total := len(n.all)
	n.mu.Unlock()
	n.server.ResourceUpdated(notesURI)
	return fmt.Sprintf("Added note %d of at most %d at %s.", total, maxNotes, notesURI), nil
}
