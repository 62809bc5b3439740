package jsonscan

import (
	"bytes"
	"iter"
)

// SkipString returns the index after the string whose opening quote is at i. The string must have
// been scanned. For other bytes the result is unspecified, but at most len(d).
func SkipString(d []byte, i int) int {
	for first := i + 1; ; {
		n := bytes.IndexByte(d[min(i+1, len(d)):], '"')
		if n < 0 {
			return len(d)
		}
		i += 1 + n
		slashes := i
		for slashes > first && d[slashes-1] == '\\' {
			slashes--
		}
		if (i-slashes)%2 == 0 {
			return i + 1
		}
	}
}

// SkipValue returns the index after the value that starts at i, which must have been scanned. For
// other bytes the result is unspecified, but at most len(d).
func SkipValue(d []byte, i int) int {
	for depth := 0; i < len(d); {
		switch d[i] {
		case '"':
			if i = SkipString(d, i); depth == 0 {
				return i
			}
		case '{', '[':
			depth++
			i++
		case '}', ']':
			if depth == 0 {
				return i
			}
			depth--
			if i++; depth == 0 {
				return i
			}
		case ',', ':', ' ', '\n', '\t', '\r':
			if depth == 0 {
				return i
			}
			i++
		default:
			i++
		}
	}
	return i
}

// Elements yields the elements of an array that has been scanned.
func Elements(array []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for i := SkipSpace(array, 1); i < len(array) && array[i] != ']'; i = SkipSpace(array, i) {
			if array[i] == ',' {
				i++
				continue
			}
			end := SkipValue(array, i)
			if end == i || !yield(array[i:end:end]) {
				return
			}
			i = end
		}
	}
}

// ReplaceLineBreaks replaces the line breaks of a text that has been scanned by spaces. They occur
// between its tokens only, as strings escape them.
func ReplaceLineBreaks(d []byte) {
	for _, lineBreak := range [...]byte{'\n', '\r'} {
		for rest := d; ; {
			i := bytes.IndexByte(rest, lineBreak)
			if i < 0 {
				break
			}
			rest[i] = ' '
			rest = rest[i+1:]
		}
	}
}
