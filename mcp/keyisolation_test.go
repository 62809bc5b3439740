package mcp_test

import (
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/parley-mcp/parley/jsonrpc"
)

// memberValues are values of members. One of them sets each member of the vocabulary.
var memberValues = []string{
	`"x"`, `7`, `true`, `{}`, `["x"]`, `[{}]`, `{"x":{}}`, `{"x":"y"}`, `"eA=="`, `{"type":"text","text":"x"}`, `[{"type":"text","text":"x"}]`, `{"type":"ref/prompt","name":"x"}`, `{"x":{"type":"string"}}`,
	`"https://example.com"`, `{"values":["x"]}`, `[{"role":"user","content":{"type":"text","text":"x"}}]`,
}

// valueOf returns a value that sets p in an object without other members.
func valueOf(p place) (string, bool) {
	without, err := decodeAs(p.root, p.json("unknown name", "0"))
	if err != nil {
		return "", false
	}
	for _, value := range memberValues {
		if with, err := decodeAs(p.root, p.json(p.name, value)); err == nil && !reflect.DeepEqual(with, without) {
			return value, true
		}
	}
	return "", false
}

// FuzzKeyIsolation checks for every member of every wire type that only its own name sets it: a member with another name,
// also one that differs in case, in normalization or in an invisible character, is not taken for it.
func FuzzKeyIsolation(f *testing.F) {
	var all []place
	var values []string // the value of each place that sets the member
	known := make(map[string]bool)
	var without []place
	for _, p := range places() {
		known[p.name] = true
		if value, ok := valueOf(p); ok {
			f.Add(uint16(len(all)), "unknown name")
			all, values = append(all, p), append(values, value)
		} else {
			without = append(without, p)
		}
	}
	// Icons without a src are dropped, and messages must have all their members.
	if len(all) < 500 || len(without) > len(all)/10 {
		f.Fatalf("%d members can be set alone, and %d cannot: %v", len(all), len(without), without)
	}
	f.Fuzz(func(t *testing.T, at uint16, key string) {
		p, value := all[int(at)%len(all)], values[int(at)%len(all)]
		without, err := decodeAs(p.root, p.json("unknown name", "0"))
		if err != nil {
			t.Fatal(err)
		}
		keys := []string{
			key, strings.ToUpper(p.name), strings.ToUpper(p.name[:1]) + p.name[1:], strings.ToLower(p.name), strings.ReplaceAll(p.name, "s", "ſ"), strings.ReplaceAll(p.name, "k", "K"),
			p.name + "\x00", p.name + "\u200d", " " + p.name, strings.ReplaceAll(p.name, "e", "e\u0301"), strings.ReplaceAll(p.name, "a", "а"), p.name + key, key + p.name,
		}
		for _, key := range keys {
			if known[key] || !utf8.ValidString(key) {
				continue
			}
			// p.json writes the name between quotation marks.
			quoted := string(jsonrpc.AppendString(nil, key))
			raw := p.json(quoted[1:len(quoted)-1], value)
			if with, err := decodeAs(p.root, raw); err == nil && !reflect.DeepEqual(with, without) {
				t.Fatalf("%s is decoded as %s: %+v", raw, p, with)
			}
		}
	})
}
