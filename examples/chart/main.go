// Command chart is a server with a tool that returns several blocks of content: a text for the
// model, an image for the user, and a link to a resource of the server.
//
//	parley call chart values=20 values=80 values=50 --save . -- go run ./examples/chart
package main

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/draw"
	"image/png"
	"slices"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

type series struct {
	Values []int `json:"values" doc:"heights of the bars in percent" minItems:"1" maxItems:"40" minimum:"0" maximum:"100"`
}

const legend = "chart://legend"

func newServer() *server.Server {
	s := &server.Server{Name: "chart", Version: "1.0.0"}
	server.AddTool(s, mcp.Tool{Name: "chart", Description: "Draw a bar chart"}, drawChart)
	server.AddStatic(s, mcp.Resource{URI: legend, Name: "legend", MimeType: "text/plain"}, "A bar is 8 pixels wide.")
	return s
}

func drawChart(_ context.Context, in series) ([]mcp.Content, error) {
	picture := image.NewGray(image.Rect(0, 0, 10*len(in.Values), 100))
	for i, value := range in.Values {
		draw.Draw(picture, image.Rect(10*i+1, 100-value, 10*i+9, 100), image.White, image.Point{}, draw.Src)
	}
	var encoded bytes.Buffer
	if err := png.Encode(&encoded, picture); err != nil {
		return nil, err
	}
	return []mcp.Content{
		mcp.Text(fmt.Sprintf("%d bars, the highest has %d %%", len(in.Values), slices.Max(in.Values))),
		mcp.Image(encoded.Bytes(), "image/png"),
		&mcp.ResourceLink{URI: legend, Name: "legend"},
	}, nil
}

func main() {
	server.Main(newServer())
}
