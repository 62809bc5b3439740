package schema

import (
	"net/netip"
	"strings"
	"time"
	"unicode/utf8"
)

// format is an assertion of "format".
type format struct {
	name  string
	check func(text string) bool
	units int // the work of a check that is not in proportion to the length of the text
}

// formatNamed returns the check of a format, or nil if there is none. Then the
// format is an annotation. Regular expressions may have maxRegexp bytes.
func formatNamed(name string, maxRegexp int) func(text string) bool {
	switch name {
	case "date-time":
		return isDateTime
	case "date":
		return isDate
	case "time":
		return isTime
	case "duration":
		return isDuration
	case "email":
		return func(s string) bool { return isEmail(s, false) }
	case "idn-email":
		return func(s string) bool { return isEmail(s, true) }
	case "hostname":
		return isHostname
	case "ipv4":
		return isIPv4
	case "ipv6":
		return isIPv6
	case "uri":
		return func(s string) bool { return isURI(s, true, false) }
	case "uri-reference":
		return func(s string) bool { return isURI(s, false, false) }
	case "iri":
		return func(s string) bool { return isURI(s, true, true) }
	case "iri-reference":
		return func(s string) bool { return isURI(s, false, true) }
	case "uri-template":
		return isURITemplate
	case "uuid":
		return isUUID
	case "json-pointer":
		return isJSONPointer
	case "relative-json-pointer":
		return isRelativeJSONPointer
	case "regex":
		return func(s string) bool {
			alone := patterns{limit: maxRegexp}
			return alone.check(s) == nil && alone.get(s) != nil
		}
	}
	return nil
}

// isDateTime reports whether s is a date-time of RFC 3339, section 5.6.
func isDateTime(s string) bool {
	return len(s) > len("2006-01-02T") && s[10]|0x20 == 't' && isDate(s[:10]) && isTime(s[11:])
}

// isDate reports whether s is a full-date of RFC 3339, section 5.6.
func isDate(s string) bool {
	_, err := time.Parse(time.DateOnly, s)
	return err == nil && len(s) == len(time.DateOnly)
}

// isTime reports whether s is a full-time of RFC 3339, section 5.6. A leap second
// is possible only at the end of a day in UTC.
func isTime(s string) bool {
	hour, minute, ok := clock(s)
	if !ok || len(s) < len("15:04:05Z") || s[5] != ':' {
		return false
	}
	second, ok := twoDigits(s[6:], 60)
	if !ok {
		return false
	}
	s = s[8:]
	if s[0] == '.' {
		end := 1
		for end < len(s) && isDigit(s[end]) {
			end++
		}
		if end == 1 || end == len(s) {
			return false
		}
		s = s[end:]
	}
	if s == "Z" || s == "z" {
		return second < 60 || hour == 23 && minute == 59
	}
	if len(s) != len("+00:00") || s[0] != '+' && s[0] != '-' {
		return false
	}
	offsetHour, offsetMinute, ok := clock(s[1:])
	if !ok {
		return false
	}
	offset := offsetHour*60 + offsetMinute
	if s[0] == '+' {
		offset = -offset
	}
	const day = 24 * 60
	return second < 60 || (hour*60+minute+offset+day)%day == day-1
}

// clock reads the hour and the minute at the beginning of s.
func clock(s string) (hour, minute int, ok bool) {
	if len(s) < len("15:04") || s[2] != ':' {
		return 0, 0, false
	}
	hour, okHour := twoDigits(s, 23)
	minute, okMinute := twoDigits(s[3:], 59)
	return hour, minute, okHour && okMinute
}

// twoDigits reads the number that the first two bytes of s spell.
func twoDigits(s string, most int) (int, bool) {
	if len(s) < 2 || !isDigit(s[0]) || !isDigit(s[1]) {
		return 0, false
	}
	n := int(s[0]-'0')*10 + int(s[1]-'0')
	return n, n <= most
}

func isDigit(b byte) bool { return '0' <= b && b <= '9' }

func isHex(b byte) bool { return isDigit(b) || 'a' <= b|0x20 && b|0x20 <= 'f' }

func isLetter(b byte) bool { return 'a' <= b|0x20 && b|0x20 <= 'z' }

// isDuration reports whether s is a duration of RFC 3339, appendix A.
func isDuration(s string) bool {
	s, ok := strings.CutPrefix(s, "P")
	if !ok {
		return false
	}
	if weeks, ok := strings.CutSuffix(s, "W"); ok {
		return weeks != "" && strings.Trim(weeks, "0123456789") == ""
	}
	date, clock, hasTime := strings.Cut(s, "T")
	if hasTime && clock == "" || s == "" {
		return false
	}
	return hasUnits(date, "YMD") && hasUnits(clock, "HMS")
}

