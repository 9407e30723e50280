package migrate

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"tidegate/internal/policy"
)

// addCut adds a row if a name is too long.
func (m *migration) addCut(name string, maxLen int) {
	if utf8.RuneCountInString(strings.TrimSpace(name)) > maxLen {
		m.add("  name", noEquivalent+"it is cut to %d characters", maxLen)
	}
}

// nameOf returns a valid name: text, or other if a name cannot be made of it.
func nameOf(text, other string) string {
	name := clipped(text, policy.MaxNameLen)
	if policy.TextProblem(name, policy.MaxNameLen) != "" {
		return clipped(other, policy.MaxNameLen)
	}
	return name
}

// planName returns a unique name of a plan. A name of invisible characters becomes the id.
// A name that another plan has gets the id as a suffix.
func (m *migration) planName(name, id string) string {
	suffix := " (" + clipped(id, policy.MaxNameLen) + ")"
	if utf8.RuneCountInString(suffix) > policy.MaxNameLen/2 {
		suffix = ""
	}
	return m.unique(nameOf(name, id), suffix)
}

// unique returns a name that looks like no other, of 1 to policy.MaxNameLen characters. A
// name that is taken gets the suffix, or a number where the suffix is empty or taken as
// well.
func (m *migration) unique(name, suffix string) string {
	if m.taken == nil {
		m.taken, m.numbers = map[string]bool{}, map[string]int{}
	}
	name = clipped(name, policy.MaxNameLen)
	unique := name
	if suffix != "" && m.taken[policy.Looks(unique)] {
		unique = suffixed(name, suffix)
	}
	for n := m.numbers[name] + 1; m.taken[policy.Looks(unique)]; n++ {
		m.numbers[name] = n
		unique = suffixed(name, fmt.Sprintf(" (%d)", n+1))
	}
	m.taken[policy.Looks(unique)] = true
	return unique
}

// suffixed returns a name of at most policy.MaxNameLen characters that ends in suffix.
func suffixed(name, suffix string) string {
	return clipped(name, policy.MaxNameLen-utf8.RuneCountInString(suffix)) + suffix
}

// clipped returns text with single spaces, cut to a maximum number of characters. Bytes
// that are not UTF-8 become question marks, and characters that a text must not have are
// escaped.
func clipped(text string, maxLen int) string {
	characters := []rune(escaped(strings.ToValidUTF8(strings.Join(strings.Fields(text), " "), "?"), ""))
	return strings.TrimSpace(string(characters[:min(len(characters), maxLen)]))
}

// escaped returns text with \x1b for ESC, and likewise for other characters that a text
// must not have, but those in kept.
func escaped(text, kept string) string {
	var b strings.Builder
	for _, r := range text {
		if policy.IsText(r) || strings.ContainsRune(kept, r) {
			b.WriteRune(r)
		} else {
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
	}
	return b.String()
}

// printable writes lines to a terminal. It escapes what controls one, which names of an
// export may have. Every Write must end between two characters.
type printable struct{ io.Writer }

// Write implements io.Writer.
func (p printable) Write(text []byte) (int, error) {
	if _, err := io.WriteString(p.Writer, escaped(string(text), "\n")); err != nil {
		return 0, err
	}
	return len(text), nil
}
