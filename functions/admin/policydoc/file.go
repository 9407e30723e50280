package policydoc

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"tidegate/internal/policy"
)

// MaxBytes bounds a file. The largest valid set takes half of it.
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
	var invalid *policy.InvalidError
	if errors.As(next.ValidateAfter(current), &invalid) {
		return nil, f.Locate(invalid.Fields)
	}
	return &next, nil
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

const header = `# The policies of Tidegate, version %d: plans, route rules and limits on all callers.
#
# A limit is a number of calls in any window: 100 per 10 seconds. It counts exactly unless
# something follows, with commas between: counter, token bucket or fixed window for
# another algorithm; denied calls count; 5,000 slots; notify at 80/100 %%; shadow, to count
# and never deny. A calendar needs a fixed window: 1,000 per calendar month (Europe/Berlin),
# fixed window. Field by field a limit is {requests: 100, window: 10s}, with algorithm,
# countDenied, slots, calendar, zone, notify and mode where they are wanted. Denied calls
# can count on limits of each caller only.
#
# What is left out of the file is removed when it is imported. To rename a plan write its
# old name next to it: was. Try an import first: a dry run shows every difference. The
# version says what the file was made of; an import based on an older one is refused.

`

// note returns the comment above a section.
func note(section string) string {
	switch section {
	case "plans":
		return "Keys have a plan. degraded says what becomes of calls while Valkey is unavailable: closed, open, " +
			"or local with a share in percent. perGroup limits all keys of one group together."
	case "routes":
		return "Of the rules that match a call the most specific wins; GET covers HEAD unless a rule names " +
			"HEAD. " +
			"A call takes its cost, 1 if none is given; of cost 0 it is not limited.\n" +
			"# sharedLease is for shared what lease is for global. settleMax is the most that settling a " +
			"call charges to limits that callers share,\n" +
			"# 10 times the cost if none is given."
	case "perIP":
		return "Limits per client address."
	case "global":
		return "Global limits. With a lease, such as 1s, environments take shares of them " +
			"for so long and ask less often."
	case "deny":
		return "Addresses that are refused."
	case "allow":
		return "When there are any, all other addresses are refused."
	case "exempt":
		return "Addresses that are not limited."
	case "tokenPlan":
		return "The plan of tokens that name none; addressPlan is that of callers known by address. " +
			"Without one they are refused."
	case "bans":
		return "So many denied calls in a window ban for base, then for twice as long each time, up to cap."
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
