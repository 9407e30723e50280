package route

import "strings"

// reading has the segments of a path as some program reads them, in lower case.
type reading []string

// plain reports whether all programs read the path alike, except for empty segments and
// the case of letters.
func plain(path string) bool {
	for i := range len(path) {
		if path[i] <= ' ' || path[i] >= 0x7f {
			return false
		}
	}
	return !strings.ContainsAny(path, `%;\`) && !strings.HasPrefix(path, ".") && !strings.Contains(path, "/.")
}

// isBlank reports whether some programs strip r around a segment.
func isBlank(r rune) bool { return r <= ' ' || r == 0x7f }

// asWritten appends the segments of a path to into. It splits first and decodes once.
func asWritten(path string, into reading) reading {
	for text := range strings.SplitSeq(path, "/") {
		if text != "" {
			into = append(into, lower(decodeOnce(text)))
		}
	}
	return into
}

// toASCII replaces overlong UTF-8 of dots and slashes, which decoders must refuse and old
// ones accept (RFC 3629, section 3), and characters that Unicode's NFKC folds to them.
var toASCII = strings.NewReplacer("\xc0\xae", ".", "\xe0\x80\xae", ".", "\xf0\x80\x80\xae", ".", "\xc0\xaf",
	"/", "\xe0\x80\xaf", "/", "\xf0\x80\x80\xaf", "/", "\xc1\x9c", "/", "\xe0\x81\x9c", "/",
	"\xf0\x80\x81\x9c", "/", "\uff0e", ".", "\u2024", ".", "\ufe52", ".", "\u2025", "..", "\uff0f", "/",
	"\uff3c", "/", "\ufe68", "/")

// dotSegment returns a dot-segment without the blanks and control characters around it,
// and without what follows a NUL, as some programs read it. Other text stays as it is.
func dotSegment(text string) string {
	bare, _, _ := strings.Cut(text, "\x00")
	bare = strings.TrimFunc(bare, isBlank)
	if bare == "." || bare == ".." {
		return bare
	}
	return text
}

// asLenient appends the segments to into as a lenient program reads them, which decodes
// and resolves everything.
func asLenient(path string, into reading) reading {
	from := len(into)
	for text := range strings.FieldsFuncSeq(toASCII.Replace(DecodeAll(path)), func(r rune) bool {
		return r == '/' || r == '\\'
	}) {
		text, _, _ = strings.Cut(text, ";")
		text = dotSegment(text)
		switch text {
		case "", ".":
		case "..":
			into = into[:max(from, len(into)-1)]
		default:
			into = append(into, lower(text))
		}
	}
	return into
}

// decodeOnce decodes percent-encoding once. Invalid encodings stay, since an HTTP API may
// have decoded the path already.
func decodeOnce(text string) string {
	if !strings.Contains(text, "%") {
		return text
	}
	decoded := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		if i+2 < len(text) && text[i] == '%' && isHex(text[i+1]) && isHex(text[i+2]) {
			decoded = append(decoded, unhex(text[i+1])<<4|unhex(text[i+2]))
			i += 2
			continue
		}
		decoded = append(decoded, text[i])
	}
	return string(decoded)
}

// DecodeAll decodes percent-encoding until none is left, so that all spellings of a path
// become one. One pass suffices: it decodes an encoding as soon as a character completes
// it.
func DecodeAll(text string) string {
	if !strings.Contains(text, "%") {
		return text
	}
	decoded := make([]byte, 0, len(text))
	for i := range len(text) {
		decoded = append(decoded, text[i])
		for n := len(decoded); n >= 3 && decoded[n-3] == '%' && isHex(decoded[n-2]) &&
			isHex(decoded[n-1]); n = len(decoded) {
			decoded = append(decoded[:n-3], unhex(decoded[n-2])<<4|unhex(decoded[n-1]))
		}
	}
	return string(decoded)
}

func isHex(c byte) bool { return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'f' }

func unhex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c | 0x20 - 'a' + 10
}

// lower converts ASCII letters to lower case. It allocates only if there is a capital.
func lower(text string) string {
	for i := range len(text) {
		if text[i] >= 'A' && text[i] <= 'Z' {
			return string(lowerBytes([]byte(text)))
		}
	}
	return text
}

func lowerBytes(text []byte) []byte {
	for i, c := range text {
		if c >= 'A' && c <= 'Z' {
			text[i] = c + 'a' - 'A'
		}
	}
	return text
}
