package server_test

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// wrongFields are fields of a server with invalid values.
var wrongFields = map[string][]func(*server.Server){
	"WebsiteURL": {
		func(s *server.Server) { s.WebsiteURL = "example.com" },
		func(s *server.Server) { s.WebsiteURL = "javascript:x" },
	},
	"Keys":     {func(s *server.Server) { s.Keys = [][]byte{[]byte("short")} }},
	"Auth":     {func(s *server.Server) { s.Auth = &auth.ProtectedResource{} }},
	"PageSize": {func(s *server.Server) { s.PageSize = -1 }},
	"AllowedOrigins": origins("", "*", "null", "app.example.com", "https://app.example.com/", "https://App.example.com",
		"https://app.example.com:443", "http://app.example.com:80", "https://user@app.example.com", "https://app.example.com?x"),
	"AllowedHosts": hosts("", "*", "*.example.com", "https://example.com", "example.com/mcp", "user@example.com", "exa mple.com", ":8080", "example.com:x"),
}

func origins(all ...string) (wrong []func(*server.Server)) {
	for _, one := range all {
		wrong = append(wrong, func(s *server.Server) { s.AllowedOrigins = []string{"https://right.example", one} })
	}
	return wrong
}

func hosts(all ...string) (wrong []func(*server.Server)) {
	for _, one := range all {
		wrong = append(wrong, func(s *server.Server) { s.AllowedHosts = []string{"right.example", one} })
	}
	return wrong
}

// anyValue has the fields that accept every value, and the reasons.
var anyValue = map[string]string{
	"Name": "text", "Version": "text", "Title": "text", "Description": "text", "Instructions": "text",
	"KV": "nil is the memory", "Log": "nil is the memory", "Bus": "nil is the memory", "Logger": "nil is the default", "Middleware": "functions",
	"Icons":        "clients ignore icons with unsafe sources",
	"Catalog":      "what the server offers",
	"KeepAlive":    "a negative value disables pings",
	"ListCache":    "a negative time means stale",
	"LocalScopes":  "a scope that no tool requires has no effect",
	"RootsChanged": "a function", "UnknownSubscription": "a function", "Personal": "a function", "WhileListening": "a function", "PersonalOutdated": "a function", "Hide": "a function", "DiscoverCache": "a negative time means stale",
	"CallsPerSecond": "a negative value means no limit",
	"ListsPerSecond": "a negative value means no limit",
}

func wantWrong(t *testing.T, field string, s *server.Server) {
	t.Helper()
	if err := s.Check(); err == nil || !strings.HasPrefix(err.Error(), "server: "+field) {
		t.Errorf("%s: Check returns %v", field, err)
	}
}

// Every field of a Server is in one of the tables, so that a new field is not forgotten.
func TestCheckRejectsWrongValuesOfEveryField(t *testing.T) {
	fields := reflect.TypeFor[server.Server]()
	for i := range fields.NumField() {
		f := fields.Field(i)
		wrong := wrongFields[f.Name]
		if !f.IsExported() || f.Name == "Limits" {
			continue
		}
		if (wrong == nil) == (anyValue[f.Name] == "") {
			t.Errorf("%s must be in one of the tables of this test", f.Name)
		}
		for _, set := range wrong {
			s := new(server.Server)
			set(s)
			wantWrong(t, f.Name, s)
		}
	}
	limits := reflect.TypeFor[server.Limits]()
	for i := range limits.NumField() {
		name := limits.Field(i).Name
		if anyValue[name] != "" {
			continue
		}
		s := new(server.Server)
		if f := reflect.ValueOf(&s.Limits).Elem().Field(i); f.CanInt() {
			f.SetInt(-1)
		}
		wantWrong(t, "Limits."+name, s)
	}
	wantWrong(t, "Limits.CallsPerSecond", &server.Server{Limits: server.Limits{CallsPerSecond: math.NaN()}})
	wantWrong(t, "Limits.CallsPerSecond and ListsPerSecond", &server.Server{Limits: server.Limits{ListsPerSecond: math.NaN()}})
}

func TestCheckAcceptsRightValues(t *testing.T) {
	s := &server.Server{
		WebsiteURL:     "https://example.com/about",
		Icons:          mcp.Icons{{Src: "https://example.com/i.png"}, {Src: "data:image/png;base64,AA=="}},
		AllowedOrigins: []string{"https://app.example.com", "http://localhost:3000", "https://[::1]:8443", "chrome-extension://abcdef"},
		AllowedHosts:   []string{"example.com", "Example.com:8080", "192.0.2.1", "[::1]:80", "::1", "localhost"},
		Limits:         server.Limits{CallsPerSecond: -1},
		KeepAlive:      -1,
		ListCache:      server.CachePolicy{TTL: -1},
	}
	if err := s.Check(); err != nil {
		t.Error(err)
	}
}
