// Package demo is a small MCP server to try things with. It shows each thing that a
// server can do once:
//
//   - tools that answer with text (greet), exact numbers (add), structured content
//     (weather), pictures (picture), sound and resources (souvenir), and errors (fail);
//     one whose argument is repeated in a header (now);
//   - tools that take their time, with progress and cancellation (count), and that log
//     (checkup);
//   - tools that ask: a form (book_table), two at once and then something that happens
//     once (plan_trip), a web page to visit (terms), the client's model (summarize) and
//     its directories (workspace);
//   - lists that change (shop) and a resource that is updated (note, demo://notes);
//   - where callers log in, a tool that tells who they are (whoami) and one that needs a
//     scope of its own (note);
//   - a resource, a template, and a prompt with completion.
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

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// New returns the demo server.
func New(version string) *server.Server { return newServer(version) }

func newServer(version string, toLeaveNotes ...server.ToolOption) *server.Server {
	s := &server.Server{
		Name:         "parley-demo",
		Title:        "Parley demo",
		Version:      version,
		Description:  "A few tools, resources and a prompt to try things with",
		Instructions: "These tools are for trying things out: what they return is made up or computed on the spot.",
	}
	readOnly := &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: new(bool)}
	server.AddTool(s, mcp.Tool{Name: "greet", Title: "Greet", Description: "Greet somebody by name", Annotations: readOnly}, greet)
	server.AddTool(s, mcp.Tool{Name: "add", Title: "Add", Description: "Add whole numbers, exactly", Annotations: readOnly}, add)
	server.AddTool(s, mcp.Tool{Name: "count", Title: "Count", Description: "Count slowly, and report each step as progress", Annotations: readOnly}, count)
	server.AddTool(s, mcp.Tool{Name: "now", Title: "Time", Description: "Tell the time in a time zone", Annotations: readOnly}, now)
	server.AddTool(s, mcp.Tool{Name: "weather", Title: "Weather", Description: "Make up the weather of a city, as structured data", Annotations: readOnly}, weather)
	server.AddTool(s, mcp.Tool{Name: "picture", Title: "Picture", Description: "Paint a small picture, a PNG", Annotations: readOnly}, picture)
	server.AddTool(s, mcp.Tool{Name: "fail", Title: "Fail", Description: "Fail, to see what that looks like", Annotations: readOnly}, fail)
	server.AddTool(s, mcp.Tool{Name: "book_table", Title: "Book a table", Description: "Book a table; asks for what is not given", Annotations: &mcp.ToolAnnotations{OpenWorldHint: new(bool)}}, bookTable)
	server.AddTool(s, mcp.Tool{Name: "checkup", Title: "Checkup", Description: "Check a few machines, and log what is found", Annotations: readOnly}, checkup)
	addCities(s)
	addSouvenirs(s)
	addTrips(s)
	addModel(s)
	addNotes(s, toLeaveNotes...)
	addShop(s)
	return s
}

type greeting struct {
	Name  string `json:"name" doc:"who to greet"`
	Times int    `json:"times,omitempty" minimum:"1" maximum:"10" doc:"how often; once unless given"`
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
		return sum{}, errors.New("the sum does not fit into 64 bits")
	}
	return sum{total}, nil
}

type counting struct {
	To           int `json:"to" minimum:"1" maximum:"1000" doc:"how far to count"`
	Milliseconds int `json:"milliseconds,omitempty" minimum:"0" maximum:"10000" doc:"the pause before each number; 200 unless given"`
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
			return "", fmt.Errorf("stopped at %d: %w", i-1, context.Cause(ctx))
		}
		if err := server.Progress(ctx, float64(i), float64(in.To), fmt.Sprintf("counted to %d", i)); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("Counted to %d.", in.To), nil
}

type place struct {
	Zone string `json:"zone,omitempty" mcp-header:"Zone" doc:"a time zone such as Europe/Oslo; UTC unless given"`
}

func now(_ context.Context, in place) (string, error) {
	zone, err := time.LoadLocation(in.Zone)
	if err != nil {
		return "", fmt.Errorf("there is no time zone %q: try Europe/Oslo", in.Zone)
	}
	return time.Now().In(zone).Format("Monday, 2 January 2006, 15:04:05 MST"), nil
}

type city struct {
	City string `json:"city" minLength:"1" doc:"any city"`
	Unit string `json:"unit,omitempty" enum:"celsius,fahrenheit" doc:"celsius unless given"`
}

type report struct {
	City        string  `json:"city"`
	Temperature float64 `json:"temperature"`
	Unit        string  `json:"unit"`
	Sky         string  `json:"sky"`
	WindKmh     int     `json:"windKmh"`
}

// weather is the same for a city at all times, so that it can be relied on.
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
	Size int `json:"size,omitempty" minimum:"1" maximum:"512" doc:"pixels on each side; 64 unless given"`
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
	Message string `json:"message,omitempty" doc:"what to say about it"`
}

func fail(_ context.Context, in failure) (string, error) {
	if in.Message == "" {
		in.Message = "this tool always fails"
	}
	return "", errors.New(in.Message)
}
