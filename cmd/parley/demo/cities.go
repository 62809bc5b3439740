package demo

import (
	"context"
	"fmt"
	"strings"

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
	server.AddStatic(s, mcp.Resource{URI: "demo://guide", Name: "guide", Title: "Guide", Description: "What to try on this server", MimeType: "text/markdown"}, guide)
	server.AddTemplate(s, mcp.ResourceTemplate{URITemplate: citiesTemplate, Name: "cities", Title: "Cities", Description: "Facts about a city", MimeType: "application/json"}, readCity)
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
