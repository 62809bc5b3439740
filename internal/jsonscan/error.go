package jsonscan

import "strconv"

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

// String returns the fault as a phrase, such as "duplicate member name".
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
		return "expected a member name"
	case ExpectedColon:
		return "expected :"
	case ExpectedMemberEnd:
		return "expected , or }"
	case ExpectedElementEnd:
		return "expected , or ]"
	case DuplicateName:
		return "duplicate member name"
	case TrailingData:
		return "unexpected data after the value"
	case NameCase:
		return "member name differs from a known one in its case"
	case TooDeep:
		return "nested too deeply"
	case TooManyMembers:
		return "too many members in one object"
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
