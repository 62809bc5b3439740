package demo

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"strings"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

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
		&mcp.EmbeddedResource{Resource: mcp.ResourceContents{URI: "demo://cards/" + in.City, MimeType: "text/plain", Text: fmt.Sprintf("This card is from %s.", in.City)}},
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
