package transport

import (
	"bytes"
	"regexp"
)

// fault finds, in the lines of standard error, the message of the panic or exception that ended the process. The
// stack trace that follows it has no fixed length, and its last line says nothing.
type fault struct {
	text  []byte
	whole bool // false if the next line continues the message
}

// faultLine matches the first line of a panic or an exception of Go, JavaScript, Java, Rust and Python, and of the
// causes that follow it.
var faultLine = regexp.MustCompile(`^(?:panic: |fatal error: |Exception in thread |Caused by: |thread '.*' panicked at |` +
	`(?:Uncaught )?(?:[a-z]\w*\.)*\w*(?:Error|Exception)\b)`)

// traceLine matches the other lines, except indented ones, that a runtime prints with such a message.
var traceLine = regexp.MustCompile(`^(?:goroutine |created by |\[signal |exit status |Node\.js v|note: |stack backtrace:|` +
	`r\w+ +0x|\}$|.*\)$)`)

// see receives the next line.
func (f *fault) see(line []byte) {
	line = bytes.TrimRight(line[:min(len(line), maxFault)], "\r")
	switch {
	case !f.whole && f.text != nil:
		f.text, f.whole = append(append(f.text, ' '), line...), true
	case mayBeFault(line) && faultLine.Match(line):
		f.text = bytes.Clone(line)
		f.whole = !bytes.HasPrefix(line, []byte("thread ")) // the message of Rust is in the next line
	case len(line) == 0 || line[0] == ' ' || line[0] == '\t' || f.text != nil && traceLine.Match(line):
	case f.text != nil:
		f.text = nil // the process has continued
	}
}

// mayBeFault reports whether faultLine can match a line. A program may write a hundred megabytes of lines, and
// most of the time to read them would go into the regular expression.
func mayBeFault(line []byte) bool {
	for _, word := range faultWords {
		if bytes.Contains(line, word) {
			return true
		}
	}
	return false
}

// faultWords lists words: each line that faultLine matches contains one of them.
var faultWords = [][]byte{[]byte("panic: "), []byte("fatal error: "), []byte("Caused by: "), []byte("panicked at "),
	[]byte("Error"), []byte("Exception")}

// maxFault is the maximum length of the text from standard error in ExitError.Error, in bytes.
const maxFault = 256

// message returns the message, or nil if the last lines do not belong to a panic or an exception.
func (f *fault) message() []byte { return f.text[:min(len(f.text), maxFault)] }
