package main

import (
	"strings"
	"testing"
)

func TestUnknownToolOfLargeCatalogueNamesTheSearch(t *testing.T) {
	err := unknownName("tool", "files__greet", []string{"call_tool", "describe_tool", "search_tools"})
	if want := "find it with search_tools, and call it with call_tool"; !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}
