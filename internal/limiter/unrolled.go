package limiter

import (
	_ "embed" // the template
	"strconv"
	"strings"
	"text/template"
)

//go:embed counts.lua
var countsLua string

// mostCounters is up to how many counters on one subject have a way of their own.
const mostCounters = 4

// counters returns the Lua code that makes the step for a number of counters.
func counters(count int) string {
	each := func(text, separator string) string {
		parts := make([]string, count)
		for i := range parts {
			parts[i] = strings.ReplaceAll(text, "#", strconv.Itoa(i+1))
		}
		return strings.Join(parts, separator)
	}
	t := template.Must(template.New("counts.lua").Funcs(template.FuncMap{
		"list":   func(text string) string { return each(text, ", ") },
		"all":    func(text string) string { return each(text, " and ") },
		"repeat": func(text string) string { return strings.Repeat(text, count) },
	}).Parse(countsLua))
	indices := make([]int, count)
	for i := range indices {
		indices[i] = i + 1
	}
	signature := 2 + sectionLen*count
	var out strings.Builder
	err := t.Execute(&out, map[string]any{
		"Count": count, "Each": indices, "Program": 2 + signature + limitLen*count, "State": signature + countLen*count,
		"Signature": signature, "Limits": 2 + signature, "Sections": signature + 1,
		"Code":    count<<24 | countLen*count<<16 | programVersion<<8 | count,
		"First":   signature + countLen - 4,
		"Rest":    strings.Repeat("I7I4I4", count-1),
		"Written": strings.TrimPrefix(each("start#, prev#, cur# + cost", ", "), "start1, prev1, "),
	})
	if err != nil {
		panic(err) // the template is part of the program
	}
	return out.String()
}
