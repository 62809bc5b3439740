package main

import (
	"strings"
	"testing"
)

func TestNearestReturnsTheMostSimilarName(t *testing.T) {
	names := []string{"read_file", "write_file", "files__greet", "files__bake", "Add"}
	for word, want := range map[string]string{
		"files__great": "files__greet", "mail__greet": "files__greet", "files__add": "",
		"read_fil": "read_file", "raed_file": "read_file", "greet": "files__greet", "add": "Add", "unrelated": "", "": "",
	} {
		if got := nearest(word, names); got != want {
			t.Errorf("nearest(%q) = %q, want %q", word, got, want)
		}
	}
}

func TestUnknownToolOfLargeCatalogueNamesTheSearch(t *testing.T) {
	err := unknownName("tool", "files__greet", []string{"call_tool", "describe_tool", "search_tools"})
	if want := "find it with search_tools, and call it with call_tool"; !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}
