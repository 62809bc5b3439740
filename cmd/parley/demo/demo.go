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
	"errors"
	"fmt"
	"hash/fnv"
	"image"
	"image/color"
	"image/png"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// New returns the demo server.
func New(version string) *server.Server { return newServer(version) }

func newServer(version string, noteOptions ...server.ToolOption) *server.Server {
	s := &server.Server{
		Name:         "parley-demo",
		Title:        "Parley demo",
		Version:      version,
		Description:  "Example tools, resources and a prompt",
		Instructions: "These tools are examples; their data is made up.",
	}
	readOnly := &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: new(bool)}
	server.AddTool(s, mcp.Tool{Name: "greet", Title: "Greet", Description: "Greet a person by name",
		Annotations: readOnly}, greet)
	server.AddTool(s, mcp.Tool{Name: "add", Title: "Add", Description: "Add two integers exactly",
		Annotations: readOnly},
		add)
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
