package jsonscan

import (
	"strconv"
)

// Scanner checks a JSON text in a single pass. The caller sets the exported
// fields before the first call.
//
// Scanning methods take the index at which to begin and return the index after
// the part that they have scanned, or -1 after an error, which [Scanner.Err]
// returns. They share a [Names], which holds the keys of the open objects.
//
// A Scanner retains Data. It is not safe for concurrent use.
type Scanner struct {
	// Data is the text. It must not change while the scanner or a name that it
	// returned is in use.
	Data []byte
	// MaxDepth bounds the nesting of objects and arrays. While it scans, the scanner
	// counts it down to how many levels are still allowed.
	MaxDepth int
	// MaxMembers bounds the keys of one object.
	MaxMembers int
	// MaxTokens bounds the values and keys of the text. The scanner counts it down
	// to how many are still allowed.
	MaxTokens int
	// MaxExponent bounds the digits of a number's exponent, leading zeros not
	// counted. Zero means no bound.
	MaxExponent int
	// Surrogates says what the scanner does with lone surrogates in strings other
	// than keys.
	Surrogates Surrogates

	replaced int       // the index after the last surrogate that was replaced or kept
	doc      *Document // records tokens unless nil
	fault    Fault
	at       int
}

// Surrogates is a way to treat lone surrogates, such as \ud83d. Programs that cut
// texts send them.
type Surrogates uint8

const (
	// RejectSurrogates makes a lone surrogate an error.
	RejectSurrogates Surrogates = iota
	// ReplaceSurrogates writes [Replacement] in its place, into a copy of Data that
	// replaces Data.
	ReplaceSurrogates
	// KeepSurrogates accepts it.
	KeepSurrogates
)

// Replacement is U+FFFD as the scanner writes it. Encoders write it in another way,
// so a program can distinguish a replaced character from one that was sent.
const Replacement = `\ufFfD`

// Err returns the error after a method has returned -1 or false.
func (s *Scanner) Err() *Error { return &Error{Fault: s.fault, Offset: s.at} }

// Fail records an error at an offset and returns -1.
func (s *Scanner) Fail(at int, fault Fault) int {
	s.fault, s.at = fault, at
	return -1
}

// Whole scans the text as one value and nothing else.
func (s *Scanner) Whole(names *Names) bool {
	i := s.Value(SkipSpace(s.Data, 0), names)
	return i >= 0 && s.Rest(i)
}

// Rest reports whether the text holds nothing but white space from i.
func (s *Scanner) Rest(i int) bool {
	if i = SkipSpace(s.Data, i); i != len(s.Data) {
		s.Fail(i, TrailingData)
		return false
	}
	return true
}

// Value scans the value that starts at i.
func (s *Scanner) Value(i int, names *Names) int {
	if i >= len(s.Data) {
		return s.Fail(i, UnexpectedEnd)
	}
	if s.MaxTokens--; s.MaxTokens < 0 {
		return s.Fail(i, TooManyTokens)
	}
	var end int
	var kind Kind
	var plain bool
	switch c := s.Data[i]; c {
	case '{':
		return s.object(i, names)
	case '[':
		return s.array(i, names)
	case '"':
		end, escaped := s.text(i)
		if s.doc != nil && end >= 0 {
			s.doc.pushText(i, end, escaped)
		}
		return end
	case 't':
		kind = KindBoolean
		end = s.literal(i, "true")
	case 'f':
		kind = KindBoolean
		end = s.literal(i, "false")
	case 'n':
		kind = KindNull
		end = s.literal(i, "null")
	default:
		if c != '-' && (c < '0' || c > '9') {
			return s.Fail(i, UnexpectedCharacter)
		}
		kind = KindNumber
		end, plain = s.number(i)
	}
	if s.doc != nil && end >= 0 {
		s.doc.push(Token{Start: uint32(i), End: uint32(end), Kind: kind, Plain: plain})
	}
	return end
}

