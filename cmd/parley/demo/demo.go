// Package demo is a small MCP server that shows each feature of a server once:
//
//   - tools that return text (greet), exact numbers (add), structured content (weather), an
//     image (picture), audio and resources (souvenir), and errors (fail), and a tool whose
//     argument is mirrored in an HTTP header (now);
//   - tools that report progress and can be cancelled (count), and that log (checkup);
//   - tools that ask the client: a form (book_table), two forms at once followed by an
//     action that runs once (plan_trip), a web page (terms), the client's model
//     (summarize) and its directories (workspace);
//   - a tool that runs as a task and asks a question while it runs (bake);
//   - a list that changes (shop) and a resource that is updated (note, demo://notes);
//   - with authorization, a tool that returns the caller's identity (whoami) and a tool that
//     requires another scope (note);
//   - a resource, a resource template, and a prompt with completion.
package demo

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"image"
	"image/color"
	"image/png"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// New returns the demo server.
func New(version string) *server.Server { return newServer(version) }

func newServer(version string, noteOptions ...server.Option) *server.Server {
	s := &server.Server{
		Name:         "parley-demo",
		Version:      version,
		Info:         mcp.Implementation{Title: "Parley demo", Description: "Example tools, resources and a prompt"},
		Instructions: "These tools are examples; their data is made up.",
	}
	readOnly := &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: new(bool)}
	server.AddTool(s, mcp.Tool{Name: "greet", Title: "Greet", Description: "Greet a person by name",
		Annotations: readOnly}, greet)
	server.AddTool(s, mcp.Tool{Name: "add", Title: "Add", Description: "Add two integers exactly",
		Annotations: readOnly}, add)
	server.AddTool(s, mcp.Tool{Name: "count", Title: "Count", Description: "Count slowly, and report progress",
		Annotations: readOnly}, count)
	server.AddTool(s, mcp.Tool{Name: "now", Title: "Time", Description: "Return the time in a time zone",
		Annotations: readOnly}, now)
	server.AddTool(s, mcp.Tool{Name: "weather", Title: "Weather",
		Description: "Return made-up weather as structured content", Annotations: readOnly}, weather)
	server.AddTool(s, mcp.Tool{Name: "picture", Title: "Picture", Description: "Return a small PNG image",
		Annotations: readOnly}, picture)
	server.AddTool(s, mcp.Tool{Name: "fail", Title: "Fail", Description: "Return a tool error", Annotations: readOnly},
		fail)
	server.AddTool(s, mcp.Tool{Name: "book_table", Title: "Book a table",
		Description: "Book a table; ask the user for missing arguments",
		Annotations: &mcp.ToolAnnotations{OpenWorldHint: new(bool)}}, bookTable)
	server.AddTool(s, mcp.Tool{Name: "checkup", Title: "Checkup",
		Description: "Check a few machines, and log the findings", Annotations: readOnly}, checkup)
	addCities(s)
	addSouvenirs(s)
	addTrips(s)
	addBakery(s)
	addModel(s)
	addNotes(s, noteOptions...)
	addShop(s)
	return s
}

type greeting struct {
	Name  string `json:"name" doc:"name of the person"`
	Times int    `json:"times,omitempty" minimum:"1" maximum:"10" doc:"number of greetings; default: 1"`
}

func greet(_ context.Context, in greeting) (string, error) {
	text := "Hello, " + in.Name + "!"
	for i := 1; i < in.Times; i++ {
		text += " Hello!"
	}
	return text, nil
}

type summands struct {
	A int64 `json:"a" doc:"the first number"`
	B int64 `json:"b" doc:"the second number"`
}

type sum struct {
	Sum int64 `json:"sum"`
}

func add(_ context.Context, in summands) (sum, error) {
	total := in.A + in.B
	if (total > in.A) != (in.B > 0) && in.B != 0 {
		return sum{}, errors.New("the sum must fit into 64 bits")
	}
	return sum{total}, nil
}

type counting struct {
	To           int `json:"to" minimum:"1" maximum:"1000" doc:"last number"`
	Milliseconds int `json:"milliseconds,omitempty" minimum:"0" maximum:"10000" doc:"pause before each number; default: 200"`
}

func count(ctx context.Context, in counting) (string, error) {
	pause := 200 * time.Millisecond
	if in.Milliseconds > 0 {
		pause = time.Duration(in.Milliseconds) * time.Millisecond
	}
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for i := 1; i <= in.To; i++ {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return "", fmt.Errorf("cancelled at %d: %w", i-1, context.Cause(ctx))
		}
		if err := server.Progress(ctx, float64(i), float64(in.To), fmt.Sprintf("counted to %d", i)); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("Counted to %d.", in.To), nil
}

type place struct {
	Zone string `json:"zone,omitempty" mcp-header:"Zone" doc:"a time zone such as Europe/Oslo; default: UTC"`
}

