package form

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/mail"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/mcp"
)

// checkText returns nil if text is a valid answer to a question for a string or number.
func (q *question) checkText(text string) error {
	switch {
	case text == "" && q.required:
		return errors.New("an answer is required")
	case text == "" && !q.sendsEmpty():
		return nil
	case q.schema.Type == mcp.TypeString:
		return q.checkString(text)
	}
	return q.checkNumber(text)
}

func (q *question) checkString(text string) error {
	n := int64(utf8.RuneCountInString(text))
	switch least, most := q.schema.MinLength, q.schema.MaxLength; {
	case least != nil && n < *least, most != nil && n > *most:
		return fmt.Errorf("the answer has %d characters; enter %s", n, between(least, most))
	}
	return CheckFormat(q.schema.Format, text)
}

// CheckFormat returns nil if text has the format. The server checks unknown formats.
func CheckFormat(format, text string) error {
	switch format {
	case mcp.FormatEmail:
		if a, err := mail.ParseAddress(text); err != nil || a.Address != text {
			return errors.New("must be an e-mail address, such as ada@example.com")
		}
	case mcp.FormatURI:
		if u, err := url.Parse(text); err != nil || u.Scheme == "" || strings.ContainsRune(text, ' ') {
			return errors.New("must be a URI, such as https://example.com/")
		}
	case mcp.FormatDate:
		if _, err := time.Parse(time.DateOnly, text); err != nil {
			return errors.New("must be a date, such as 2026-07-28")
		}
	case mcp.FormatDateTime:
		if _, err := time.Parse(time.RFC3339, text); err != nil {
			return errors.New("must be a date and time, such as 2026-07-28T19:30:00Z")
		}
	}
	return nil
}

func (q *question) checkNumber(text string) error {
	if !json.Valid([]byte(text)) || strings.TrimSpace(text) != text || strings.IndexByte("-0123456789", text[0]) < 0 {
		return errors.New("must be a number")
	}
	if q.schema.Type == mcp.TypeInteger && strings.ContainsAny(text, ".eE") {
		return errors.New("must be a whole number")
	}
	number, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return errors.New("the number is too large")
	}
	switch least, most := q.schema.Minimum, q.schema.Maximum; {
	case least != nil && number < *least, most != nil && number > *most:
		return fmt.Errorf("enter %s", between(least, most))
	}
	return nil
}

func (q *question) checkMultiple(chosen []int) error {
	n := int64(len(chosen))
	switch least, most := q.schema.MinItems, q.schema.MaxItems; {
	case n == 0 && !q.sendsEmpty():
		return nil
	case least != nil && n < *least, most != nil && n > *most:
		return fmt.Errorf("choose %s", between(least, most))
	}
	return nil
}

// between describes bounds. It returns an empty string if there are none.
func between[N int64 | float64](least, most *N) string {
	switch {
	case least != nil && most != nil && *least == *most:
		return fmt.Sprintf("exactly %v", *least)
	case least != nil && most != nil:
		return fmt.Sprintf("%v to %v", *least, *most)
	case least != nil:
		return fmt.Sprintf("%v or more", *least)
	case most != nil:
		return fmt.Sprintf("at most %v", *most)
	}
	return ""
}

// hint describes the valid answers.
func (q *question) hint() string {
	s := &q.schema
	var kind, bounds string
	switch {
	case s.Type == mcp.TypeArray:
		kind = "select with space or x"
		if bounds = between(s.MinItems, s.MaxItems); bounds != "" {
			bounds = "choose " + bounds
		}
	case q.options != nil, s.Type == mcp.TypeBoolean:
	case s.Type == mcp.TypeInteger:
		kind, bounds = "a whole number", between(s.Minimum, s.Maximum)
	case s.Type == mcp.TypeNumber:
		kind, bounds = "a number", between(s.Minimum, s.Maximum)
	default:
		kind = map[string]string{
			mcp.FormatEmail:    "an e-mail address",
			mcp.FormatURI:      "a URI",
			mcp.FormatDate:     "a date, such as 2026-07-28",
			mcp.FormatDateTime: "a date and time, such as 2026-07-28T19:30:00Z",
		}[s.Format]
		if bounds = between(s.MinLength, s.MaxLength); bounds != "" {
			bounds += " characters"
		}
	}
	var parts []string
	for _, part := range []string{terminal.Line(s.Description), kind, bounds} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, " · ")
}