// enter begins a container that has been counted.
func (s *Scanner) enter(i int, kind Kind) (token uint32, ok bool) {
	if s.MaxDepth--; s.MaxDepth < 0 {
		s.Fail(i, TooDeep)
		return 0, false
	}
	if s.doc != nil {
		token = s.doc.push(Token{Start: uint32(i), Kind: kind})
	}
	return token, true
}

// leave ends the container that was entered as token. It returns end.
func (s *Scanner) leave(token uint32, end, count int) int {
	s.MaxDepth++
	if s.doc != nil {
		t := &s.doc.Tokens[token]
		t.End, t.Next, t.Count = uint32(end), uint32(len(s.doc.Tokens)), uint32(count)
	}
	return end
}

func (s *Scanner) array(i int, names *Names) int {
	token, ok := s.enter(i, KindArray)
	if !ok {
		return -1
	}
	i = SkipSpace(s.Data, i+1)
	if i < len(s.Data) && s.Data[i] == ']' {
		return s.leave(token, i+1, 0)
	}
	for count := 1; ; count++ {
		if i = s.Value(i, names); i < 0 {
			return s.failElement(token, count-1)
		}
		if i = SkipSpace(s.Data, i); i >= len(s.Data) {
			s.Fail(i, UnexpectedEnd)
			return s.failElement(token, count)
		}
		switch s.Data[i] {
		case ',':
			i = SkipSpace(s.Data, i+1)
		case ']':
			return s.leave(token, i+1, count)
		default:
			s.Fail(i, ExpectedElementEnd)
			return s.failElement(token, count)
		}
	}
}

// failElement records how many elements of an array have been scanned, for the
// path of the error, and returns -1.
func (s *Scanner) failElement(token uint32, count int) int {
	if s.doc != nil {
		s.doc.Tokens[token].Count = uint32(count)
	}
	return -1
}

func (s *Scanner) object(i int, names *Names) int {
	var o Object
	i = s.open(i, names, &o)
	for i >= 0 && !o.Closed {
		_, from := s.Member(i, names, &o)
		if from < 0 {
			return -1
		}
		if i = s.Value(from, names); i < 0 {
			return -1
		}
		i = s.Next(i, names, &o)
	}
	return i
}

// Object is an object that is being scanned. [Scanner.Open] begins it. While
// Closed is false, the caller scans a key with [Scanner.Member], then its value
// with [Scanner.Value] or as another object, and calls [Scanner.Next].
type Object struct {
	// Closed reports whether the object has ended.
	Closed bool

	token uint32
	names openObject
}

// Open begins the object that starts at i, for which o must be zero. It returns the index of the first key,
// or the index after the object if the object is empty.
func (s *Scanner) Open(i int, names *Names, o *Object) int {
	if s.MaxTokens--; s.MaxTokens < 0 {
		return s.Fail(i, TooManyTokens)
	}
	return s.open(i, names, o)
}

// open begins an object that has already been counted.
func (s *Scanner) open(i int, names *Names, o *Object) int {
	token, ok := s.enter(i, KindObject)
	if !ok {
		return -1
	}
	o.token, o.names.first = token, len(names.list)
	if end := SkipSpace(s.Data, i+1); end < len(s.Data) && s.Data[end] == '}' {
		o.Closed = true
		return s.leave(token, end+1, 0)
	}
	return i + 1
}

// Member scans a key and its colon, and white space around them, from i on. It
// returns the key as name, and the index of the value. The name is a view of the
// text unless it contains escapes.
func (s *Scanner) Member(i int, names *Names, o *Object) (name string, value int) {
	if i = SkipSpace(s.Data, i); i >= len(s.Data) {
		return "", s.Fail(i, UnexpectedEnd)
	}
	if s.Data[i] != '"' {
		return "", s.Fail(i, ExpectedName)
	}
	if o.names.count == s.MaxMembers {
		return "", s.Fail(i, TooManyMembers)
	}
	if s.MaxTokens--; s.MaxTokens < 0 {
		return "", s.Fail(i, TooManyTokens)
	}
	end, escaped := s.text(i)
	if end < 0 {
		return "", -1
	}
	if s.doc != nil {
		s.doc.pushText(i, end, escaped)
	}
	if escaped {
		if s.replaced > i {
			return "", s.Fail(s.replaced-len(Replacement), LoneSurrogate)
		}
		name = Unquote(s.Data[i:end])
	} else {
		name = View(s.Data[i+1 : end-1])
	}
	if !names.claim(&o.names, name) {
		return "", s.Fail(i, DuplicateName)
	}
	if end = SkipSpace(s.Data, end); end >= len(s.Data) {
		return "", s.Fail(end, UnexpectedEnd)
	}
	if s.Data[end] != ':' {
		return "", s.Fail(end, ExpectedColon)
	}
	return name, SkipSpace(s.Data, end+1)
}

