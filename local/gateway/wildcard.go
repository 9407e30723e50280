package gateway

// matches reports whether text matches the pattern, in which * stands for any characters
// and ? for one. Patterns come from an authorizer's answer, so the time is bounded by the
// product of the lengths.
func matches(pattern, text string) bool {
	p, t := 0, 0
	star, from := -1, 0 // the last *, and the end of the text that it matches
	for t < len(text) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, from = p, t
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == text[t]):
			p++
			t++
		case star >= 0:
			from++
			p, t = star+1, from
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}
