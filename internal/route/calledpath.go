package route

import "strings"

// reading has the segments of a path as some program reads them, in lower case.
type reading []string

// plain reports whether all programs read the path alike, except for empty segments and
// the case of letters.
func plain(path string) bool {
	return !strings.ContainsAny(path, `%;\`) && !strings.HasPrefix(path, ".") && !strings.Contains(path, "/.")
}

// asWritten appends the segments of a path to into. It splits first and decodes once.
func asWritten(path string, into reading) reading {
	for text := range strings.SplitSeq(path, "/") {
		if text != "" {
			into = append(into, lower(decodeOnce(text)))
		}
	}
	return into
}

// asLenient appends the segments to into as a lenient program reads them, which decodes
// and resolves everything.
func asLenient(path string, into reading) reading {
	from := len(into)
	for text := range strings.FieldsFuncSeq(DecodeAll(path), func(r rune) bool {
		return r == '/' || r == '\\'
	}) {
		text, _, _ = strings.Cut(text, ";")
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
