package route

import (
	"cmp"
	"slices"
	"strings"
)

// compare orders patterns, most specific first. Two equal patterns tie, or differ in
// literals and never match the same call.
func compare(a, b compiled) int {
	return cmp.Or(
		given(b.API)-given(a.API),
		slices.CompareFunc(b.path, a.path, func(x, y segment) int { return cmp.Compare(x.kind, y.kind) }),
		cmp.Compare(b.method, a.method),
		given(b.Stage)-given(a.Stage),
	)
}

func given(field string) int {
	if matchesAny(field) {
		return 0
	}
	return 1
}

// Ties returns the pairs of indices of patterns that match the same calls with equal
// specificity. Each is paired with the first such pattern. Invalid patterns never tie.
func Ties(patterns []Pattern) [][2]int {
	var ties [][2]int
	first := map[string]int{}
	for i, p := range patterns {
		if p.Validate() != nil {
			continue
		}
		if j, found := first[p.canonical()]; found {
			ties = append(ties, [2]int{j, i})
		} else {
			first[p.canonical()] = i
		}
	}
	return ties
}

// canonical returns the same text for patterns that match the same calls. Spaces and
// slashes separate its parts, which contain neither.
func (p Pattern) canonical() string {
	text := orAny(p.API) + " " + orAny(p.Stage) + " " + lower(orAny(p.Method)) + " "
	path, _ := parsePath(p.Path)
	for _, s := range path {
		text += "/" + [...]string{anyPath: "**", rest: "*", one: "{}", literal: "=" + s.text, end: ""}[s.kind]
	}
	return strings.TrimSpace(text)
}

// Order returns the indices of valid patterns, most specific first. Equally specific
// patterns keep their order.
func Order(patterns []Pattern) []int {
	all := make([]compiled, len(patterns))
	for i, p := range patterns {
		all[i] = compile(i, p)
	}
	slices.SortStableFunc(all, compare)
	order := make([]int, len(all))
	for rank, c := range all {
		order[rank] = c.index
	}
	return order
}
