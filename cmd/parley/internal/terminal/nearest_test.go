package terminal

import "testing"

func TestNearestReturnsTheMostSimilarName(t *testing.T) {
	names := []string{"read_file", "write_file", "files__greet", "files__bake", "mails__send", "Add"}
	for word, want := range map[string]string{
		"files__great": "files__greet", "file__greet": "files__greet", "mail__greet": "", "mails__greet": "",
		"files__add": "",
		"read_fil":   "read_file", "raed_file": "read_file", "dAd": "Add", "greet": "files__greet", "add": "Add",
		"unrelated": "", "": "",
	} {
		if got := Nearest(word, names); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", word, got, want)
		}
	}
}
