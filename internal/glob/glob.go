// Package glob matches names with patterns.
package glob

import "strings"

// Match reports whether the whole name matches a pattern. In a pattern, * matches any number
// of characters and ? matches one character. Every other character matches itself; letters are
// case-sensitive. The time is at most proportional to the product of both
// lengths.
func Match(pattern, name string) bool {
	star, resume := -1, 0 // the last * of the pattern, and the end of its match in the name
	p, n := 0, 0
	for n < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, resume = p, n
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == name[n]):
			width := 1
			if pattern[p] == '?' {
				width = runeLength(name[n:])
			}
			p, n = p+1, n+width
		case star >= 0:
			resume += runeLength(name[resume:])
			p, n = star+1, resume
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// Any reports whether a name matches one of several patterns.
func Any(patterns []string, name string) bool {
	for _, pattern := range patterns {
		if Match(pattern, name) {
			return true
		}
	}
	return false
}

// runeLength returns the number of bytes of the first character of s, which is not empty.
func runeLength(s string) int {
	for i := range s {
		if i > 0 {
			return i
		}
	}
	return len(s)
}
