package policydoc

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"tidegate/internal/limits"
	"tidegate/internal/policy"
)

// MaxBytes bounds a policy file. The largest valid set takes half of it.
const MaxBytes = 2 << 20

// File is a policy document in YAML, as returned by Read.
type File struct {
	Version int64 // version of the set that the file was written from; 0 if it does not say

	document Policy
	lines    map[string]int // line of each field, by path
}

// Set returns the set that the file describes, as an edit of current.
func (f *File) Set(current *policy.Set) policy.Set {
	s, _ := f.document.Set(current) // Read has returned the field errors
	return s
}

// Edit returns the set that the file describes, as a valid edit of current. Its error is
// an *InvalidError with the line of each invalid field.
func (f *File) Edit(current *policy.Set) (*policy.Set, error) {
	next := f.Set(current)
	if fields := f.renameErrors(current, &next); len(fields) > 0 {
		return nil, f.Locate(fields)
	}
	var invalid *policy.InvalidError
	if errors.As(next.Validate(), &invalid) {
		return nil, f.Locate(invalid.Fields)
	}
	return &next, nil
}

// renameErrors refuses a former name whose plan or route another of the file continues too,
// by its name or its former name: one of both would begin without keys or counts.
func (f *File) renameErrors(current, next *policy.Set) (fields []policy.FieldError) {
	add := func(kind string, i int, was, other string) {
		fields = append(fields, policy.FieldError{Field: fmt.Sprintf("%ss[%d].was", kind, i),
			Message: fmt.Sprintf("is %.100q, which %s %.100q continues too: rename one %s, import, "+
				"then rename the next", was, kind, other, kind)})
	}
	for i, p := range next.Plans {
		was := f.document.Plans[i].Was
		taken := slices.IndexFunc(next.Plans, func(q policy.Plan) bool {
			return q.Number == p.Number && q.Name != p.Name
		})
		if p.Number != 0 && taken >= 0 && current.PlanName(p.Number) == was {
			add("plan", i, was, next.Plans[taken].Name)
		}
	}
	for i, r := range next.Routes {
		was := f.document.Routes[i].Was
		taken := slices.IndexFunc(next.Routes, func(q limits.Route) bool {
			return q.ID == r.ID && q.Name != r.Name
		})
		if before, _ := current.Route(was); r.ID != "" && taken >= 0 && before.ID == r.ID {
			add("route", i, was, next.Routes[taken].Name)
		}
	}
	return fields
}

// Locate adds the lines of the file to field errors.
func (f *File) Locate(fields []policy.FieldError) *InvalidError {
	e := &InvalidError{}
	for _, field := range fields {
		e.Problems = append(e.Problems,
			Problem{Line: f.line(field.Field), Field: field.Field, Message: field.Message})
	}
	return e
}

// line returns the line of a field, or of the nearest parent that the file has.
func (f *File) line(path string) int {
	for path != "" {
		if line := f.lines[path]; line > 0 {
			return line
		}
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
	return 1
}

const header = `# Tidegate policies, version %d: plans, limits of all callers, and routes.
#
# A limit says how many, per what time, and with marks after commas for whom and on which
# calls: 100 per 10 seconds, on search, each caller. Every limit that matches a call applies.
# Marks are: on ROUTE; except ROUTE; each caller, group, address, {parameter}, caller and
# {parameter}, or caller and pattern; together; counter, token bucket or fixed window (limits
# count exactly otherwise); denied calls count; notify at 80/100 %%; shadow (counts, and
# denies nothing). 500 calls per minute counts calls, whatever they cost; 30,000 input per
# minute counts the unit input. 1,000 per calendar month (Europe/Berlin) follows the calendar.
#
# An import removes every plan, limit, route and setting that the file lacks. To rename a plan
# or a route, add its old name as was. Try a dry run first: it lists every change. An import is
# refused if the policies have changed since the version that the file names.

`

// note returns the comment above a section.
func note(section string) string {
	switch section {
	case "plans":
		return "Every key has a plan. Its limits are of each caller, unless they say another. degraded " +
			"says what happens\n# to calls while Valkey is unavailable: closed (denied), open (allowed), " +
			"or local with a share in percent.\n# opens has the routes that the plan's keys may call."
	case "limits":
		return "Limits of all callers, whatever their plan. Each says for whom it counts."
	case "routes":
		return "A route names calls, and says what they cost: 1 unless it says another. Each unit is of " +
			"the most specific\n# route that names it. With settle, the backend states the real cost " +
			"after the call."
	case "deny":
		return "Networks whose callers are refused."
	case "allow":
		return "Networks whose callers are admitted; callers from all other networks are refused."
	case "exempt":
		return "Networks whose callers are not limited."
	case "tokenPlan":
		return "Default plan for JWTs that name no plan; addressPlan is the one for callers known by " +
			"address.\n# Without a default plan, such callers are refused."
	}
	return ""
}

// Write returns the file of a set.
func Write(s *policy.Set) ([]byte, error) {
	document := PolicyOf(s)
	var root yaml.Node
	if err := root.Encode(document); err != nil {
		return nil, fmt.Errorf("write policy file: %w", err)
	}
	for i := 0; i+1 < len(root.Content); i += 2 {
		if text := note(root.Content[i].Value); text != "" {
			root.Content[i].HeadComment = "\n# " + text
		}
	}
	quoteMerge(&root)
	var b bytes.Buffer
	fmt.Fprintf(&b, header, s.Version)
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(&root); err != nil {
		return nil, fmt.Errorf("write policy file: %w", err)
	}
	return b.Bytes(), nil
}

// quoteMerge quotes the text "<<". The encoder would write it with a tag, which Read
// refuses.
func quoteMerge(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && n.Value == "<<" {
		n.Tag, n.Style = "!!str", yaml.DoubleQuotedStyle
	}
	for _, child := range n.Content {
		quoteMerge(child)
	}
}