// Next continues after a value that ends at i. It returns the index of the next
// key, or the index after the object if that was the last value.
func (s *Scanner) Next(i int, names *Names, o *Object) int {
	if i < len(s.Data) && s.Data[i] == ',' {
		return i + 1 // the usual case, inlined
	}
	return s.next(i, names, o)
}

func (s *Scanner) next(i int, names *Names, o *Object) int {
	if i = SkipSpace(s.Data, i); i >= len(s.Data) {
		return s.Fail(i, UnexpectedEnd)
	}
	switch s.Data[i] {
	case ',':
		return i + 1
	case '}':
		names.close(&o.names)
		o.Closed = true
		return s.leave(o.token, i+1, o.names.count)
	default:
		return s.Fail(i, ExpectedMemberEnd)
	}
}

func (s *Scanner) literal(i int, word string) int {
	if len(s.Data)-i < len(word) || string(s.Data[i:i+len(word)]) != word {
		return s.Fail(i, UnknownLiteral)
	}
	return i + len(word)
}

// SkipSpace returns the index of the first byte from i on that is not JSON's
// white space.
func SkipSpace(d []byte, i int) int {
	for i < len(d) && d[i] <= ' ' && (d[i] == ' ' || d[i] == '\n' || d[i] == '\t' || d[i] == '\r') {
		i++
	}
	return i
}

// Fault is the reason why a text is rejected.
type Fault uint8

// The faults. The last five are bounds that the text exceeds.
const (
	UnexpectedEnd Fault = iota + 1
	UnexpectedCharacter
	UnknownLiteral
	MalformedNumber
	UnterminatedString
	ControlCharacter
	MalformedEscape
	LoneSurrogate
	InvalidUTF8
	ExpectedName
	ExpectedColon
	ExpectedMemberEnd
	ExpectedElementEnd
	DuplicateName
	TrailingData
	NameCase

	TooDeep
	TooManyMembers
	TooManyTokens
	TooLargeExponent
)

// String returns the fault as a phrase, such as "duplicate key".
func (f Fault) String() string {
	switch f {
	case UnexpectedEnd:
		return "unexpected end"
	case UnexpectedCharacter:
		return "unexpected character"
	case UnknownLiteral:
		return "unknown literal"
	case MalformedNumber:
		return "malformed number"
	case UnterminatedString:
		return "unterminated string"
	case ControlCharacter:
		return "control character in string"
	case MalformedEscape:
		return "malformed escape"
	case LoneSurrogate:
		return "lone surrogate"
	case InvalidUTF8:
		return "invalid UTF-8"
	case ExpectedName:
		return "expected a key"
	case ExpectedColon:
		return "expected :"
	case ExpectedMemberEnd:
		return "expected , or }"
	case ExpectedElementEnd:
		return "expected , or ]"
	case DuplicateName:
		return "duplicate key"
	case TrailingData:
		return "unexpected data after the value"
	case NameCase:
		return "key differs from a known one in its case"
	case TooDeep:
		return "nested too deeply"
	case TooManyMembers:
		return "too many keys in one object"
	case TooManyTokens:
		return "too many values in one message"
	case TooLargeExponent:
		return "too many digits in an exponent"
	}
	return "no fault"
}

// Error is a fault and the byte offset at which the scanner noticed it.
type Error struct {
	Fault  Fault
	Offset int
}

// Error implements the error interface.
func (e *Error) Error() string { return e.Fault.String() + " at byte " + strconv.Itoa(e.Offset) }
