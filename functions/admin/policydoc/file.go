package policydoc

import (
	"errors"
	"strings"

	"tidegate/internal/policy"
)

// MaxBytes bounds a file. The largest Set there may be takes half of it.
const MaxBytes = 2 << 20

// File is a Policy as it was written down in YAML.
type File struct {
	// Version is the one that the file was made of; 0 when it does not say.
	Version int64

	document Policy
	lines    map[string]int // of each field, by its path
}

// Set returns the Set that the file describes, as an edit of current.
func (f *File) Set(current *policy.Set) policy.Set {
	s, _ := f.document.Set(current) // Read reported what cannot be read
	return s
}

// Edit returns the Set that the file describes, as an edit of current that may be saved.
// Its error is an *InvalidError with the line of each bound that is broken.
func (f *File) Edit(current *policy.Set) (*policy.Set, error) {
	next := f.Set(current)
	var invalid *policy.InvalidError
	if errors.As(next.ValidateAfter(current), &invalid) {
		return nil, f.Locate(invalid.Fields)
	}
	return &next, nil
}

// Locate returns the errors in fields of a Set with the lines of the file where they
// stand.
func (f *File) Locate(fields []policy.FieldError) *InvalidError {
	e := &InvalidError{}
	for _, field := range fields {
		e.Problems = append(e.Problems,
			Problem{Line: f.line(field.Field), Field: field.Field, Message: field.Message})
	}
	return e
}

// line is where a field stands, or the nearest that it belongs to.
func (f *File) line(path string) int {
	for path != "" {
		if line := f.lines[path]; line > 0 {
			return line
		}
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
	return 1
}
