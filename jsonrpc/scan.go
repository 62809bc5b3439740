package jsonrpc

// scanner walks strict JSON once. Scanning functions take the index to begin at
// and return the index behind what they read, or -1 after a call of fail. They
// hand down open, the member names of the objects around them.
type scanner struct {
	data   []byte
	lim    Limits
	tokens int
	depth  int

	reason string // why the scan failed
	at     int
}

// Check reports whether data is one strict JSON value within lim. The error is
// an *InvalidMessageError. MaxID, MaxMethod and MaxBatch play no part.
func Check(data []byte, lim Limits) error {
	s := scanner{data: data, lim: lim}
	s.lim.setDefaults()
	if !s.whole() {
		return s.err()
	}
	return nil
}

// whole scans data as one value and nothing else.
func (s *scanner) whole() bool {
	var inline [inlineNames]string
	open := openNames{inline[:0]}
	i := s.value(s.space(0), &open)
	return i >= 0 && s.end(i)
}

// end reports whether nothing but space is left from i.
func (s *scanner) end(i int) bool {
	if i = s.space(i); i != len(s.data) {
		s.fail(i, "unexpected data after the value")
		return false
	}
	return true
}

func (s *scanner) fail(at int, reason string) int {
	s.reason, s.at = reason, at
	return -1
}

func (s *scanner) err() *InvalidMessageError {
	return &InvalidMessageError{Code: CodeParseError, Reason: s.reason, Offset: s.at}
}

func (s *scanner) space(i int) int { return skipSpace(s.data, i) }

// value scans the value that starts at i, without leading space.
func (s *scanner) value(i int, open *openNames) int {
	if i >= len(s.data) {
		return s.fail(i, "unexpected end")
	}
	if s.tokens++; s.tokens > s.lim.MaxTokens {
		return s.fail(i, "too many values in one message")
	}
	switch c := s.data[i]; c {
	case '{':
		return s.object(i, open, nil)
	case '[':
		return s.array(i, open)
	case '"':
		end, _ := s.str(i)
		return end
	case 't':
		return s.literal(i, "true")
	case 'f':
		return s.literal(i, "false")
	case 'n':
		return s.literal(i, "null")
	default:
		if c == '-' || '0' <= c && c <= '9' {
			return s.number(i)
		}
		return s.fail(i, "unexpected character")
	}
}

func (s *scanner) array(i int, open *openNames) int {
	if s.depth++; s.depth > s.lim.MaxDepth {
		return s.fail(i, "nested too deeply")
	}
	i = s.space(i + 1)
	if i < len(s.data) && s.data[i] == ']' {
		s.depth--
		return i + 1
	}
	for {
		if i = s.value(i, open); i < 0 {
			return -1
		}
		if i = s.space(i); i >= len(s.data) {
			return s.fail(i, "unexpected end")
		}
		switch s.data[i] {
		case ',':
			i = s.space(i + 1)
		case ']':
			s.depth--
			return i + 1
		default:
			return s.fail(i, "expected , or ]")
		}
	}
}

// object scans the object that starts at i. When members is not nil it is told
// where each member's value lies.
func (s *scanner) object(i int, open *openNames, members *Members) int {
	if s.depth++; s.depth > s.lim.MaxDepth {
		return s.fail(i, "nested too deeply")
	}
	start := i
	i = s.space(i + 1)
	if i < len(s.data) && s.data[i] == '}' {
		s.depth--
		return i + 1
	}
	names := open.object()
	for {
		name, from := s.member(i, open, &names)
		if from < 0 {
			return -1
		}
		if i = s.value(from, open); i < 0 {
			return -1
		}
		if members != nil {
			members.add(name, from-start, i-start)
		}
		if i = s.space(i); i >= len(s.data) {
			return s.fail(i, "unexpected end")
		}
		switch s.data[i] {
		case ',':
			i = s.space(i + 1)
		case '}':
			open.close(names)
			s.depth--
			return i + 1
		default:
			return s.fail(i, "expected , or }")
		}
	}
}

// member scans the name and the colon of a member that starts at i, of the object
// whose names these are, and returns the name and the index of the value.
func (s *scanner) member(i int, open *openNames, names *objectNames) (name string, value int) {
	if i >= len(s.data) || s.data[i] != '"' {
		return "", s.fail(i, "expected a member name")
	}
	if names.count == s.lim.MaxMembers {
		return "", s.fail(i, "too many members in one object")
	}
	if s.tokens++; s.tokens > s.lim.MaxTokens {
		return "", s.fail(i, "too many values in one message")
	}
	end, escaped := s.str(i)
	if end < 0 {
		return "", -1
	}
	if escaped {
		name = Unquote(s.data[i:end])
	} else {
		name = view(s.data[i+1 : end-1])
	}
	if !open.claim(names, name) {
		return "", s.fail(i, "duplicate member name")
	}
	if end = s.space(end); end >= len(s.data) || s.data[end] != ':' {
		return "", s.fail(end, "expected :")
	}
	return name, s.space(end + 1)
}

func (s *scanner) literal(i int, word string) int {
	if len(s.data)-i < len(word) || string(s.data[i:i+len(word)]) != word {
		return s.fail(i, "unknown literal")
	}
	return i + len(word)
}

func (s *scanner) number(i int) int {
	d := s.data
	if d[i] == '-' {
		i++
	}
	switch {
	case i < len(d) && d[i] == '0':
		i++
	case i < len(d) && '1' <= d[i] && d[i] <= '9':
		i = digits(d, i)
	default:
		return s.fail(i, "malformed number")
	}
	if i < len(d) && d[i] == '.' {
		j := digits(d, i+1)
		if j == i+1 {
			return s.fail(j, "malformed number")
		}
		i = j
	}
	if i < len(d) && (d[i] == 'e' || d[i] == 'E') {
		i++
		if i < len(d) && (d[i] == '+' || d[i] == '-') {
			i++
		}
		j := digits(d, i)
		if j == i {
			return s.fail(j, "malformed number")
		}
		i = j
	}
	return i
}

func digits(d []byte, i int) int {
	for i < len(d) && '0' <= d[i] && d[i] <= '9' {
		i++
	}
	return i
}
