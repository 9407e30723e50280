package dashboard

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
)

// limitsForm is an edit as it was typed.
type limitsForm struct {
	version int64 // of the key that the edit is based on
	rows    []limitInput
	wrong   string // what is wrong with the limits as a whole
}

func newLimitsForm(k policy.Key, limits []limiter.Limit) limitsForm {
	f := limitsForm{version: k.Version}
	for _, l := range limits {
		f.rows = append(f.rows, newLimitInput(l))
	}
	return f
}

// readLimitsForm reads what a browser sent. It fails for a form that is not ours.
func readLimitsForm(values url.Values) (limitsForm, error) {
	version, err := strconv.ParseInt(values.Get("version"), 10, 64)
	if err != nil {
		return limitsForm{}, fmt.Errorf("version: %w", err)
	}
	f := limitsForm{version: version}
	for i := 0; values.Has(rowField(i) + ".requests"); i++ {
		if i == limiter.MaxLimits {
			return limitsForm{}, errors.New("more limits than the form offers")
		}
		f.rows = append(f.rows, readLimitInput(values, rowField(i)+"."))
	}
	return f, nil
}

// rowField is the name of a row's fields up to the dot, the same that policy.FieldError uses.
func rowField(i int) string { return fmt.Sprintf("limits[%d]", i) }

// add appends a blank row.
func (f *limitsForm) add() {
	if len(f.rows) < limiter.MaxLimits {
		f.rows = append(f.rows, limitInput{unit: input{text: "second"}, algorithm: input{text: limiter.Log.String()}})
	}
}

// remove takes away the row with this index, if there is one.
func (f *limitsForm) remove(index string) {
	if i, err := strconv.Atoi(index); err == nil && i >= 0 && i < len(f.rows) {
		f.rows = append(f.rows[:i], f.rows[i+1:]...)
	}
}

// limits returns the limits that were typed, and the row of each. The form keeps what is wrong with them.
func (f *limitsForm) limits() (limits []limiter.Limit, rows []int) {
	for i := range f.rows {
		if row := &f.rows[i]; !row.blank() {
			limits, rows = append(limits, row.limit()), append(rows, i)
		}
	}
	if len(limits) == 0 {
		f.wrong = "A key needs at least one limit."
	}
	return limits, rows
}

// blame notes what the store found wrong. rows holds the row of each limit that it was given.
func (f *limitsForm) blame(invalid *policy.InvalidError, rows []int) {
	for _, e := range invalid.Fields {
		if in := f.find(e.Field, rows); in != nil {
			in.wrong = sentence(e.Message)
		} else {
			f.wrong = sentence(e.Message)
		}
	}
}

func (f *limitsForm) find(field string, rows []int) *input {
	for limit, row := range rows {
		if name, ok := strings.CutPrefix(field, rowField(limit)+"."); ok {
			return f.rows[row].find(name)
		}
	}
	return nil
}

// errors counts the fields that are wrong.
func (f *limitsForm) errors() int {
	n := 0
	for i := range f.rows {
		n += f.rows[i].errors()
	}
	return n
}

func (f *limitsForm) valid() bool { return f.wrong == "" && f.errors() == 0 }
