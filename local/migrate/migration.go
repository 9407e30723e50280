package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"tidegate/functions/admin/policydoc"
	"tidegate/internal/policy"
)

// migration is the result of converting an export.
type migration struct {
	policy policydoc.Policy
	rows   []row // in the order of the table
	keys   []importedKey
	// how many things have no equal
	without int
}

// row is a line of the table.
type row struct{ was, becomes string }

const noEqual = "no equal: "

func (m *migration) add(was, becomes string, args ...any) {
	m.rows = append(m.rows, row{was, fmt.Sprintf(becomes, args...)})
	if strings.HasPrefix(becomes, noEqual) {
		m.without++
	}
}

// uniqueName returns a name that no other plan has, of 1 to policy.MaxNameLen characters.
func uniqueName(taken map[string]bool, name, id string) string {
	name = clipped(cmp.Or(strings.TrimSpace(name), id), policy.MaxNameLen)
	if taken[name] {
		suffix := " (" + id + ")"
		name = clipped(name, policy.MaxNameLen-len(suffix)) + suffix
	}
	taken[name] = true
	return name
}

// clipped cuts a text after most characters, and removes those that cannot be printed.
func clipped(text string, most int) string {
	printable := []rune(strings.ToValidUTF8(strings.Join(strings.Fields(text), " "), "?"))
	return string(printable[:min(len(printable), most)])
}

// print writes the table and its totals.
func (m *migration) print(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "WAS\tBECOMES")
	revoked, reissued := 0, 0
	for _, r := range m.rows {
		_, _ = fmt.Fprintf(w, "%s\t%s\n", r.was, r.becomes)
	}
	for _, k := range m.keys {
		if k.revoked {
			revoked++
		}
		if k.value == "" {
			reissued++
		}
	}
	_ = w.Flush() // to the program's own output
	number := func(n int) string { return policydoc.Number(int64(n)) }
	_, _ = fmt.Fprintf(out, "\n%s plans, %s route rules, %s keys: %s with a new value, %s revoked. "+
		"%s lines have no equal.\n", number(len(m.policy.Plans)), number(len(m.policy.Routes)),
		number(len(m.keys)), number(reissued), number(revoked), number(m.without))
}

// write checks the policy and writes it to a file, unless that is empty.
func (m *migration) write(file string) error {
	set, fieldErrors := m.policy.Set(&policy.Set{})
	if err := errors.Join(policy.Invalid(fieldErrors), set.Validate()); err != nil {
		return fmt.Errorf("the policy cannot be saved as it is: %w", err)
	}
	if file == "" {
		return nil
	}
	text, err := policydoc.Write(&set)
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o600)
}
