package demo

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

const guide = `# The demo server

Its tools return example data. Try

- greet and add, which return a result immediately,
- count, which reports progress,
- book_table and plan_trip, which ask you questions,
- checkup, which sends log messages (use --log-level debug),
- note, which updates demo://notes, and shop, which changes the list of tools. To see the
  changes, run parley watch URL demo://notes --read in another terminal.

demo://cities/{city} is a resource template, and postcard is a prompt. Both complete the
name of the city.
`

const citiesTemplate = "demo://cities/{city}"

// cityFacts is the content of a city's resource.
type cityFacts struct {
	Name    string `json:"name"`
	Country string `json:"country"`
	Founded int    `json:"founded"`
}

// cities returns the cities that have a resource.
func cities() []cityFacts {
	return []cityFacts{
		{"Cusco", "Peru", 1100},
		{"Kyoto", "Japan", 794},
		{"Osaka", "Japan", 645},
		{"Oslo", "Norway", 1048},
		{"Timbuktu", "Mali", 1100},
	}
}

type card struct {
	City string `json:"city" doc:"where the postcard is from"`
	Tone string `json:"tone,omitempty" enum:"friendly,witty,formal" doc:"default: friendly"`
}

// addCities adds the guide, the resources of cities, and the prompt about them.
func addCities(s *server.Server) {
	server.AddStatic(s, mcp.Resource{URI: "demo://guide", Name: "guide", Title: "Guide",
		Description: "What to try on this server", MimeType: "text/markdown"}, guide)
	server.AddTemplate(s, mcp.ResourceTemplate{URITemplate: citiesTemplate, Name: "cities", Title: "Cities",
		Description: "Facts about a city", MimeType: "application/json"}, readCity)
	server.CompleteTemplate(s, citiesTemplate, "city", completeCity)
	server.AddPrompt(s, mcp.Prompt{Name: "postcard", Title: "Postcard", Description: "Write a postcard from a city"},
		postcard)
	server.CompletePrompt(s, "postcard", "city", completeCity)
}

func readCity(_ context.Context, in struct {
	City string `json:"city"`
}) (cityFacts, error) {
	for _, c := range cities() {
		if strings.EqualFold(c.Name, in.City) {
			return c, nil
		}
	}
	return cityFacts{}, call.ErrResourceNotFound
}

func postcard(_ context.Context, in card) (string, error) {
	if in.Tone == "" {
		in.Tone = "friendly"
	}
	return fmt.Sprintf("Write a %s postcard from %s, in at most five sentences.", in.Tone, in.City), nil
}

func completeCity(_ context.Context, value string, _ map[string]string) ([]string, error) {
	var names []string
	for _, c := range cities() {
		if len(value) <= len(c.Name) && strings.EqualFold(c.Name[:len(value)], value) {
			names = append(names, c.Name)
		}
	}
	return names, nil
}

func addSouvenirs(s *server.Server) {
	server.AddTool(s, mcp.Tool{
		Name: "souvenir", Title: "Souvenir", Description: "Return audio, an embedded resource and a resource link",
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: new(bool)},
	}, souvenir)
}

// souvenir returns one of each kind of content except images.
func souvenir(_ context.Context, in struct {
	City string `json:"city" enum:"Cusco,Kyoto,Osaka,Oslo,Timbuktu" doc:"city of the souvenir"`
}) ([]mcp.Content, error) {
	uri := strings.Replace(citiesTemplate, "{city}", in.City, 1)
	return []mcp.Content{
		mcp.Text("Greetings from " + in.City + "!"),
		mcp.Audio(tone(440, 0.2), "audio/wav"),
		&mcp.EmbeddedResource{Resource: mcp.ResourceContents{URI: "demo://cards/" + in.City, MimeType: "text/plain",
			Text: fmt.Sprintf("This card is from %s.", in.City)}},
		&mcp.ResourceLink{URI: uri, Name: in.City, MimeType: "application/json", Description: "Facts about the city"},
	}, nil
}

// tone returns a sine wave as a WAV file: mono, 8 bits, 8 kHz.
func tone(hertz, seconds float64) []byte {
	const rate = 8000
	samples := make([]byte, int(rate*seconds))
	for i := range samples {
		samples[i] = byte(128 + 60*math.Sin(2*math.Pi*hertz*float64(i)/rate))
	}
	var b bytes.Buffer
	word := func(v uint32) { _ = binary.Write(&b, binary.LittleEndian, v) }
	half := func(v uint16) { _ = binary.Write(&b, binary.LittleEndian, v) }
	b.WriteString("RIFF")
	word(uint32(36 + len(samples)))
	b.WriteString("WAVEfmt ")
	word(16)   // size of the format
	half(1)    // PCM
	half(1)    // one channel
	word(rate) // samples per second
	word(rate) // bytes per second
	half(1)    // byte per sample
	half(8)    // bits per sample
	b.WriteString("data")
	word(uint32(len(samples)))
	b.Write(samples)
	return b.Bytes()
}

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
	server.AddResource(s, mcp.Resource{URI: notesURI, Name: "notes", Title: "Notes",
		Description: "The last 20 notes of all clients", MimeType: "text/plain"}, n.read)
	server.AddTool(s, mcp.Tool{Name: "note", Title: "Note",
		Description: "Add a note to demo://notes, which all clients can read",
		Annotations: &mcp.ToolAnnotations{OpenWorldHint: new(bool)}}, n.add, noteOptions...)
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
