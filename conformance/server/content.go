package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

type none struct{}

// addContentTools adds the tools that return each kind of content, fail or report progress.
func addContentTools(s *server.Server) {
	image := mcp.Image(sample(png), "image/png")
	resource := &mcp.EmbeddedResource{Resource: mcp.ResourceContents{
		URI: "test://embedded-resource", MimeType: "text/plain", Text: "This is an embedded resource content.",
	}}
	add := func(name, description string, content ...mcp.Content) {
		server.AddTool(s, mcp.Tool{Name: name, Description: description},
			func(context.Context, none) ([]mcp.Content, error) { return content, nil })
	}
	add("test_simple_text", "Returns a text", mcp.Text("This is a simple text response for testing."))
	add("test_image_content", "Returns an image", image)
	add("test_audio_content", "Returns audio", mcp.Audio(sample(wav), "audio/wav"))
	add("test_embedded_resource", "Returns an embedded resource", resource)
	add("test_multiple_content_types", "Returns a text, an image and an embedded resource",
		mcp.Text("Multiple content types:"), image, resource)

	server.AddTool(s, mcp.Tool{Name: "test_error_handling", Description: "Always fails"},
		func(context.Context, none) (string, error) {
			return "", errors.New("this tool intentionally returns an error for testing")
		})
	server.AddTool(s, mcp.Tool{Name: "test_tool_with_progress", Description: "Reports progress three times"},
		reportProgress)
	add("test_tool_fast", "Returns at once", mcp.Text("Done."))
	server.AddTool(s, mcp.Tool{Name: "test_tool_slow", Description: "Reports progress until the time is over"},
		reportProgressFor)
}

func reportProgress(ctx context.Context, _ none) (string, error) {
	for _, done := range []float64{0, 50, 100} {
		if err := server.Progress(ctx, done, 100, fmt.Sprintf("completed step %v of 100", done)); err != nil {
			return "", err
		}
		if err := work(ctx, 50*time.Millisecond); err != nil {
			return "", err
		}
	}
	return "Done.", nil
}

// reportProgressFor runs until its time is over or the call is cancelled.
func reportProgressFor(ctx context.Context, in struct {
	Duration float64 `json:"durationMs,omitempty" doc:"how long it takes, in milliseconds" default:"5000"`
}) (string, error) {
	const interval = 200
	for done := 0.0; done < in.Duration; done += interval {
		if err := server.Progress(ctx, done, in.Duration, ""); err != nil {
			return "", err
		}
		if err := work(ctx, interval*time.Millisecond); err != nil {
			return "", err
		}
	}
	return "Done.", nil
}

// An image of one red pixel, and audio without samples.
const (
	png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
	wav = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
)

// sample decodes one of the constants above.
func sample(text string) []byte {
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		panic(err)
	}
	return data
}
