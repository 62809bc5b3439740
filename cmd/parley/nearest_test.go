package main

import (
	"testing"
)

func TestNearestReturnsTheMostSimilarName(t *testing.T) {
	names := []string{"read_file", "write_file", "files__greet", "Add"}
	for word, want := range map[string]string{
		"read_fil": "read_file", "raed_file": "read_file", "greet": "files__greet", "add": "Add", "unrelated": "", "": "",
	} {
		if got := nearest(word, names); got != want {
			t.Errorf("nearest(%q) = %q, want %q", word, got, want)
		}
	}
}
