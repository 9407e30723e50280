package limiter

import (
	_ "embed" // the template
	"strconv"
	"strings"
)

//go:embed counts.lua
var countsLua string

// mostCounters is up to how many counters on one subject have a way of their own.
const mostCounters = 4

// counters returns the Lua code that makes the step for a number of counters: counts.lua,
// in which
//
//	{{list TEXT}}    is TEXT for each counter, with its number in place of #, between commas
//	{{all TEXT}}     likewise between ands
//	{{repeat TEXT}}  is TEXT for each counter
//	{{each TEXT}}    likewise with its number in place of #
//
// and everything else in such braces a number of the layout.
func counters(count int) string {
	signature := 2 + sectionLen*count
	layout := map[string]int{
		"count": count, "program length": 2 + signature + limitLen*count, "state length": signature + countLen*count,
		"signature length": signature, "signature end": 2 + signature, "sections": signature + 1,
		"header": count<<24 | countLen*count<<16 | programVersion<<8 | count,
	}
	var out strings.Builder
	for rest := countsLua; ; {
		text, after, found := strings.Cut(rest, "{{")
		out.WriteString(text)
		if !found {
			return out.String()
		}
		directive, after, _ := strings.Cut(after, "}}")
		if number, ok := layout[directive]; ok {
			out.WriteString(strconv.Itoa(number))
		} else {
			out.WriteString(unrolled(directive, count))
		}
		rest = after
	}
}

// unrolled carries out a directive that repeats its text.
func unrolled(directive string, count int) string {
	verb, text, _ := strings.Cut(directive, " ")
	separator := map[string]string{"list": ", ", "all": " and "}[verb]
	parts := make([]string, count)
	for i := range parts {
		parts[i] = strings.ReplaceAll(text, "#", strconv.Itoa(i+1))
	}
	return strings.Join(parts, separator)
}