// hasUnits reports whether s is a sequence of numbers with units in the order that
// is given.
func hasUnits(s, units string) bool {
	for s != "" {
		digits := 0
		for digits < len(s) && isDigit(s[digits]) {
			digits++
		}
		if digits == 0 || digits == len(s) {
			return false
		}
		unit := strings.IndexByte(units, s[digits])
		if unit < 0 {
			return false
		}
		s, units = s[digits+1:], units[unit+1:]
	}
	return true
}

// isEmail reports whether s is a mailbox of RFC 5321, section 4.1.2, or with
// international set of RFC 6531.
func isEmail(s string, international bool) bool {
	at := strings.LastIndexByte(s, '@')
	if at <= 0 || len(s) > 254 || at > 64 {
		return false
	}
	local, domain := s[:at], s[at+1:]
	if !isQuotedLocalPart(local) && !isDotAtom(local, international) {
		return false
	}
	if literal, ok := strings.CutPrefix(domain, "["); ok {
		literal, ok = strings.CutSuffix(literal, "]")
		if address, v6 := strings.CutPrefix(literal, "IPv6:"); v6 {
			return ok && isIPv6(address)
		}
		return ok && isIPv4(literal)
	}
	if international && !isASCII(domain) {
		return isInternationalDomain(domain)
	}
	return isHostname(domain)
}

func isQuotedLocalPart(s string) bool {
	if len(s) < 2 || s[0] != '"' || s[len(s)-1] != '"' {
		return false
	}
	for i := 1; i < len(s)-1; i++ {
		switch b := s[i]; {
		case b == '\\' && i+1 < len(s)-1:
			i++
		case b == '\\', b == '"', b < ' ', b >= 0x7f:
			return false
		}
	}
	return true
}

func isDotAtom(s string, international bool) bool {
	for atom := range strings.SplitSeq(s, ".") {
		if atom == "" {
			return false
		}
		for i := range len(atom) {
			b := atom[i]
			switch {
			case isLetter(b), isDigit(b), strings.IndexByte("!#$%&'*+-/=?^_`{|}~", b) >= 0:
			case b >= utf8.RuneSelf && international:
			default:
				return false
			}
		}
	}
	return true
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// isInternationalDomain reports whether each label of s is present and free of
// ASCII characters that a host name cannot contain. It does not check Unicode.
func isInternationalDomain(s string) bool {
	for label := range strings.SplitSeq(s, ".") {
		if label == "" {
			return false
		}
		for i := range len(label) {
			if b := label[i]; b < utf8.RuneSelf && !isLetter(b) && !isDigit(b) && b != '-' {
				return false
			}
		}
	}
	return true
}

// isHostname reports whether s is a host name of RFC 1123, section 2.1.
func isHostname(s string) bool {
	if len(s) > 253 {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		if len(label) >= 4 && label[2] == '-' && label[3] == '-' && !strings.EqualFold(label[:2], "xn") {
			return false // reserved, RFC 5891, section 4.2.3.1
		}
		for i := range len(label) {
			if b := label[i]; !isLetter(b) && !isDigit(b) && b != '-' {
				return false
			}
		}
	}
	return true
}

// isIPv4 reports whether s is a dotted quad without leading zeros.
func isIPv4(s string) bool {
	address, err := netip.ParseAddr(s)
	return err == nil && address.Is4()
}

// isIPv6 reports whether s is an IPv6 address without zone.
func isIPv6(s string) bool {
	address, err := netip.ParseAddr(s)
	return err == nil && address.Is6() && address.Zone() == "" && strings.IndexByte(s, '%') < 0
}

// isUUID reports whether s is a UUID of RFC 4122.
func isUUID(s string) bool {
	if len(s) != len("00000000-0000-0000-0000-000000000000") {
		return false
	}
	for i := range len(s) {
		switch i {
		case 8, 13, 18, 23:
			if s[i] != '-' {
				return false
			}
		default:
			if !isHex(s[i]) {
				return false
			}
		}
	}
	return true
}

// isJSONPointer reports whether s is a JSON Pointer of RFC 6901.
func isJSONPointer(s string) bool {
	if s != "" && s[0] != '/' {
		return false
	}
	for i := range len(s) {
		if s[i] == '~' && (i+1 == len(s) || s[i+1] != '0' && s[i+1] != '1') {
			return false
		}
	}
	return true
}

// isRelativeJSONPointer reports whether s is a Relative JSON Pointer.
func isRelativeJSONPointer(s string) bool {
	digits := 0
	for digits < len(s) && isDigit(s[digits]) {
		digits++
	}
	if digits == 0 || digits > 1 && s[0] == '0' {
		return false
	}
	return s[digits:] == "#" || isJSONPointer(s[digits:])
}
