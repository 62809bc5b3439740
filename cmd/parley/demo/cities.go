package demo

import (
	"context"
	"fmt"
	"strings"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

const guide = `# The demo server

Its tools make things up, or compute them on the spot. Try

- greet and add, which answer at once,
- count, which reports progress,
- book_table and plan_trip, which ask you,
- checkup, which logs: add --log-level debug,
- note, which changes demo://notes, and shop, which changes the list of tools: see it
  happen with parley watch URL demo://notes --read, in another terminal.

demo://cities/{city} is a resource for each city, and postcard a prompt. What {city}
can be is completed.
`

const citiesTemplate = "demo://cities/{city}"

// cityFacts are what the resource of a city holds.
type cityFacts struct {
	Name    string `json:"name"`
	Country string `json:"country"`
	Founded int    `json:"founded"`
}

// cities returns what there are resources of.
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
	City string `json:"city" doc:"where you are"`
	Tone string `json:"tone,omitempty" enum:"warm,witty,formal" doc:"warm unless given"`
}

// addCities offers the guide, the resources of cities, and the prompt about them.
func addCities(s *server.Server) {
	server.AddStatic(s, mcp.Resource{URI: "demo://guide", Name: "guide", Title: "Guide", Description: "What there is to try", MimeType: "text/markdown"}, guide)
	server.AddTemplate(s, mcp.ResourceTemplate{URITemplate: citiesTemplate, Name: "cities", Title: "Cities", Description: "What is known of a city", MimeType: "application/json"}, readCity)
	server.CompleteTemplate(s, citiesTemplate, "city", completeCity)
	server.AddPrompt(s, mcp.Prompt{Name: "postcard", Title: "Postcard", Description: "Write a postcard from a city"}, postcard)
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
	return cityFacts{}, server.ErrResourceNotFound
}

func postcard(_ context.Context, in card) (string, error) {
	if in.Tone == "" {
		in.Tone = "warm"
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
