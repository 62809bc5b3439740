// Package secretname recognizes secrets by their names: fields of messages, settings of servers, and headers.
package secretname

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// IsField reports whether the name of a field in a message says that its value is secret, such as password, apiKey or
// accessToken. A field named key or maxTokens is not.
func IsField(name string) bool {
	words := Words(name)
	if len(words) == 0 || slices.Equal(words, []string{"progress", "token"}) {
		return false
	}
	for _, w := range words {
		switch w {
		case "password", "passwd", "pwd", "passphrase", "passcode", "secret", "secrets", "credential", "credentials",
			"authorization", "apikey", "bearer":
			return true
		}
	}
	last := words[len(words)-1]
	if last == "token" || last == "cookie" || last == "otp" || last == "pin" {
		return true
	}
	if last == "key" && len(words) > 1 {
		return slices.Contains([]string{"api", "private", "access", "auth", "secret", "encryption", "signing"},
			words[len(words)-2])
	}
	return false
}

// secretSetting matches further names of settings that are secret, and publicSetting those of settings that contain
// such a word: switches, directories, and programs that ask for a password.
var (
	secretSetting = regexp.MustCompile(`(?i)(authorization|token|secret|passw|passphrase|api[-_]?key|access[-_]?key|` +
		`private[-_]?key|credential|cookie|^key$|[-_]key$|[-_]auth$|pass$|[-_]pwd$)`)
	publicSetting = regexp.MustCompile(`(?i)(askpass|bypass|compass|` +
		`^(no|use|skip|enable|disable|require)[-_]auth|^old[-_]?pwd)$`)
)

// IsSetting reports whether a variable, flag, parameter or header with a name is probably secret. More names are than
// of fields, such as STRIPE_KEY and DB_PASS: a setting that is not a secret seldom has such a name.
func IsSetting(name string) bool {
	return (IsField(name) || secretSetting.MatchString(name)) && !publicSetting.MatchString(name) &&
		name != "PWD" // the variable with the working directory
}

// headers are the headers with credentials whose names do not say so.
var headers = []string{"Dpop", "Proxy-Authorization", "Set-Cookie", "X-Auth"}

// IsHeader reports whether a header is secret. Further has the names of others that are secret here, such as those in
// callerHeaders of a configuration; it may be nil.
func IsHeader(name string, further []string) bool {
	name = http.CanonicalHeaderKey(name)
	return IsSetting(name) || slices.Contains(headers, name) ||
		slices.ContainsFunc(further, func(f string) bool { return http.CanonicalHeaderKey(f) == name })
}

// Words splits a name such as clientSecret, client_secret or Client-Secret into its words, in lower case.
func Words(name string) []string {
	var words []string
	start := 0
	runes := []rune(name)
	add := func(end int) {
		if end > start {
			words = append(words, strings.ToLower(string(runes[start:end])))
		}
	}
	for i, c := range runes {
		switch {
		case !unicode.IsLetter(c) && !unicode.IsDigit(c):
			add(i)
			start = i + 1
		case unicode.IsUpper(c) && i > start &&
			(!unicode.IsUpper(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])):
			add(i)
			start = i
		}
	}
	add(len(runes))
	return words
}
