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
		Name: "souvenir", Title: "Souvenir", Description: "Bring something back from a city: a tone to hear, a card, and a link to more",
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: new(bool)},
	}, souvenir)
}

// souvenir returns one of each kind of content but pictures.
func souvenir(_ context.Context, in struct {
	City string `json:"city" enum:"Cusco,Kyoto,Osaka,Oslo,Timbuktu" doc:"where from"`
}) ([]mcp.Content, error) {
	uri := strings.Replace(citiesTemplate, "{city}", in.City, 1)
	return []mcp.Content{
		mcp.Text("Greetings from " + in.City + "!"),
		mcp.Audio(tone(440, 0.2), "audio/wav"),
		&mcp.EmbeddedResource{Resource: mcp.ResourceContents{URI: "demo://cards/" + in.City, MimeType: "text/plain", Text: fmt.Sprintf("Wish you were here, in %s.", in.City)}},
		&mcp.ResourceLink{URI: uri, Name: in.City, MimeType: "application/json", Description: "What is known of the city"},
	}, nil
}

// tone is a sine as a WAV file: mono, 8 bits, 8 kHz.
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
	word(16)   // of what follows
	half(1)    // PCM
	half(1)    // channel
	word(rate) // samples a second
	word(rate) // bytes a second
	half(1)    // byte each
	half(8)    // bits each
	b.WriteString("data")
	word(uint32(len(samples)))
	b.Write(samples)
	return b.Bytes()
}
