package policydoc

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

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
	if fields := f.renameErrors(current, next.Plans); len(fields) > 0 {
		return nil, f.Locate(fields)
	}
	var invalid *policy.InvalidError
	if errors.As(next.Validate(), &invalid) {
		return nil, f.Locate(invalid.Fields)
	}
	return &next, nil
}

// renameErrors refuses a former name whose plan another plan of the file continues too, by
// its name or its former name: one of both would begin without the keys that it had.
func (f *File) renameErrors(current *policy.Set, plans []policy.Plan) (fields []policy.FieldError) {
	for i, p := range plans {
		was := f.document.Plans[i].Was
		taken := slices.IndexFunc(plans, func(q policy.Plan) bool {
			return q.Number == p.Number && q.Name != p.Name
		})
		if p.Number != 0 && taken >= 0 && current.PlanName(p.Number) == was {
			fields = append(fields, policy.FieldError{Field: fmt.Sprintf("plans[%d].was", i),
				Message: fmt.Sprintf("is %.100q, which plan %.100q continues too: rename one plan, import, "+
					"then rename the next", was, plans[taken].Name)})
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

const header = `# Tidegate policies, version %d: plans, route rules and limits.
#
# A limit is a cost in any window: 100 per 10 seconds. A call costs 1 unless its route rule
# has another cost. A limit of 500 calls per minute counts calls, whatever they cost. Limits
# count exactly, unless an option names another algorithm: counter, token bucket or fixed
# window. Further options are: denied calls count (only in exact limits of one caller);
# 5,000 slots; notify at 80/100 %%; shadow (count, but never deny). Separate options by
# commas. A calendar needs a fixed window: 1,000 per calendar month (Europe/Berlin), fixed
# window. Instead of text, a limit can be a mapping: {requests: 100, window: 10s}, with the
# optional fields algorithm, counts, countDenied, slots, calendar, zone, notify and mode.
#
# An import removes every plan, rule and setting that the file lacks. To rename a plan, add
# its old name as was. Try a dry run first: it lists every change. An import is refused if
# the policies have changed since the version that the file names.

`

// note returns the comment above a section.
func note(section string) string {
	switch section {
	case "plans":
		return "Every key has a plan. degraded says what happens to calls while Valkey is unavailable: " +
			"closed\n# (denied), open (allowed), or local with a share in percent. perGroup limits the " +
			"keys of a group together."
	case "routes":
		return "The most specific rule that matches a call applies; GET covers HEAD unless a rule names " +
			"HEAD. A call takes\n# its cost, by default 1; a call of cost 0 is not limited. settleMax is " +
			"the most that a settlement\n# charges to shared limits, by default 10 times the cost."
	case "perIP":
		return "Limits per client address."
	case "global":
		return "Global limits."
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
	for i, r := range document.Routes {
		if *r.Cost == 1 {
			document.Routes[i].Cost = nil
		}
	}
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
