package toolargs

import (
	"fmt"
	"strings"
)

// ParseStrings parses words of the form key=value.
func ParseStrings(words []string) (map[string]string, error) {
	values := make(map[string]string, len(words))
	for _, word := range words {
		key, value, found := strings.Cut(word, "=")
		if !found || key == "" {
			return nil, fmt.Errorf("invalid argument %q; write key=value", word)
		}
		if _, twice := values[key]; twice {
			return nil, fmt.Errorf("duplicate argument %q", key)
		}
		values[key] = value
	}
	return values, nil
}
