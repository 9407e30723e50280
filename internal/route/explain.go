package route

import (
	"fmt"
	"strings"
)

// Match is a pattern that matches a call.
type Match struct {
	Index  int // in the order given to NewTable
	Won    bool
	Reason string // in words: why it won, or which pattern won and why
}

// Explain lists the patterns that match the call, most specific first. Where Find fails
// with ErrAmbiguous, it lists the patterns of each reading, and none won.
func (t *Table) Explain(c Call) []Match {
	written, lenient := t.all(c, asWritten(c.Path, nil)), []int(nil)
	if !plain(c.Path) {
		lenient = t.all(c, asLenient(c.Path, nil))
	}
	if !plain(c.Path) && winner(written) != winner(lenient) {
		return append(t.ambiguous(written, "as it is written"),
			t.ambiguous(lenient, "once all its encodings and dot-segments are resolved")...)
	}
	var matches []Match
	for i, rank := range written {
		m := Match{Index: t.patterns[rank].index, Won: i == 0, Reason: "won: no other pattern matches"}
		if i > 0 {
			m.Reason = fmt.Sprintf("lost to %s, which %s", t.patterns[written[0]].Pattern,
				difference(t.patterns[written[0]], t.patterns[rank]))
		} else if len(written) > 1 {
			m.Reason = "won: it " + difference(t.patterns[rank], t.patterns[written[1]]) +
				fmt.Sprintf(", unlike %s", t.patterns[written[1]].Pattern)
		}
		if m.Won && t.patterns[rank].asGet(c.Method) {
			m.Reason += "; HEAD follows the rule for GET"
		}
		matches = append(matches, m)
	}
	return matches
}

func (t *Table) all(c Call, path reading) []int {
	var ranks []int
	for rank := range t.patterns {
		if t.patterns[rank].matches(c, path) {
			ranks = append(ranks, rank)
		}
	}
	return ranks
}

func winner(ranks []int) int {
	if len(ranks) == 0 {
		return -1
	}
	return ranks[0]
}

func (t *Table) ambiguous(ranks []int, how string) []Match {
	var matches []Match
	for _, rank := range ranks {
		matches = append(matches, Match{
			Index: t.patterns[rank].index,
			Reason: fmt.Sprintf("matches the path %s, but another reading of the path finds another "+
				"pattern: the call is refused", how),
		})
	}
	return matches
}

// difference describes what the winning pattern has and the losing pattern has not.
func difference(won, lost compiled) string {
	switch {
	case given(won.API) > given(lost.API):
		return "names the API"
	case compare(compiled{path: won.path}, compiled{path: lost.path}) < 0:
		return pathDifference(won.path, lost.path)
	case won.method > lost.method:
		return "names the method " + strings.ToUpper(won.Method)
	}
	return "names the stage"
}

func pathDifference(won, lost []segment) string {
	for i, s := range won {
		if i < len(lost) && s.kind == lost[i].kind {
			continue
		}
		switch s.kind {
		case end:
			return "names the whole path"
		case literal:
			return fmt.Sprintf("has the literal %q as segment %d", s.text, i+1)
		case one:
			return fmt.Sprintf("has exactly one segment in place %d", i+1)
		default:
			return fmt.Sprintf("names the first %d segments", i)
		}
	}
	return "has a longer path"
}