func now(_ context.Context, in place) (string, error) {
	zone, err := time.LoadLocation(in.Zone)
	if err != nil {
		return "", fmt.Errorf("unknown time zone %q; write one such as Europe/Oslo", in.Zone)
	}
	return time.Now().In(zone).Format("Monday, 2 January 2006, 15:04:05 MST"), nil
}

type city struct {
	City string `json:"city" minLength:"1" doc:"any city"`
	Unit string `json:"unit,omitempty" enum:"celsius,fahrenheit" doc:"default: celsius"`
}

type report struct {
	City        string  `json:"city"`
	Temperature float64 `json:"temperature"`
	Unit        string  `json:"unit"`
	Sky         string  `json:"sky"`
	WindKmh     int     `json:"windKmh"`
}

// weather always returns the same weather for a city.
func weather(_ context.Context, in city) (report, error) {
	h := fnv.New32a()
	_, _ = h.Write([]byte(in.City))
	n := h.Sum32()
	r := report{
		City:        in.City,
		Temperature: float64(n%400)/10 - 10,
		Unit:        "celsius",
		Sky:         []string{"clear", "cloudy", "rainy", "snowy"}[n/400%4],
		WindKmh:     int(n / 1600 % 60),
	}
	if in.Unit == "fahrenheit" {
		r.Temperature, r.Unit = float64(int(r.Temperature*18+320))/10, in.Unit
	}
	return r, nil
}

type painting struct {
	Size int `json:"size,omitempty" minimum:"1" maximum:"512" doc:"width and height in pixels; default: 64"`
}

func picture(_ context.Context, in painting) ([]mcp.Content, error) {
	size := in.Size
	if size == 0 {
		size = 64
	}
	canvas := image.NewRGBA(image.Rect(0, 0, size, size))
	for y := range size {
		for x := range size {
			canvas.Set(x, y, color.RGBA{uint8(255 * x / size), uint8(255 * y / size), 160, 255})
		}
	}
	var data bytes.Buffer
	if err := png.Encode(&data, canvas); err != nil {
		return nil, err
	}
	return []mcp.Content{
		mcp.Text(fmt.Sprintf("A sunset, %d by %d pixels:", size, size)),
		mcp.Image(data.Bytes(), "image/png"),
	}, nil
}

type failure struct {
	Message string `json:"message,omitempty" doc:"text of the error"`
}

func fail(_ context.Context, in failure) (string, error) {
	if in.Message == "" {
		in.Message = "this tool always fails"
	}
	return "", errors.New(in.Message)
}

// The scopes of the demo server with authorization.
const (
	ScopeUse   = "demo"        // for every request
	ScopeNotes = "notes:write" // for the tool note, in addition
)

// Scopes returns all scopes of the demo server.
func Scopes() []string { return []string{ScopeUse, ScopeNotes} }

// NewAuthorized returns the demo server for authorized callers: the tool note requires the
// scope ScopeNotes, and the tool whoami returns the caller's principal.
func NewAuthorized(version string) *server.Server {
	s := newServer(version, server.RequireScopes(ScopeUse, ScopeNotes))
	readOnly := &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: new(bool)}
	server.AddTool(s, mcp.Tool{Name: "whoami", Title: "Who am I?",
		Description: "Return the identity and the scopes of the caller", Annotations: readOnly}, whoami)
	return s
}

type caller struct {
	Issuer  string   `json:"issuer"`
	Subject string   `json:"subject"`
	Client  string   `json:"client"`
	Scopes  []string `json:"scopes"`
}

func whoami(ctx context.Context, _ struct{}) (caller, error) {
	who := server.PrincipalOf(ctx)
	c := caller{Issuer: who.Issuer(), Subject: who.Subject(), Client: who.Client(), Scopes: []string{}}
	if info := auth.FromContext(ctx); info != nil {
		c.Scopes = append(c.Scopes, info.Scopes...)
	}
	return c, nil
}

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
		Description: "Facts about a city", MimeType: "application/json"}, readCity,
		server.Complete("city", completeCity))
	server.AddPrompt(s, mcp.Prompt{Name: "postcard", Title: "Postcard", Description: "Write a postcard from a city"},
		postcard, server.Complete("city", completeCity))
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
	wav := binary.LittleEndian.AppendUint32([]byte("RIFF"), uint32(36+len(samples)))
	wav = append(wav, "WAVEfmt "...)
	// the size of the format; PCM, one channel; samples and bytes per second; bytes per sample, bits per sample
	for _, v := range []uint32{16, 1 | 1<<16, rate, rate, 1 | 8<<16} {
		wav = binary.LittleEndian.AppendUint32(wav, v)
	}
	wav = binary.LittleEndian.AppendUint32(append(wav, "data"...), uint32(len(samples)))
	return append(wav, samples...)
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

func addNotes(s *server.Server, noteOptions ...server.Option) {
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
