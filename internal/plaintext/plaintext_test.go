package plaintext

import (
	"testing"

	"github.com/parley-mcp/parley/internal/must"
)

func TestInvisibleCharactersAreReplaced(t *testing.T) {
	for text, want := range map[string]string{
		"plain é 漢字 שלום":                        "plain é 漢字 שלום",
		"a\x1bb\u009bc\n":                        "a<U+001B>b<U+009B>c<U+000A>",
		"a\u202eb\u2028\u2029\u200b\u00ad\ufeff": "a<U+202E>b<U+2028><U+2029><U+200B><U+00AD><U+FEFF>",
		// variation selectors
		"pay\ufe0f pay\U000e0100 pay\u180b": "pay<U+FE0F> pay<U+E0100> pay<U+180B>",
		// fillers and blanks
		"\u115f\u1160\u3164\uffa0\u2800\u034f":          "<U+115F><U+1160><U+3164><U+FFA0><U+2800><U+034F>",
		"\u17b4\u2065\U000e0041\U000e0fff":              "<U+17B4><U+2065><U+E0041><U+E0FFF>",
		"❤\ufe0f ⚠\ufe0e 👩\u200d💻 👍🏽 🏳\ufe0f\u200d🌈":    "❤\ufe0f ⚠\ufe0e 👩\u200d💻 👍🏽 🏳\ufe0f\u200d🌈",
		"❤\ufe0f\ufe0f a\u200db 👩\u200d 👩\u200d\u200d💻": "❤\ufe0f<U+FE0F> a<U+200D>b 👩<U+200D> 👩<U+200D><U+200D>💻",
		"\xff": "\ufffd",
	} {
		must.CheckEqual(t, Replace(text, CodePoint), want, text)
	}
}
