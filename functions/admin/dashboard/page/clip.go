package page

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxName bounds a name on a page.
const MaxName = 100

// Clip returns at most n characters of text that anybody may have typed, fit to be shown:
// controls and marks that turn the direction of writing are replaced, so that a name can
// neither hide nor move the text next to it.
func Clip(text string, n int) string {
	var b strings.Builder
	for _, c := range text {
		if n == 0 {
			b.WriteRune('…')
			break
		}
		if unicode.IsControl(c) || unicode.Is(unicode.Bidi_Control, c) {
			c = utf8.RuneError
		}
		b.WriteRune(c)
		n--
	}
	return b.String()
}
